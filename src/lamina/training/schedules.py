"""Learning-rate schedules: pure functions of progress in [0, 1]."""

from __future__ import annotations


def linear(progress: float, warmup: float) -> float:
    """Rises from 0 to 1 over the first `warmup` of training, then falls to 0.

    >>> [linear(p, 0.2) for p in (0.0, 0.1, 0.2, 0.6, 1.0)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if progress < warmup:
        return progress / warmup
    return (1 - progress) / (1 - warmup)


def constant(progress: float, warmup: float) -> float:
    """Rises from 0 to 1 over the first `warmup` of training, then stays.

    >>> [constant(p, 0.2) for p in (0.0, 0.1, 0.2, 1.0)]
    [0.0, 0.5, 1.0, 1.0]
    """
    return progress / warmup if progress < warmup else 1.0


SCHEDULES = {"linear": linear, "constant": constant}
