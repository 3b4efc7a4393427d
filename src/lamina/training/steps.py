"""Recipe and parts -> the plan of a training: which items make up which step, and what happens after which of them."""

from __future__ import annotations

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
from lamina.training.loop import Step
from lamina.training.material import AnyPart
from lamina.training.plan import Plan, Turn, plan_steps

Parts = Mapping[str, AnyPart]  # of each task


def make_plan(
    options: TrainOptions,
    parts: Parts,
    model: Model,
    losses: Mapping[str, Loss],  # to be thrown away: a probe may leave a trace in their memories
    holdout: Parts,
    known_steps: int | None = None,
    *,
    spent: float = 0.0,
) -> Plan:
    """The items of every step. A time budget, less the seconds `spent` of it, becomes a number of steps by a short probe,
    unless it is known already."""
    _check_usable(parts)
    epochs = options.epochs
    if options.minutes is not None and known_steps:
        epochs = float(known_steps)
    elif options.minutes is not None:
        epochs = _epochs_in(60 * options.minutes - spent, options, parts, model, losses, holdout)
    return list(itertools.islice(_steps(options, parts, epochs), known_steps))


def _check_usable(parts: Parts) -> None:
    for name, part in parts.items():
        if not len(part.usable()):
            which = "" if name == "main" else f"tasks.{name}: "
            raise LaminaError(f"{which}nothing to train on: no question with an answer that the tokenizer can see")


def _steps(options: TrainOptions, parts: Parts, epochs: float) -> Iterator[tuple[int, Turn]]:
    steps = plan_steps(
        options.seed,
        epochs,
        {name: part.usable_lengths for name, part in parts.items()},
        orders={name: part.usable_order for name, part in parts.items()},
        tokens=options.batch_tokens,
        windows=options.batch_windows,
        sampling=options.sampling,
    )
    for epoch, turn in steps:
        yield epoch, tuple(draw._replace(items=parts[draw.task].usable(draw.task_epoch)[draw.items]) for draw in turn)


def items_of_an_epoch(options: TrainOptions, parts: Parts) -> int:
    """How many items an epoch has; of one task, all of them, usable or not."""
    if len(parts) == 1:
        return sum(part.windows.items for part in parts.values())
    return sum(len(draw.items) for _, turn in _steps(options, parts, 1.0) for draw in turn)


def checkpoint_names(options: TrainOptions, parts: Parts, steps: int) -> dict[int, str]:
    """After which steps a checkpoint is kept, and its name: the epochs, after which a shorter training would have ended."""
    names: dict[int, str] = {}
    most = math.inf if options.minutes is not None else options.epochs
    for number in itertools.count(1) if options.checkpoints is not None else ():
        epochs = round(number * cast(float, options.checkpoints), 6)
        if epochs > most or (step := sum(1 for _ in _steps(options, parts, epochs))) > steps:
            break
        names[step] = f"{epochs:g}"
    return names


def epoch_ends(plan: Plan) -> dict[int, int]:
    """After how many steps each epoch has ended, with its number from 1; the last may be a part of one."""
    return {step: epoch + 1 for step, (epoch, _) in enumerate(plan, 1) if step == len(plan) or plan[step][0] != epoch}


def make_step(parts: Parts, turn: Turn, memory_tokens: int) -> Step:
    """The micro-batches of a step."""
    drawn = [(task, parts[task].at(lap), items) for task, lap, items in turn]
    return tuple(
        (task, part.batch(items[run]))
        for task, part, items in drawn
        for run in pack(part.windows.item_lengths[items], memory_tokens)
    )


def _epochs_in(
    seconds: float, options: TrainOptions, parts: Parts, model: Model, losses: Mapping[str, Loss], holdout: Parts
) -> float:
    """How many epochs fit into so many seconds, by timing a few steps of each task that leave no trace."""
    before = copy_weights(model)  # a batch norm's statistics move in a forward pass
    tokens = dict.fromkeys(parts, 0)  # of an epoch
    for _, turn in _steps(options, parts, 1.0):
        for task, lap, items in turn:
            windows = parts[task].at(lap).windows
            tokens[task] += int(windows.lengths[windows.windows_of(items)].sum())
    needed = 0.0
    for name, part in parts.items():
        pace = _seconds_per_token(options, name, part, model, losses[name])
        needed += 1.05 * pace * tokens[name]  # the optimiser takes the 5%
        needed += pace / 3 * len(holdout[name].windows.ids) / options.evaluate_every
    load_weights(model, before)
    return max(1e-6, seconds / needed)


def _seconds_per_token(options: TrainOptions, name: str, part: AnyPart, model: Model, loss: Loss) -> float:
    device = next(model.parameters()).device
    lengths = part.windows.item_lengths
    items = np.linspace(0, len(lengths) - 1, min(len(lengths), 48)).astype(np.int64)
    items = items[np.argsort(lengths[items])]
    runs = pack(lengths[items], min(options.batch_tokens, options.memory_tokens))

    def probe() -> float:
        began, tokens = time.monotonic(), 0
        for run in runs:
            batch = part.batch(items[run])
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
