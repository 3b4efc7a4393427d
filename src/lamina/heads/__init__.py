"""Heads: modules that turn token vectors into the outputs of a task.

`HeadOptions` is the union of all options, and so the registry. The options of a head name its kind of task (`kind`) and its
default objective. `tasks` interprets the outputs; losses are in `objectives`.
"""

from __future__ import annotations

from typing import Annotated, Literal, Protocol, get_args, runtime_checkable

from pydantic import Field
from torch import Tensor

from lamina.data.batches import Batch
from lamina.heads.answerability import AnswerabilityHead, AnswerabilityHeadOptions
from lamina.heads.cacnn import ContextAwareHead, ContextAwareHeadOptions
from lamina.heads.outputs import ClassOutputs, Outputs, PairOutputs, ScoreOutputs, SpanOutputs
from lamina.heads.sentence import (
    ClassificationHeadOptions,
    ConcatenationHead,
    ConcatenationHeadOptions,
    CosineHead,
    CosineHeadOptions,
    OneWindowHead,
    RegressionHeadOptions,
)
from lamina.heads.span import SpanHead, SpanHeadOptions

HeadOptions = Annotated[
    SpanHeadOptions
    | ContextAwareHeadOptions
    | AnswerabilityHeadOptions
    | ClassificationHeadOptions
    | RegressionHeadOptions
    | CosineHeadOptions
    | ConcatenationHeadOptions,
    Field(discriminator="type"),
]

# The default objective of each type of head.
OBJECTIVES: dict[str, str] = {
    options.model_fields["type"].default: options.objective for options in get_args(get_args(HeadOptions)[0])
}

__all__ = [
    "OBJECTIVES",
    "AnswerabilityHead",
    "AnswerabilityHeadOptions",
    "ClassOutputs",
    "ClassificationHeadOptions",
    "ConcatenationHead",
    "ConcatenationHeadOptions",
    "ContextAwareHead",
    "ContextAwareHeadOptions",
    "CosineHead",
    "CosineHeadOptions",
    "Head",
    "HeadOptions",
    "LearnsQueries",
    "OneWindowHead",
    "Outputs",
    "PairOutputs",
    "RegressionHeadOptions",
    "ScoreOutputs",
    "SpanHead",
    "SpanHeadOptions",
    "SpanOutputs",
]


class Head(Protocol):
    """The interface of a head."""

    slots: int  # number of outputs that can have separate mixtures (span: start and end)
    positions: Literal["tokens", "cls"]  # whether it reads every token or only the first

    def queries(self) -> Tensor | None:
        """Return the vectors that a mixer may attend with, [Q, D], or None; the head owns them."""
        ...

    def __call__(self, vectors: Tensor, batch: Batch) -> Outputs: ...


@runtime_checkable
class LearnsQueries(Protocol):
    """A head without queries of its own, which learns some if a mixer attends with them."""

    def learn_queries(self, width: int) -> None:
        """Add queries [slots, width] to the head."""
        ...
