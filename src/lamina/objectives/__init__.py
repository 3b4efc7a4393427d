"""Objectives: terms whose sum is the loss of a step. `ObjectiveOptions` is the union of their options, the registry."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

from pydantic import Field
from torch import Tensor

from lamina.data.batches import Batch
from lamina.model import Model
from lamina.objectives.answerability import AnswerabilityLoss, AnswerabilityLossOptions
from lamina.objectives.span import SpanLoss, SpanLossOptions

ObjectiveOptions = Annotated[SpanLossOptions | AnswerabilityLossOptions, Field(discriminator="type")]

__all__ = ["AnswerabilityLoss", "AnswerabilityLossOptions", "ObjectiveOptions", "SpanLoss", "SpanLossOptions", "Term"]


class Term(Protocol):
    """A part of the loss. Losses are sums over known totals: `counts` is asked of every micro-batch of a step before any
    forward, so that each micro-batch adds its share of the whole step's mean. Each kind of outputs has its own terms."""

    name: str

    def counts(self, batch: Batch) -> dict[str, float]: ...

    def __call__(self, model: Model, batch: Batch, outputs: Any, totals: dict[str, float]) -> Tensor: ...
