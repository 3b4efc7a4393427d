"""The loop of fine-tuning, in one function."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lamina.config.train_options import TrainOptions
from lamina.data.batches import Batch
from lamina.errors import LaminaError
from lamina.model import Model
from lamina.model.weights import copy_weights, load_weights
from lamina.objectives import Remembers
from lamina.objectives.loss import Loss
from lamina.tasks.kind import Evaluation
from lamina.training.checkpoint import Costs, State
from lamina.training.loss_scale import LossScale
from lamina.training.pcgrad import TaskGradients
from lamina.training.processes import ALONE, Group, merged
from lamina.training.recording import Recording
from lamina.training.schedules import share_of_peak
from lamina.training.step_loop import PlannedStep, StepLoop, autocast, epochs_of, seed_of, update_weights
from lamina.utils.progress import Progress

Step = tuple[tuple[str, Batch | None], ...]
"""(task, micro-batch) of one optimiser step; those of a task follow one another. Another process computes each None."""


class Share(NamedTuple):
    """A micro-batch's share of a step."""

    task: str
    loss: float
    parts: list[float]  # of the loss, by term
    tokens: int
    padded_tokens: int


@dataclass(frozen=True)
class Optimisation:
    """The model with its losses, optimiser, options and precision."""

    model: Model
    losses: Mapping[str, Loss]  # of each task
    optimizer: torch.optim.Optimizer
    options: TrainOptions
    precision: torch.dtype


@dataclass(frozen=True)
class Evaluations:
    """The evaluation, the steps after which it runs, and other actions after steps."""

    evaluate: Callable[[Model], Evaluation]
    at: AbstractSet[int]
    stop: Callable[[float, float], bool] | None = None  # (share of the steps done, score) -> whether to stop
    after: Mapping[int, Sequence[Callable[[], None]]] = field(default_factory=dict)  # number of steps -> other actions


def fit(
    optimisation: Optimisation,
    steps: Sequence[PlannedStep[Step]],
    evaluations: Evaluations,
    recorder: Recording,
    progress: Progress,
    group: Group = ALONE,
) -> State:
    """Train from ``recorder.state.step`` to the end of `steps` and return the state. The model then has the chosen weights.

    Without any step, the model is evaluated as it is. Only the first process of a group evaluates and has the best weights.
    """
    model, losses, options, state = optimisation.model, optimisation.losses, optimisation.options, recorder.state
    device = next(model.parameters()).device
    if state.step == 0:
        state.scale = LossScale.of(optimisation.precision)
    trainable = [p for p in model.parameters() if p.requires_grad]
    gradients = TaskGradients(trainable) if options.gradients == "pcgrad" else None
    remembering = [term for loss in losses.values() for term in loss.terms if isinstance(term, Remembers)]
    epochs = epochs_of([epoch for epoch, _ in steps])
    with StepLoop("training", steps, recorder, progress, minutes=options.checkpoint_minutes, group=group) as loop:
        for epoch, step in loop:
            own = [(task, batch) for task, batch in step if batch is not None]
            totals = _totals(group, losses, step)
            model.train()
            shares: dict[int, Share] = {}
            for number, (task, batch) in enumerate(step):
                if batch is not None:
                    torch.manual_seed(seed_of(options.seed, epoch, state.step, number))
                    moved = batch.to(device)
                    with autocast(device, optimisation.precision):
                        outputs = model(moved, task)
                    parts = losses[task].parts(model, moved, outputs, totals[task])  # [terms]
                    loss = parts.sum()
                    _check_finite("loss", loss.item(), state.step, [(task, batch)])
                    _check_trains(task, loss)
                    (loss if state.scale.factor is None else loss * state.scale.factor).backward()
                    shares[number] = Share(task, loss.item(), parts.tolist(), int(batch.mask.sum()), batch.mask.numel())
                if gradients is not None and (number + 1 == len(step) or step[number + 1][0] != task):
                    group.add_gradients(trainable)
                    gradients.collect()
            if gradients is not None:
                gradients.combine(seed_of(options.seed, epoch, state.step))
            else:
                group.add_gradients(trainable)
            state.scale.divide(trainable)
            norm = nn.utils.clip_grad_norm_(trainable, options.clip).item()
            rate = share_of_peak(options, (state.step + 0.5) / len(steps), epochs)
            if state.scale.usable(norm):
                _check_finite("norm of the gradient", norm, state.step, own)
                for term in remembering:
                    term.before_step(model)
                update_weights(optimisation.optimizer, rate, options.lr)
                for term in remembering:
                    term.after_step(model)
            else:
                optimisation.optimizer.zero_grad(set_to_none=True)
                _check_scale(state.scale, state.step)
            entry = _entry(losses, merged(group, shares).values(), state.costs)
            loop.finish(
                epoch,
                entry["loss"],
                {"loss": entry.pop("loss"), "lr": rate * options.lr, "norm": norm if np.isfinite(norm) else None, **entry},
            )
            _after_step(optimisation, evaluations, recorder, progress, group, state.step / len(steps))
    if not steps:
        _after_step(optimisation, evaluations, recorder, progress, group, 1.0)
    if options.keep == "best" and state.best:
        load_weights(model, state.best)
    model.eval()
    return state


