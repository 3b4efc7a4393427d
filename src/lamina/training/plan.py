"""The plan: which windows make up which step. Pure, so that a resumed run and a longer run see the same steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from lamina.data.batches import pack

Longs = npt.NDArray[np.int64]
Plan = Sequence[tuple[int, Longs]]  # the epoch and the windows of every step

POOL = 1024  # windows that are sorted by length together: enough for hardly any padding, few enough to stay random


def plan_epoch(seed: int, epoch: int, lengths: Longs, *, tokens: int, windows: int | None = None) -> list[Longs]:
    """The steps of one epoch, each an array of window numbers of about equal length.

    A step holds as many windows as `tokens` allows when padded, or exactly `windows` (the last of a pool may hold fewer).
    """
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(lengths))
    budget = tokens if windows is None else int(lengths.max()) * windows
    steps = []
    for first in range(0, len(order), POOL):
        pool = order[first : first + POOL]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        steps += [pool[run] for run in pack(lengths[pool], budget, windows)]
    return [steps[i] for i in random.permutation(len(steps))]


def plan_steps(
    seed: int, epochs: float, lengths: Longs, *, tokens: int, windows: int | None = None
) -> Iterator[tuple[int, Longs]]:
    """(epoch, windows) of every step. A fraction of an epoch is a prefix of it."""
    for epoch in range(int(np.ceil(epochs))):
        steps = plan_epoch(seed, epoch, lengths, tokens=tokens, windows=windows)
        count = round(min(1.0, epochs - epoch) * len(steps))
        yield from ((epoch, step) for step in steps[: max(1, count)])


def evaluation_points(plan: Plan, windows: int, every: float) -> set[int]:
    """After how many steps to evaluate: about every `every` epochs of `windows` windows, and at the end.

    >>> steps = [(0, np.arange(10))] * 10
    >>> sorted(evaluation_points(steps, windows=100, every=0.25))
    [3, 5, 8, 10]
    """
    seen = np.cumsum([len(rows) for _, rows in plan])
    marks = np.arange(1, int(seen[-1] / (every * windows)) + 1) * every * windows
    return {int(point) + 1 for point in np.searchsorted(seen, marks)} - {len(plan) + 1} | {len(plan)}
