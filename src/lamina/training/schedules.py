"""Learning-rate schedules: pure functions of progress in [0, 1] that return a share of the highest rate.

Each rises from 0 over the share `warmup` of the run. Then:

- linear falls to 0 (Devlin et al. 2019).
- cosine falls to 0 along half a wave. With hard restarts it does so several times, each from the highest rate (Loshchilov
  and Hutter 2017; paper 000 names it as future work).
- exponential multiplies the rate by `decay` after every `decay_every` epochs (paper 002: by 0.96 after each epoch).
- constant stays.

Departure: the loop uses the progress at the middle of a step, so that the first step does not have the rate 0.
"""

from __future__ import annotations

import math
from typing import Literal, Protocol

Schedule = Literal["linear", "cosine", "cosine_restarts", "exponential", "constant"]


class Scheduled(Protocol):
    """The options of a schedule; see `TrainOptions`."""

    @property
    def schedule(self) -> Schedule: ...
    @property
    def warmup(self) -> float: ...
    @property
    def cycles(self) -> int: ...
    @property
    def decay(self) -> float: ...
    @property
    def decay_every(self) -> float: ...


def share_of_peak(options: Scheduled, progress: float, epochs: float) -> float:
    """Return the share of the highest rate after the share `progress` of a run of `epochs` epochs."""
    match options.schedule:
        case "linear":
            return linear(progress, options.warmup)
        case "cosine":
            return cosine(progress, options.warmup)
        case "cosine_restarts":
            return cosine_restarts(progress, options.warmup, options.cycles)
        case "exponential":
            return exponential(progress, options.warmup, options.decay, epochs / options.decay_every)
        case "constant":
            return constant(progress, options.warmup)


def linear(progress: float, warmup: float) -> float:
    """Return a share that falls to 0 in a straight line.

    >>> [linear(p, 0.2) for p in (0.0, 0.1, 0.2, 0.6, 1.0)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if progress < warmup:
        return progress / warmup
    return (1 - progress) / (1 - warmup)


def cosine(progress: float, warmup: float) -> float:
    """Return a share that falls to 0 along half a cosine wave: slowly, fast, slowly.

    >>> [round(cosine(p, 0.2), 6) for p in (0.1, 0.2, 0.6, 1.0)]
    [0.5, 1.0, 0.5, 0.0]
    """
    return cosine_restarts(progress, warmup, 1)


def cosine_restarts(progress: float, warmup: float, cycles: int) -> float:
    """Return a share that falls to 0 along half a cosine wave `cycles` times; each starts at the highest rate.

    >>> [round(cosine_restarts(p, 0.0, 2), 6) for p in (0.0, 0.25, 0.5, 0.75, 1.0)]
    [1.0, 0.5, 1.0, 0.5, 0.0]
    """
    if progress < warmup:
        return progress / warmup
    if progress >= 1:
        return 0.0
    waves = cycles * (progress - warmup) / (1 - warmup)
    return (1 + math.cos(math.pi * (waves % 1))) / 2


def exponential(progress: float, warmup: float, decay: float, epochs: float) -> float:
    """Return a share that is constant within an epoch and is multiplied by `decay` after each.

    >>> [exponential(p, 0.0, 0.5, 2.5) for p in (0.0, 0.39, 0.41, 0.81, 1.0)]
    [1.0, 1.0, 0.5, 0.25, 0.25]
    """
    last = max(0, math.ceil(epochs) - 1)  # the end of training belongs to the last epoch
    return constant(progress, warmup) * decay ** min(math.floor(progress * epochs), last)


def constant(progress: float, warmup: float) -> float:
    """Return a share that stays at the highest rate.

    >>> [constant(p, 0.2) for p in (0.0, 0.1, 0.2, 1.0)]
    [0.0, 0.5, 1.0, 1.0]
    """
    return progress / warmup if progress < warmup else 1.0
