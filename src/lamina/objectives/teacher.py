"""Distillation: the model learns the outputs of models that were trained before, besides the labels.

Paper: Hinton et al. 2015. z are the logits of the model and z_1, ..., z_K those of K teachers. T is the `temperature`, L the
objective of the task.

    loss = objective L + weight D, mean over items

    kl:   D = T^2 KL(p, softmax(z / T)), p = the mean of softmax(z_1 / T), ..., softmax(z_K / T)
    mse:  D = (z - the mean of z_1, ..., z_K)^2, mean over classes or over the allowed positions of the window

So an ensemble has the mean of its probabilities with `kl` and the mean of its logits with `mse`. The factor T^2 keeps the size
of the gradients, which falls with 1 / T^2. Spans have half the sum of D over start and end, each over the allowed positions of
the window. Scores and cosines have no distribution: D is the squared difference from the mean of the teachers either way.

Departures: the paper's loss has the mean of both parts with two weights; ours adds the term to the objective as other terms.
The paper trains with KL up to a constant, the cross-entropy; ours is 0 if the model equals the teacher.

The outputs of the teachers are stored before the first step (`training.teachers`) and come with the batch. So the term costs no
forward pass.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.heads.outputs import ClassOutputs, Outputs, PairOutputs, SpanOutputs
from lamina.model import Model
from lamina.objectives.divergence import Measure, kl, mean_square
from lamina.objectives.term import Extra, Term
from lamina.utils.options import Options


def soft_kl(taught: Tensor, logits: Tensor, allowed: Tensor | None = None, *, temperature: float = 1.0) -> Tensor:
    """Return T^2 KL(p, q): logits of teachers [K, I, C] and of the model [I, C] -> [I].

    p is the mean of the teachers' probabilities at the temperature T, q the model's. `allowed` [I, C] masks the logits.
    """
    if allowed is not None:
        taught = taught.masked_fill(~allowed, -1e9)
    each = (taught / temperature).log_softmax(-1)  # [K, I, C]
    mean = each.logsumexp(0) - math.log(len(taught))  # [I, C]
    return temperature**2 * kl(mean, logits / temperature, allowed)


def squared_error(taught: Tensor, logits: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Return the squared difference from the mean of the teachers' logits: [K, I, C] and [I, C] -> [I]."""
    return mean_square(taught.mean(0), logits, allowed)


def taught_values(outputs: Outputs) -> Tensor:
    """Return the numbers that a student learns from a teacher: [R, T, 2] of spans, else [I, C] with one row per item."""
    if isinstance(outputs, SpanOutputs):
        return torch.stack([outputs.start, outputs.end], -1)
    if isinstance(outputs, ClassOutputs):
        return outputs.logits
    return _score(outputs).unsqueeze(-1)


def difference(taught: Tensor, outputs: Outputs, of_logits: Measure) -> Tensor:
    """Return the difference between K teachers and a model, [I]. `taught` has the `taught_values` of each, [K, ...]."""
    if isinstance(outputs, SpanOutputs):
        start, end = taught.unbind(-1)  # [K, R, T] each
        return (of_logits(start, outputs.start, outputs.allowed) + of_logits(end, outputs.end, outputs.allowed)) / 2
    if isinstance(outputs, ClassOutputs):
        return of_logits(taught, outputs.logits, None)
    return (taught[..., 0].mean(0) - _score(outputs)).square()


def _score(outputs: Outputs) -> Tensor:
    """Return the number of each item that is neither a logit nor a class, [I]."""
    if isinstance(outputs, SpanOutputs | ClassOutputs):
        raise TypeError(f"{type(outputs).__name__} has logits and no scores")
    return outputs.cosine if isinstance(outputs, PairOutputs) else outputs.scores


class Taught:
    """Distillation as a term of a training step. The batches must have the outputs of the teachers (`Batch.taught`)."""

    name = "teacher"

    def __init__(self, weight: float, of_logits: Measure) -> None:
        self.weight = weight
        self.of_logits = of_logits

    def counts(self, batch: Batch) -> dict[str, float]:
        return {"teacher.items": float(len(batch.ids) // batch.sides)}

    def __call__(self, model: Model, batch: Batch, outputs: Outputs, totals: dict[str, float]) -> Tensor:
        if batch.taught is None:
            raise ValueError("the batch has no outputs of teachers: its dataset needs their stores")
        return self.weight * difference(batch.taught, outputs, self.of_logits).sum() / totals["teacher.items"]


class TeacherOptions(Options):
    """Options of distillation from finished models."""

    heads: ClassVar[tuple[str, ...]] = ()
    runs: tuple[str, ...]
    """Teachers: finished runs, or folders or hub ids of question-answering models; several are an ensemble."""
    loss: Literal["kl", "mse"] = "kl"
    """Distance to the teachers: KL divergence from their mean probabilities, or squared error from their mean logits."""
    temperature: float = Field(default=2.0, gt=0)
    """Divide the logits by this number in `kl`; above 1, unlikely positions and classes count more."""
    weight: float = Field(default=1.0, ge=0)
    """Factor of the term; 0 switches it off and needs no teacher."""
    objective: float = Field(default=1.0, ge=0)
    """Factor of the task's own objective beside the term; 0 learns from the teachers alone."""

    @field_validator("runs", mode="before")
    @classmethod
    def _one_run(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("runs")
    @classmethod
    def _different_runs(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not all(value):
            raise ValueError('names no run. Fix: name the folder of a finished run, such as ["runs/first"]')
        if len(set(value)) < len(value):
            raise ValueError(f"names {max(value, key=value.count)} twice. Fix: name each teacher once")
        return value

    @model_validator(mode="after")
    def _temperature_has_an_effect(self) -> TeacherOptions:
        if self.loss == "mse" and self.temperature != type(self).model_fields["temperature"].default:
            raise ValueError('temperature has no effect with loss = "mse". Fix: remove temperature, or set loss = "kl"')
        return self

    @property
    def extra(self) -> Extra:
        return Extra()

    def build(self, task: str, labels: Labels, objective: Term) -> Taught:
        return Taught(self.weight, squared_error if self.loss == "mse" else partial(soft_kl, temperature=self.temperature))
