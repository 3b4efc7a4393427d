"""Plan a run: which items each step has.

The functions are pure, so a resumed run has the same steps. A longer run also begins with the same steps, unless its sampling
is annealed: that depends on the number of epochs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from lamina.data.padding import pack
from lamina.errors import LaminaError
from lamina.utils.arrays import Longs


class Draw(NamedTuple):
    """The items of one task in a step. `items` are numbers of windows, or of pairs of windows.

    `task_epoch` counts the task's own epochs: with several tasks, one may begin its next epoch before another. Augmentation
    may change the texts in each, so equal numbers in two epochs can mean different texts.
    """

    task: str
    task_epoch: int
    items: Longs


Turn = tuple[Draw, ...]  # the tasks of a step
Plan = Sequence[tuple[int, Turn]]  # the epoch and the tasks of every step
Lengths = Callable[[int], Longs]  # task epoch -> lengths of the task's items
Order = Callable[[int], Longs | None]  # task epoch -> order of these items; None means random
Sampling = Literal["round_robin", "proportional", "annealed", "square_root", "combined"]

POOL = 1024  # items that are sorted by length together: enough for little padding, few enough for random batches
STAGES = 16  # stages of an epoch with a given order; within a stage, items are sorted by length
TURNS = b"turns"  # makes the random order of tasks differ from that of their items
MOST_STEPS = 5_000_000  # of a run: their plan takes about 3 GB
ANNEALING = 0.8  # by how much the power of a task's size falls from the first epoch to the last (Stickland and Murray 2019)


def plan_epoch(
    seed: int,
    epoch: int,
    lengths: Longs,
    *,
    tokens: int,
    windows: int | None = None,
    task: int = 0,
    order: Longs | None = None,
) -> list[Longs]:
    """Return the steps of one epoch. Each is an array of window numbers; the windows of a step have similar lengths.

    A step has as many windows as fit into `tokens` padded tokens, or exactly `windows` (the last of a pool may have fewer).
    The order is random, or nearly the given `order`.
    """
    random = np.random.default_rng([seed, epoch, task] if task else [seed, epoch])
    size = POOL if order is None else max(1, min(POOL, -(-len(order) // STAGES)))
    drawn = random.permutation(len(lengths)) if order is None else order
    budget = tokens if windows is None else int(lengths.max()) * windows
    steps: list[Longs] = []
    for first in range(0, len(drawn), size):
        pool = drawn[first : first + size]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        found = [pool[run] for run in pack(lengths[pool], budget, windows)]
        steps += found if order is None else [found[i] for i in random.permutation(len(found))]
    return steps if order is not None else [steps[i] for i in random.permutation(len(steps))]


def plan_epochs(
    seed: int,
    epochs: float,
    lengths: Mapping[str, Lengths],  # of each task
    *,
    orders: Mapping[str, Order] = MappingProxyType({}),  # of each task that has one
    tokens: int,
    windows: int | None = None,
    sampling: Sampling = "round_robin",
) -> Iterator[list[Turn]]:
    """Yield the tasks and items of every step, one list per epoch.

    The last epoch is whole too; `steps_in` returns how many of its steps are trained. An epoch has as many steps as the tasks
    have together, so all samplings do the same work:

    - ``proportional``: each task has its own number of steps, in random order, so every item is seen once.
    - ``round_robin``: the tasks take turns.
    - ``square_root``: the steps of a task are proportional to the square root of its own number of steps.
    - ``annealed``: proportional in the first epoch, nearly equal for all tasks in the last.
    - ``combined``: a step has a batch of every task, and an epoch has fewer steps.

    A task with more turns than steps begins its next epoch, in another order. One with fewer continues in the next epoch.
    """
    names = list(lengths)

    def steps_of(task: int, task_epoch: int) -> list[Longs]:
        order = orders[names[task]](task_epoch) if names[task] in orders else None
        of_items = lengths[names[task]](task_epoch)
        return plan_epoch(seed, task_epoch, of_items, tokens=tokens, windows=windows, task=task, order=order)

    streams = [_endless(partial(steps_of, task)) for task in range(len(names))]
    sizes = [len(steps_of(task, 0)) for task in range(len(names))]
    for epoch in range(int(np.ceil(epochs))):
        if len(names) == 1 or sampling == "proportional":
            turns: list[Turn] = [
                (Draw(name, epoch, items),) for task, name in enumerate(names) for items in steps_of(task, epoch)
            ]
            if len(names) > 1:
                shuffled = [turns[i] for i in np.random.default_rng([seed, epoch, *TURNS]).permutation(len(turns))]
                turns = _in_order(shuffled, turns, [name for name in orders if orders[name](epoch) is not None])
        else:
            shares = _tasks_of_steps(sampling, sizes, epoch, epochs, seed)
            turns = [tuple(Draw(names[task], *next(streams[task])) for task in step) for step in shares]
        yield turns


def steps_in(size: int, epochs: float) -> int:
    """Return how many of the first steps of an epoch are trained. It has `size` steps, and `epochs` epochs are left.

    >>> steps_in(10, 2.5), steps_in(10, 0.25), steps_in(10, 0.01)
    (10, 2, 1)
    """
    return max(1, round(min(1.0, epochs) * size))


def check_steps(size: int, epochs: float) -> None:
    """Raise LaminaError if a run of so many epochs, of about `size` steps each, has more steps than a plan may hold."""
    if size * epochs > MOST_STEPS:
        what = f"{epochs:g} epochs of {size:,} steps are more than the {MOST_STEPS:,} steps that a run may have"
        raise LaminaError(f"train.epochs: {what}. Fix: lower train.epochs or train.minutes, or raise train.batch_tokens")


def plan_steps(
    seed: int, epochs: float, lengths: Mapping[str, Lengths], *, tokens: int, **more: Any
) -> Iterator[tuple[int, Turn]]:
    """Yield (epoch, tasks and items) of every step; `more` are the other options of `plan_epochs`."""
    for epoch, turns in enumerate(plan_epochs(seed, epochs, lengths, tokens=tokens, **more)):
        if epoch == 0:
            check_steps(len(turns), epochs)
        yield from ((epoch, turn) for turn in turns[: steps_in(len(turns), epochs - epoch)])


def _in_order(shuffled: Sequence[Turn], turns: Sequence[Turn], tasks: Sequence[str]) -> list[Turn]:
    """Return the shuffled turns, but with the turns of `tasks` in their original order."""
    own = {task: iter([turn for turn in turns if turn[0].task == task]) for task in tasks}
    return [next(own[turn[0].task]) if turn[0].task in own else turn for turn in shuffled]


def _endless(steps_of: Callable[[int], list[Longs]]) -> Iterator[tuple[int, Longs]]:
    """Yield (task epoch, items) of a task's steps, without end."""
    for task_epoch in itertools.count():
        for items in steps_of(task_epoch):
            yield task_epoch, items


