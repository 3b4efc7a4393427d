"""Objectives and the terms that are added to them: one file per technique, with its maths, options and registration.

`ObjectiveOptions` is the union of the options of all objectives, and so the registry. `TermsOptions` holds the terms that any
task may add to its objective. `Loss` sums the terms of a task. An objective's `heads` lists the heads that may choose it. A
head's default objective always fits, so a new head needs no change here. Models, optimisers and the training loop do not
belong here.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

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
from lamina.objectives.teacher import TeacherOptions
from lamina.objectives.term import Extra, Remembers, Term, TermOptions
from lamina.utils.options import Options

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
    "TeacherOptions",
    "Term",
    "TermOptions",
    "TermsOptions",
]


class TermsOptions(Options):
    """The terms to add to a task's objective; a weight of 0 adds nothing. Each field registers a term."""

    ranking: RankingOptions | None = None
    """Add multiple negatives ranking, for the cosine head."""
    smart: SmartOptions | None = None
    """Add SMART, which keeps the outputs stable under noise on the embeddings."""
    distil: DistilOptions | None = None
    """Add self-distillation from past steps of the run."""
    rdrop: RDropOptions | None = None
    """Add R-Drop, the divergence between two forward passes with different dropout."""
    teacher: TeacherOptions | None = None
    """Add distillation from finished runs or from a question-answering model, whose outputs are stored once."""

    @property
    def chosen(self) -> dict[str, TermOptions]:
        """Return the options of the terms that a recipe names, by name."""
        named: dict[str, TermOptions | None] = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: options for name, options in named.items() if options is not None}

    @property
    def extra(self) -> Extra:
        """Return the joint cost of all chosen terms."""
        each = [options.extra for options in self.chosen.values() if options.weight]
        return Extra(*map(sum, zip(*each, strict=True)))

    @property
    def objective(self) -> float:
        """Return the factor of the task's objective beside the chosen terms."""
        return self.teacher.objective if self.teacher is not None and self.teacher.weight else 1.0

    def build(self, task: str, labels: Labels, objective: Term) -> list[Term]:
        """Return the terms of a task that is trained by `objective`, in the order of the fields."""
        return [options.build(task, labels, objective) for options in self.chosen.values() if options.weight]
