"""Heads: token vectors -> outputs of a task. `HeadOptions` is the union of all heads' options, and so the registry."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from lamina.data.batches import Batch
from lamina.heads.outputs import SpanOutputs
from lamina.heads.span import SpanHead, SpanHeadOptions

HeadOptions = SpanHeadOptions
Outputs = SpanOutputs

__all__ = ["Head", "HeadOptions", "Outputs", "SpanHead", "SpanHeadOptions", "SpanOutputs"]


class Head(Protocol):
    slots: int  # how many queries it has (span: start and end)

    def queries(self) -> Tensor | None:
        """[slots, D] the vectors that a mixer may attend with; the head owns them."""
        ...

    def __call__(self, vectors: Tensor, batch: Batch) -> Outputs: ...
