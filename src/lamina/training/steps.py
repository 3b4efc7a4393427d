"""Recipe and datasets -> the plan of a training: which items make up which step, and what happens after which of them."""

from __future__ import annotations

import copy
import itertools
import math
import time
from collections.abc import Iterator, Mapping
from typing import cast

import numpy as np

from lamina.config.train_options import TrainOptions
from lamina.data.batches import pack
from lamina.errors import LaminaError
from lamina.model import Model
from lamina.model.weights import copy_weights, load_weights
from lamina.objectives import Remembers
from lamina.objectives.loss import Loss
from lamina.training.datasets import AnyDataset, Datasets
from lamina.training.loop import Step
from lamina.training.plan import Plan, Turn, plan_steps


def make_plan(
    options: TrainOptions,
    datasets: Datasets,
    model: Model,
    losses: Mapping[str, Loss],
    holdout: Datasets,
    known_steps: int | None = None,
    *,
    spent: float = 0.0,
) -> Plan:
    """The items of every step. A time budget, less the seconds `spent` of it, becomes a number of steps by a short probe,
    unless it is known already."""
    _check_usable(datasets)
    epochs = options.epochs
    if options.minutes is not None and known_steps:
        epochs = float(known_steps)
    elif options.minutes is not None:
        epochs = _epochs_in(60 * options.minutes - spent, options, datasets, model, losses, holdout)
    return list(itertools.islice(_steps(options, datasets, epochs), known_steps))


def _check_usable(datasets: Datasets) -> None:
    for name, dataset in datasets.items():
        if not len(dataset.usable()):
            which = "" if name == "main" else f"tasks.{name}: "
            raise LaminaError(f"{which}nothing to train on: no question with an answer that the tokenizer can see")


def _steps(options: TrainOptions, datasets: Datasets, epochs: float) -> Iterator[tuple[int, Turn]]:
    steps = plan_steps(
        options.seed,
        epochs,
        {name: dataset.usable_lengths for name, dataset in datasets.items()},
        orders={name: dataset.usable_order for name, dataset in datasets.items()},
        tokens=options.batch_tokens,
        windows=options.batch_windows,
        sampling=options.sampling,
    )
    for epoch, turn in steps:
        yield epoch, tuple(draw._replace(items=datasets[draw.task].usable(draw.task_epoch)[draw.items]) for draw in turn)


def items_of_an_epoch(options: TrainOptions, datasets: Datasets) -> int:
    """How many items an epoch has; of one task, all of them, usable or not."""
    if len(datasets) == 1:
        return sum(dataset.windows.items for dataset in datasets.values())
    return sum(len(draw.items) for _, turn in _steps(options, datasets, 1.0) for draw in turn)


def checkpoint_names(options: TrainOptions, datasets: Datasets, steps: int) -> dict[int, str]:
    """After which steps a checkpoint is kept, and its name: the epochs, after which a shorter training would have ended."""
    names: dict[int, str] = {}
    most = math.inf if options.minutes is not None else options.epochs
    for number in itertools.count(1) if options.checkpoints is not None else ():
        epochs = round(number * cast(float, options.checkpoints), 6)
        if epochs > most or (step := sum(1 for _ in _steps(options, datasets, epochs))) > steps:
            break
        names[step] = f"{epochs:g}"
    return names


def epoch_ends(plan: Plan) -> dict[int, int]:
    """After how many steps each epoch has ended, with its number from 1; the last may be a dataset of one."""
    return {step: epoch + 1 for step, (epoch, _) in enumerate(plan, 1) if step == len(plan) or plan[step][0] != epoch}


def make_step(datasets: Datasets, turn: Turn, memory_tokens: int) -> Step:
    """The micro-batches of a step."""
    drawn = [(task, datasets[task].at(lap), items) for task, lap, items in turn]
    return tuple(
        (task, dataset.batch(items[run]))
        for task, dataset, items in drawn
        for run in pack(dataset.windows.item_lengths[items], memory_tokens)
    )


def _epochs_in(
    seconds: float, options: TrainOptions, datasets: Datasets, model: Model, losses: Mapping[str, Loss], holdout: Datasets
) -> float:
    """How many epochs fit into so many seconds, by timing a few steps of each task that leave no trace."""
    before = copy_weights(model)  # a batch norm's statistics move in a forward pass
    tokens = dict.fromkeys(datasets, 0)  # of an epoch
    for _, turn in _steps(options, datasets, 1.0):
        for task, lap, items in turn:
            windows = datasets[task].at(lap).windows
            tokens[task] += int(windows.lengths[windows.windows_of(items)].sum())
    needed = 0.0
    for name, dataset in datasets.items():
        pace = _seconds_per_token(options, name, dataset, model, copy.deepcopy(losses[name]))
        needed += 1.05 * pace * tokens[name]  # the optimiser takes the 5%
        needed += pace / 3 * len(holdout[name].windows.ids) / options.evaluate_every
    load_weights(model, before)
    return max(1e-6, seconds / needed)


def _seconds_per_token(options: TrainOptions, name: str, dataset: AnyDataset, model: Model, loss: Loss) -> float:
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
            loss(model, moved, model.train()(moved, name), loss.counts([batch])).backward()  # type: ignore[no-untyped-call]
            model.zero_grad(set_to_none=True)
            tokens += int(batch.mask.sum())
        return (time.monotonic() - began) / tokens

    for term in loss.terms:
        if isinstance(term, Remembers):
            term.rehearse(model)
    probe()  # the first pass warms up
    return probe()
