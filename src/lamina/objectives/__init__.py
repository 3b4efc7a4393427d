"""Objectives: terms whose sum is the loss of a step. `ObjectiveOptions` is the union of their options, the registry."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from lamina.data.batches import Batch
from lamina.heads import Outputs
from lamina.model import Model
from lamina.objectives.span import SpanLoss, SpanLossOptions

ObjectiveOptions = SpanLossOptions

__all__ = ["ObjectiveOptions", "SpanLoss", "SpanLossOptions", "Term"]


class Term(Protocol):
    """A part of the loss. Losses are sums over known totals: `counts` is asked of every micro-batch of a step before any
    forward, so that each micro-batch adds its share of the whole step's mean."""

    name: str

    def counts(self, batch: Batch) -> dict[str, float]: ...

    def __call__(self, model: Model, batch: Batch, outputs: Outputs, totals: dict[str, float]) -> Tensor: ...
