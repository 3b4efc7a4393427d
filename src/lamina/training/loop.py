"""The training loop: one function that reads from top to bottom."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from lamina.config.train_options import TrainOptions
from lamina.data.batches import Batch
from lamina.errors import LaminaError
from lamina.model import Model
from lamina.model.weights import copy_weights, load_weights
from lamina.objectives import Remembers
from lamina.objectives.loss import Loss
from lamina.tasks.kind import Evaluation
from lamina.training.checkpoint import State
from lamina.training.gradients import Surgery
from lamina.training.schedules import share_of_peak
from lamina.utils.progress import Progress

S = TypeVar("S")
Step = tuple[tuple[str, Batch], ...]  # one optimiser step, cut into micro-batches, each with its task's name, task by task


def fit(
    model: Model,
    losses: Mapping[str, Loss],  # of each task
    steps: Sequence[tuple[int, Callable[[], Step]]],  # the epoch and the batches of each step
    *,
    evaluate: Callable[[Model], Evaluation],
    evaluate_at: set[int],  # after how many steps
    optimizer: torch.optim.Optimizer,
    options: TrainOptions,
    precision: torch.dtype,
    state: State,
    record: Callable[[dict[str, object]], object],
    save: Callable[[State], None],
    after: Mapping[int, Sequence[Callable[[], None]]] = MappingProxyType({}),  # what else to do after so many steps
    watch: Callable[[float, float], bool] | None = None,  # share of the training done, score: True stops it
    progress: Progress,
) -> State:
    """Trains from ``state.step`` to the end of `steps` and leaves the chosen weights in the model."""
    device = next(model.parameters()).device
    trainable = [p for p in model.parameters() if p.requires_grad]
    surgery = Surgery(trainable) if options.gradients == "pcgrad" else None
    remembering = [term for loss in losses.values() for term in loss.terms if isinstance(term, Remembers)]
    epochs = epochs_of([epoch for epoch, _ in steps])
    progress.start("training", len(steps), state.step)
    with interruptible() as interrupted:
        for epoch, make_step in steps_left(steps, state, save, options.checkpoint_minutes, interrupted):
            began = time.monotonic()
            step = make_step()
            state.costs.read_seconds += time.monotonic() - began
            totals = {name: losses[name].counts(batch for of, batch in step if of == name) for name, _ in step}

            model.train()
            of_task = dict.fromkeys(totals, 0.0)
            for number, (task, batch) in enumerate(step):
                torch.manual_seed(seed_of(options.seed, epoch, state.step, number))
                moved = batch.to(device)
                with autocast(device, precision):
                    outputs = model(moved, task)
                share = losses[task](model, moved, outputs, totals[task])
                _check_finite("loss", share.item(), state.step, [(task, batch)])
                if not share.requires_grad:
                    raise LaminaError(
                        f"nothing trains that the loss of task {task!r} depends on: raise tune.layers or choose another head"
                    )
                share.backward()  # type: ignore[no-untyped-call]
                of_task[task] += share.item()
                state.costs.tokens += int(batch.mask.sum())
                state.costs.padded_tokens += batch.mask.numel()
                if surgery is not None and (number + 1 == len(step) or step[number + 1][0] != task):
                    surgery.take()
            if surgery is not None:
                surgery.put_back(seed_of(options.seed, epoch, state.step))
            loss = sum(of_task.values())
            norm = nn.utils.clip_grad_norm_(trainable, options.clip)
            _check_finite("norm of the gradient", norm.item(), state.step, step)
            rate = share_of_peak(options, (state.step + 0.5) / len(steps), epochs)
            for group in optimizer.param_groups:
                group["lr"] = rate * group.get("peak", options.lr)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            for term in remembering:
                term.after_step(model)

            state.step += 1
            state.costs.train_seconds += time.monotonic() - began
            entry: dict[str, object] = {
                "step": state.step,
                "epoch": epoch,
                "loss": loss,
                "lr": rate * options.lr,
                "norm": norm.item(),
            }
            record(entry | {"losses": of_task} if len(losses) > 1 else entry)
            progress.advance(1, f"loss {loss:.3f}, {state.costs.tokens / state.costs.train_seconds:.0f} tokens/s")

            if state.step in evaluate_at:
                score = _evaluate(model, evaluate, options, state, record, progress)
                state.stopped |= watch is not None and watch(state.step / len(steps), score)
            for thing in after.get(state.step, ()):
                thing()
    if options.keep == "best" and state.best:
        load_weights(model, state.best)
    model.eval()
    return state


def _evaluate(
    model: Model,
    evaluate: Callable[[Model], Evaluation],
    options: TrainOptions,
    state: State,
    record: Callable[[dict[str, object]], object],
    progress: Progress,
) -> float:
    began = time.monotonic()
    model.eval()
    evaluation = evaluate(model)
    if evaluation.score > state.best_score:
        state.best_score, state.best_step, state.stale = evaluation.score, state.step, 0
        if options.keep == "best":
            state.best = copy_weights(model)
    else:
        state.stale += 1
        state.stopped = options.patience is not None and state.stale >= options.patience
    state.costs.evaluate_seconds += time.monotonic() - began
    record({"step": state.step, "evaluation": evaluation.metrics})
    scores = ", ".join(f"{name} {value:.2f}" for name, value in evaluation.metrics.items())
    progress.say(f"step {state.step}: {scores}")
    return evaluation.score


def steps_left(
    steps: Sequence[S], state: State, save: Callable[[State], None], minutes: float, interrupted: Callable[[], bool]
) -> Iterator[S]:
    """The steps from ``state.step`` on, which whoever takes them counts up; `minutes` apart, and at the end, it is saved."""
    saved_at = time.monotonic()
    while state.step < len(steps) and not state.stopped:
        yield steps[state.step]
        asked = interrupted()
        if asked or state.stopped or state.step == len(steps) or time.monotonic() - saved_at > 60 * minutes:
            save(state)
            saved_at = time.monotonic()
        if asked:
            raise KeyboardInterrupt


def epochs_of(of_steps: Sequence[int]) -> float:
    """How many epochs the steps make up, the last by its share of the others' length; a part of one counts as one.

    Epochs differ by a few steps, as their windows are packed anew: a whole one must not count as more than one.

    >>> epochs_of([0, 0, 1, 1, 2]), epochs_of([0, 0, 1, 1, 1])
    (2.5, 2.0)
    """
    *whole, last = Counter(of_steps).values()
    return len(whole) + min(1.0, last * len(whole) / sum(whole)) if whole else 1.0


def seed_of(*numbers: int) -> int:
    """One seed from (seed, epoch, step, micro-batch): resuming needs no generator state, evaluation disturbs nothing."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def autocast(device: torch.device, precision: torch.dtype) -> AbstractContextManager[object]:
    return nullcontext() if precision == torch.float32 else torch.autocast(device.type, precision)


def _check_finite(name: str, value: float, number: int, step: Sequence[tuple[str, Batch]]) -> None:
    if not np.isfinite(value):
        windows = "; ".join(("" if task == "main" else f"{task} ") + ", ".join(map(str, batch.windows)) for task, batch in step)
        raise LaminaError(
            f"the {name} is {value} at step {number + 1}, in windows {windows}: lower train.lr or look at these windows' texts"
        )


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Ctrl-C lets the step finish, so that what is saved is whole; a second Ctrl-C stops at once."""
    asked = False

    def ask(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    try:
        previous = signal.signal(signal.SIGINT, ask)
    except ValueError:  # not the main thread: Ctrl-C is somebody else's
        yield lambda: False
        return
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, previous)
