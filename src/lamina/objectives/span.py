"""The loss of span extraction: (cross-entropy of the start + cross-entropy of the end) / 2, mean over windows.

Departure from the usual baselines: the softmax runs over the context and the classifier token only, so the model need
not learn that an answer never lies in the question, in a separator or in padding.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor
from torch.nn import functional as F

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.heads.outputs import SpanOutputs
from lamina.model import Model


def span_cross_entropy(outputs: SpanOutputs, gold: Tensor) -> Tensor:
    """[R] the loss of each window; `gold` [R, 2] holds the first and last token of the answer."""
    floor = torch.finfo(outputs.start.dtype).min
    start = outputs.start.masked_fill(~outputs.allowed, floor)  # [R, T]
    end = outputs.end.masked_fill(~outputs.allowed, floor)
    first, last = gold.unbind(1)
    return (F.cross_entropy(start, first, reduction="none") + F.cross_entropy(end, last, reduction="none")) / 2


class SpanLoss:
    """`span_cross_entropy` as a term of a training step."""

    name = "span"

    def counts(self, batch: Batch) -> dict[str, float]:
        return {"windows": float(len(batch.gold))}

    def __call__(self, model: Model, batch: Batch, outputs: SpanOutputs, totals: dict[str, float]) -> Tensor:
        return span_cross_entropy(outputs, batch.gold).sum() / totals["windows"]


class SpanLossOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    heads: ClassVar[tuple[str, ...]] = ("span", "cacnn")
    type: Literal["span"] = "span"

    def build(self, labels: Labels) -> SpanLoss:
        return SpanLoss()
