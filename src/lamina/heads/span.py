"""The span head of BERT (Devlin et al. 2019): one vector scores starts, one scores ends.

The classifier token means "no answer".
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.heads.outputs import SpanOutputs
from lamina.heads.start import StartOptions


def answerable(batch: Batch) -> Tensor:
    """Return the positions where an answer may be, [R, T]: the context, and the classifier token for no answer."""
    allowed = batch.context.clone()
    allowed[:, 0] = True
    return allowed


class SpanHead(nn.Module):
    """logit_start(t) = S . v_t + b_S and logit_end(t) = E . v_t + b_E for the mixer's token vectors v."""

    slots = 2
    positions: Literal["tokens"] = "tokens"

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(self.slots, width))  # S and E
        self.bias = nn.Parameter(torch.empty(self.slots))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if not self.weight.is_meta:  # the meta device has no values, and torch would import its compiler
            nn.init.normal_(self.weight, std=0.02)
        nn.init.zeros_(self.bias)

    def queries(self) -> Tensor:
        return self.weight  # [2, D]

    def forward(self, vectors: Tensor, batch: Batch) -> SpanOutputs:
        # [R, Q, T, D] -> [R, 2, T]; Q is 1, or 2 if each end has its own mixture
        logits = self._own(vectors) if vectors.shape[1] == self.slots else self._shared(vectors)
        start, end = (logits + self.bias[:, None]).float().unbind(1)
        return SpanOutputs(start, end, answerable(batch))

    def _own(self, vectors: Tensor) -> Tensor:
        # two products of a matrix and a vector: on a CPU one batched product takes three times as long
        return torch.stack(
            [mixture @ query for mixture, query in zip(vectors.unbind(1), self.weight.unbind(0), strict=True)], 1
        )

    def _shared(self, vectors: Tensor) -> Tensor:
        return nn.functional.linear(vectors[:, 0], self.weight).transpose(1, 2)


class SpanHeadOptions(StartOptions):
    """Options of the span head; it has none of its own but its type."""

    slots: ClassVar[int] = SpanHead.slots
    kind: ClassVar[str] = "spans"  # the kind of task
    pooled: ClassVar[bool] = False
    objective: ClassVar[str] = "span"
    type: Literal["span"] = "span"
    """Score each token as the start and as the end of the answer."""

    def build(self, width: int, labels: Labels) -> SpanHead:
        return SpanHead(width)
