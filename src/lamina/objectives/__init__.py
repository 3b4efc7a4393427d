"""The terms of a loss, one file a technique, with its options, its maths and its registration.

`ObjectiveOptions` is the union of all objectives' options, and so the registry. `TermsOptions` holds the terms that any task
may add to its objective. `Loss` sums a task's terms. An objective's `heads` lists the heads that may choose it. A head's own
default objective always fits, so a new head needs no change here. Models, optimisers and the training loop do not belong
here.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from lamina.data.labels import Labels
from lamina.objectives.answerability import AnswerabilityLoss, AnswerabilityLossOptions
from lamina.objectives.distil import DistilOptions
from lamina.objectives.ranking import RankingOptions
from lamina.objectives.rdrop import RDropOptions
from lamina.objectives.sentence import (
    BinaryCrossEntropyOptions,
    CosineEmbeddingOptions,
    CrossEntropyOptions,
    SquaredErrorOptions,
)
from lamina.objectives.smart import SmartOptions
from lamina.objectives.span import SpanLoss, SpanLossOptions
from lamina.objectives.term import Extra, Remembers, Term

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
    "DistilOptions",
    "Extra",
    "ObjectiveOptions",
    "RDropOptions",
    "RankingOptions",
    "Remembers",
    "SmartOptions",
    "SpanLoss",
    "SpanLossOptions",
    "SquaredErrorOptions",
    "Term",
    "TermsOptions",
]


class TermsOptions(BaseModel):
    """The terms that are added to a task's objective; a weight of 0 adds nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ranking: RankingOptions | None = None
    smart: SmartOptions | None = None
    distil: DistilOptions | None = None
    rdrop: RDropOptions | None = None

    @property
    def extra(self) -> Extra:
        """Return the cost of all of them together."""
        chosen = (self.ranking, self.smart, self.distil, self.rdrop)
        each = [options.extra for options in chosen if options is not None and options.weight]
        return Extra(*map(sum, zip(*each, strict=True)))

    def build(self, task: str, labels: Labels, objective: Term) -> list[Term]:
        """Return the terms of a task that is trained by `objective`."""
        added = [options for options in (self.ranking, self.smart, self.distil) if options is not None and options.weight]
        terms: list[Term] = [options.build(task, labels) for options in added]
        if self.rdrop is not None and self.rdrop.weight:
            terms.append(self.rdrop.build(task, objective))
        return terms