def _totals(group: Group, losses: Mapping[str, Loss], step: Step) -> dict[str, dict[str, float]]:
    """Return the denominators of each task of a step, over all its micro-batches."""
    own = {number: losses[task].counts([batch]) for number, (task, batch) in enumerate(step) if batch is not None}
    totals: dict[str, dict[str, float]] = {task: {} for task, _ in step}
    for number, counts in merged(group, own).items():
        of_task = totals[step[number][0]]
        for name, count in counts.items():
            of_task[name] = of_task.get(name, 0.0) + count
    return totals


def _entry(losses: Mapping[str, Loss], shares: Iterable[Share], costs: Costs) -> dict[str, Any]:
    """Return the entry of a step in the metrics, from all its micro-batches, and count their tokens."""
    of_task: dict[str, float] = {}
    added: dict[str, float] = {}  # the terms beside the objectives
    for share in shares:
        of_task[share.task] = of_task.get(share.task, 0.0) + share.loss
        _count_terms(added, losses, share.task, share.parts)
        costs.tokens += share.tokens
        costs.padded_tokens += share.padded_tokens
    tables = {"losses": of_task if len(losses) > 1 else {}, "terms": added}  # empty ones are left out
    return {"loss": sum(of_task.values()), **{name: value for name, value in tables.items() if value}}


def _after_step(
    optimisation: Optimisation,
    evaluations: Evaluations,
    recorder: Recording,
    progress: Progress,
    group: Group,
    share: float,
) -> None:
    """Evaluate the model and call the other actions, if the step has any. `share` of all steps are done."""
    state = recorder.state

    def evaluate() -> bool:
        score = _evaluate(optimisation, evaluations, recorder, progress)
        asked = evaluations.stop is not None and bool(evaluations.stop(share, score))
        return state.stopped or asked

    if state.step in evaluations.at:
        state.stopped = group.once(evaluate)
    for action in evaluations.after.get(state.step, ()):
        group.once(action)


def _evaluate(optimisation: Optimisation, evaluations: Evaluations, recorder: Recording, progress: Progress) -> float:
    """Evaluate the model, keep its weights if its score is the best so far, and return the score."""
    model, options, state = optimisation.model, optimisation.options, recorder.state
    began = time.monotonic()
    model.eval()
    evaluation = evaluations.evaluate(model)
    if evaluation.score > state.best_score:
        state.best_score, state.best_step, state.stale = evaluation.score, state.step, 0
        if options.keep == "best":
            state.best = copy_weights(model)
    else:
        state.stale += 1
        state.stopped = options.patience is not None and state.stale >= options.patience
    state.costs.evaluate_seconds += time.monotonic() - began
    recorder.record({"step": state.step, "evaluation": evaluation.metrics})
    scores = ", ".join(f"{name} {value:.2f}" for name, value in evaluation.metrics.items())
    progress.say(f"step {state.step}: {scores}")
    return evaluation.score


def _count_terms(counted: dict[str, float], losses: Mapping[str, Loss], task: str, parts: Sequence[float]) -> None:
    """Add a micro-batch's values of the terms beside a task's objective, with all weights, as they are in the loss.

    With several tasks, the name of the task comes first: "mood.distil".
    """
    prefix = f"{task}." if len(losses) > 1 else ""
    for term, value in zip(losses[task].terms[1:], parts[1:], strict=True):  # the first is the objective
        name = prefix + term.name
        counted[name] = counted.get(name, 0.0) + value


def _check_trains(task: str, loss: Tensor) -> None:
    if not loss.requires_grad:
        raise LaminaError(
            f"tune: the loss of task {task!r} depends on no trainable parameter. Fix: raise tune.layers or choose another head"
        )


def _check_scale(scale: LossScale, number: int) -> None:
    """Raise LaminaError if no factor is left that could make the gradient finite."""
    if scale.factor is not None and scale.factor < 1:
        raise LaminaError(
            f"step {number + 1}: float16 cannot hold the gradient. "
            "Fix: set train.precision to bfloat16 or float32; then delete the run folder, and train again"
        )


def _check_finite(name: str, value: float, number: int, step: Sequence[tuple[str, Batch]]) -> None:
    if not np.isfinite(value):
        windows = "; ".join(("" if task == "main" else f"{task} ") + ", ".join(map(str, batch.windows)) for task, batch in step)
        raise LaminaError(
            f"step {number + 1}: the {name} is {value} in windows {windows}. "
            "Fix: lower train.lr, or check the texts of these windows; then delete the run folder, and train again"
        )
