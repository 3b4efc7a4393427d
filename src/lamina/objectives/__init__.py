"""Objectives: terms whose sum is the loss of a step. `ObjectiveOptions` is the union of their options, the registry."""

from __future__ import annotations

from typing import Annotated, Any, Protocol, runtime_checkable

from pydantic import Field
from torch import Tensor

from lamina.data.batches import Batch
from lamina.model import Model
from lamina.objectives.answerability import AnswerabilityLoss, AnswerabilityLossOptions
from lamina.objectives.span import SpanLoss, SpanLossOptions

ObjectiveOptions = Annotated[SpanLossOptions | AnswerabilityLossOptions, Field(discriminator="type")]

__all__ = ["AnswerabilityLoss", "AnswerabilityLossOptions", "ObjectiveOptions", "Remembers", "SpanLoss", "SpanLossOptions", "Term"]


@runtime_checkable
class Remembers(Protocol):
    """A term with a memory of the steps that were: it is told of each, and its memory is part of a checkpoint."""

    def after_step(self, model: Model) -> None: ...

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state: dict[str, Tensor]) -> None: ...


class Term(Protocol):
    """A part of the loss. Losses are sums over known totals: `counts` is asked of every micro-batch of a step before any
    forward, so that each micro-batch adds its share of the whole step's mean. Each kind of outputs has its own terms."""

    name: str

    def counts(self, batch: Batch) -> dict[str, float]: ...

    def __call__(self, model: Model, batch: Batch, outputs: Any, totals: dict[str, float]) -> Tensor: ...
