"""Make the plan of a run from its options and datasets: the items of each step, and the steps that store checkpoints."""

from __future__ import annotations

import copy
import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np

from lamina.config.train_options import TrainOptions, choose_precision
from lamina.data.padding import pack
from lamina.errors import LaminaError
from lamina.model import Model
from lamina.model.weights import copy_weights, load_weights
from lamina.objectives import Remembers
from lamina.objectives.loss import Loss
from lamina.training.datasets import AnyDataset, Datasets
from lamina.training.loop import Step
from lamina.training.plan import Draw, Turn, check_steps, plan_epochs, steps_in
from lamina.training.processes import ALONE, Group
from lamina.training.step_loop import autocast


@dataclass(frozen=True)
class TrainingPlan(Sequence[tuple[int, Turn]]):
    """The epoch, the tasks and the items of every step."""

    steps: Sequence[tuple[int, Turn]]
    epoch_sizes: Sequence[int]  # steps of each whole epoch; training may stop within the last
    epoch_items: int  # items of an epoch; with one task also those whose answer no token covers

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index: Any) -> Any:
        return self.steps[index]


def make_plan(
    options: TrainOptions,
    datasets: Datasets,
    model: Model,
    losses: Mapping[str, Loss],
    holdout: Datasets,
    known_steps: int | None = None,
    *,
    spent: float = 0.0,
) -> TrainingPlan:
    """Return the items of every step.

    A short measurement turns the time budget `train.minutes`, minus `spent` seconds, into a number of steps. A resumed run
    passes `known_steps` instead.
    """
    _check_usable(datasets)
    epochs = options.epochs
    if options.minutes is not None and known_steps:
        epochs = float(known_steps)
    elif options.minutes is not None:
        epochs = _epochs_in(60 * options.minutes - spent, options, datasets, model, losses, holdout)
    steps: list[tuple[int, Turn]] = []
    sizes: list[int] = []
    items = sum(dataset.windows.items for dataset in datasets.values())
    for epoch, turns in enumerate(_epochs(options, datasets, epochs)):
        if epoch == 0 and known_steps is None:
            check_steps(len(turns), epochs)
        if epoch == 0 and (len(datasets) > 1 or any(dataset.null_windows < 1 for dataset in datasets.values())):
            items = sum(len(draw.items) for turn in turns for draw in turn)
        sizes.append(len(turns))
        steps += [(epoch, turn) for turn in turns[: steps_in(len(turns), epochs - epoch)]]
        if known_steps is not None and len(steps) >= known_steps:
            break
    return TrainingPlan(steps[:known_steps], sizes, items)


def _check_usable(datasets: Datasets) -> None:
    for name, dataset in datasets.items():
        if not len(dataset.usable()):
            which = "" if name == "main" else f"tasks.{name}: "
            raise LaminaError(
                f"{which}data.train: no question has an answer that covers a token, so there is nothing to train on. "
                "Fix: name a file with answers in its contexts"
            )


def _epochs(options: TrainOptions, datasets: Datasets, epochs: float) -> Iterator[list[Turn]]:
    """Yield the steps of each whole epoch."""
    for turns in plan_epochs(
        options.seed,
        epochs,
        {name: dataset.usable_lengths for name, dataset in datasets.items()},
        orders={name: dataset.usable_order for name, dataset in datasets.items()},
        tokens=options.batch_tokens,
        windows=options.batch_windows,
        sampling=options.sampling,
    ):
        yield [tuple(_of_dataset(draw, datasets[draw.task]) for draw in turn) for turn in turns]


def _of_dataset(draw: Draw, dataset: AnyDataset) -> Draw:
    """Return the draw with numbers among all items; a plan numbers the usable items only."""
    return draw._replace(items=dataset.usable(draw.task_epoch)[draw.items])


def checkpoint_names(options: TrainOptions, plan: TrainingPlan) -> dict[int, str]:
    """Return the steps that store a checkpoint, with its name: the number of epochs until then.

    A shorter run of that many epochs would end at the same step.
    """
    if options.checkpoints is None:
        return {}
    return {step: f"{epochs:g}" for step, epochs in _marks(options, plan, options.checkpoints).items()}