def _tasks_of_steps(sampling: Sampling, sizes: Sequence[int], epoch: int, epochs: float, seed: int) -> list[tuple[int, ...]]:
    """Return the tasks of each step of an epoch."""
    total, tasks = sum(sizes), len(sizes)
    if sampling == "combined":
        return [tuple(range(tasks))] * -(-total // tasks)
    if sampling == "round_robin":
        return [(step % tasks,) for step in range(total)]
    last = max(1, int(np.ceil(epochs)) - 1)
    power = 0.5 if sampling == "square_root" else 1 - ANNEALING * epoch / last
    turns = np.repeat(np.arange(tasks), apportion(np.array(sizes, np.float64) ** power, total))
    return [(int(task),) for task in np.random.default_rng([seed, epoch, *TURNS]).permutation(turns)]


def apportion(weights: npt.NDArray[np.float64], total: int) -> Longs:
    """Divide `total` into whole numbers that are as near as possible to the proportions of the weights.

    >>> apportion(np.array([1.0, 1.0, 4.0]), 10).tolist()
    [2, 2, 6]
    """
    exact = weights / weights.sum() * total
    whole: Longs = np.floor(exact).astype(np.int64)
    whole[np.argsort(-(exact - whole), kind="stable")[: total - int(whole.sum())]] += 1
    return whole


def evaluation_points(plan: Plan, items: int, every: float) -> set[int]:
    """Return after how many steps to evaluate: about every `every` epochs of `items` items, and at the end.

    A plan without steps is evaluated once, after 0 steps.

    >>> steps = [(0, (Draw("main", 0, np.arange(10)),))] * 10
    >>> sorted(evaluation_points(steps, items=100, every=0.25))
    [3, 5, 8, 10]
    """
    if not len(plan):
        return {0}
    seen = np.cumsum([sum(len(draw.items) for draw in turn) for _, turn in plan])
    apart = max(1.0, every * items)  # a step has at least one item
    marks = np.arange(1, int(seen[-1] / apart) + 1) * apart
    return {int(point) + 1 for point in np.searchsorted(seen, marks)} - {len(plan) + 1} | {len(plan)}
