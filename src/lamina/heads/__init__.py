"""Heads: token vectors -> outputs of a task. `HeadOptions` is the union of all heads' options, and so the registry."""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

from pydantic import Field
from torch import Tensor

from lamina.data.batches import Batch
from lamina.heads.answerability import AnswerabilityHead, AnswerabilityHeadOptions
from lamina.heads.outputs import ClassOutputs, SpanOutputs
from lamina.heads.span import SpanHead, SpanHeadOptions

HeadOptions = Annotated[SpanHeadOptions | AnswerabilityHeadOptions, Field(discriminator="type")]
Outputs = SpanOutputs | ClassOutputs

__all__ = [
    "AnswerabilityHead",
    "AnswerabilityHeadOptions",
    "ClassOutputs",
    "Head",
    "HeadOptions",
    "Outputs",
    "SpanHead",
    "SpanHeadOptions",
    "SpanOutputs",
]


class Head(Protocol):
    slots: int  # how many queries it has (span: start and end)
    positions: Literal["tokens", "cls"]  # whether it reads every token or only the first

    def queries(self) -> Tensor | None:
        """[slots, D] the vectors that a mixer may attend with; the head owns them."""
        ...

    def __call__(self, vectors: Tensor, batch: Batch) -> Outputs: ...