def _marks(options: TrainOptions, plan: TrainingPlan, every: float) -> dict[int, float]:
    """Return the steps at multiples of `every` epochs, with the number of epochs until then."""
    marks: dict[int, float] = {}
    most = len(plan.epoch_sizes) if options.minutes is not None else options.epochs
    for number in itertools.count(1):
        epochs = round(number * every, 6)
        if epochs > most:
            break
        begun = plan.epoch_sizes[: math.ceil(epochs)]
        step = sum(steps_in(size, epochs - epoch) for epoch, size in enumerate(begun))
        if step > len(plan):
            break
        marks[step] = epochs
    return marks


def curve_points(options: TrainOptions, plan: TrainingPlan) -> dict[int, float]:
    """Return the steps after which curves have a point, with the number of epochs until then: 1, or 1.3 within an epoch."""
    points = _marks(options, plan, options.curves_every)
    if len(plan) not in points:
        points[len(plan)] = options.epochs if options.minutes is None else _epochs_of(plan)
    return {step: int(epochs) if epochs == int(epochs) else epochs for step, epochs in points.items()}


def _epochs_of(plan: TrainingPlan) -> float:
    """Return the number of epochs of a plan that has steps. The last counts by its share of a whole epoch."""
    last: int = plan[-1][0]
    return round(last + sum(epoch == last for epoch, _ in plan) / plan.epoch_sizes[last], 4)


def make_step(
    datasets: Datasets, turn: Turn, memory_tokens: int, group: Group = ALONE, whole: AbstractSet[str] = frozenset()
) -> Step:
    """Return the micro-batches of a step. Each process of a group has its own; the others are None.

    A step of fewer micro-batches than processes is divided into more of them, but not its micro-batches of the tasks `whole`.
    """
    drawn = [(task, datasets[task].at(epoch), items) for task, epoch, items in turn]
    runs = [
        (task, dataset, items[run])
        for task, dataset, items in drawn
        for run in pack(dataset.windows.item_lengths[items], memory_tokens)
    ]
    pieces = -(-group.size // len(runs))
    shares = [
        (task, dataset, share)
        for task, dataset, items in runs
        for share in np.array_split(items, 1 if task in whole else min(pieces, len(items)))
    ]
    return tuple(
        (task, dataset.batch(items) if number % group.size == group.number else None)
        for number, (task, dataset, items) in enumerate(shares)
    )


def _epochs_in(
    seconds: float, options: TrainOptions, datasets: Datasets, model: Model, losses: Mapping[str, Loss], holdout: Datasets
) -> float:
    """Return how many epochs fit into so many seconds. It times a few batches of each task, then restores the weights."""
    before = copy_weights(model)  # a forward pass changes the statistics of batch norms
    tokens = dict.fromkeys(datasets, 0)  # of an epoch
    for turn in next(_epochs(options, datasets, 1.0)):
        for task, epoch, items in turn:
            windows = datasets[task].at(epoch).windows
            tokens[task] += int(windows.lengths[windows.windows_of(items)].sum())
    needed = 0.0
    for name, dataset in datasets.items():
        pace = seconds_per_token(options, name, dataset, model, copy.deepcopy(losses[name]))
        needed += 1.05 * pace * tokens[name]  # the optimiser needs the 5%
        needed += pace / 3 * len(holdout[name].windows.ids) / options.evaluate_every
    load_weights(model, before)
    return max(1e-6, seconds / needed)


def seconds_per_token(options: TrainOptions, name: str, dataset: AnyDataset, model: Model, loss: Loss) -> float:
    """Return the seconds that a token takes in training, without the optimiser. It times a few batches of a task."""
    device = next(model.parameters()).device
    lengths = dataset.windows.item_lengths
    items = np.linspace(0, len(lengths) - 1, min(len(lengths), 48)).astype(np.int64)
    items = items[np.argsort(lengths[items])]
    runs = pack(lengths[items], min(options.batch_tokens, options.memory_tokens))

    def probe() -> float:
        began, tokens = time.monotonic(), 0
        for run in runs:
            batch = dataset.batch(items[run])
            moved = batch.to(device)
            with autocast(device, choose_precision(options.precision, device)):
                outputs = model.train()(moved, name)
            loss(model, moved, outputs, loss.counts([batch])).backward()
            model.zero_grad(set_to_none=True)
            tokens += int(batch.mask.sum())
        return (time.monotonic() - began) / tokens

    for term in loss.terms:
        if isinstance(term, Remembers):
            term.rehearse(model)
    probe()  # the first measurement is slower, so it is not used
    return probe()
