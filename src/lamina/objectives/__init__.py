"""Objectives: terms whose sum is the loss of a step. `ObjectiveOptions` is the union of their options, the registry;
`TermsOptions` holds those that any task may add to its objective."""

from __future__ import annotations

from typing import Annotated, Any, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.model import Model
from lamina.objectives.answerability import AnswerabilityLoss, AnswerabilityLossOptions
from lamina.objectives.ranking import RankingOptions
from lamina.objectives.sentence import (
    BinaryCrossEntropyOptions,
    CosineEmbeddingOptions,
    CrossEntropyOptions,
    SquaredErrorOptions,
)
from lamina.objectives.smart import SmartOptions
from lamina.objectives.span import SpanLoss, SpanLossOptions

ObjectiveOptions = Annotated[
    SpanLossOptions
    | AnswerabilityLossOptions
    | CrossEntropyOptions
    | BinaryCrossEntropyOptions
    | CosineEmbeddingOptions
    | SquaredErrorOptions,
    Field(discriminator="type"),
]

__all__ = [
    "AnswerabilityLoss",
    "AnswerabilityLossOptions",
    "BinaryCrossEntropyOptions",
    "CosineEmbeddingOptions",
    "CrossEntropyOptions",
    "ObjectiveOptions",
    "RankingOptions",
    "Remembers",
    "SmartOptions",
    "SpanLoss",
    "SpanLossOptions",
    "SquaredErrorOptions",
    "Term",
    "TermsOptions",
]


class Term(Protocol):
    """A part of the loss. Losses are sums over known totals: `counts` is asked of every micro-batch of a step before any
    forward, so that each micro-batch adds its share of the whole step's mean. The terms of a task count under names of
    their own. Each kind of outputs has its own terms."""

    name: str

    def counts(self, batch: Batch) -> dict[str, float]: ...

    def __call__(self, model: Model, batch: Batch, outputs: Any, totals: dict[str, float]) -> Tensor: ...


@runtime_checkable
class Remembers(Protocol):
    """A term with a memory of the steps that were: it is told of each, and its memory is part of a checkpoint."""

    def after_step(self, model: Model) -> None: ...

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state: dict[str, Tensor]) -> None: ...


class TermsOptions(BaseModel):
    """What is added to a task's objective; a weight of 0 adds nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ranking: RankingOptions | None = None
    smart: SmartOptions | None = None

    def build(self, task: str, labels: Labels) -> list[Term]:
        added = [options for options in (self.ranking, self.smart) if options is not None and options.weight]
        return [options.build(task, labels) for options in added]
