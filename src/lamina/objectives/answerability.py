"""The loss of "does this window hold an answer?": cross-entropy, mean over windows.

The label is the window's own: an answerable question has windows without its answer, and these are impossible too.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict
from torch import Tensor
from torch.nn import functional as F

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.heads.outputs import ClassOutputs
from lamina.model import Model
from lamina.scoring.answerability import IMPOSSIBLE


def answerability_labels(gold: Tensor) -> Tensor:
    """[R, 2] gold positions -> [R] classes; (0, 0) is the null answer."""
    return (gold[:, 1] == 0).long() * IMPOSSIBLE


class AnswerabilityLoss:
    name = "answerability"

    def counts(self, batch: Batch) -> dict[str, float]:
        return {"windows": float(len(batch.gold))}

    def __call__(self, model: Model, batch: Batch, outputs: ClassOutputs, totals: dict[str, float]) -> Tensor:
        return F.cross_entropy(outputs.logits, answerability_labels(batch.gold), reduction="sum") / totals["windows"]


class AnswerabilityLossOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    heads: ClassVar[tuple[str, ...]] = ("answerability",)
    type: Literal["answerability"] = "answerability"
    """Cross-entropy of two classes: the window has an answer or not."""

    def build(self, labels: Labels) -> AnswerabilityLoss:
        return AnswerabilityLoss()
