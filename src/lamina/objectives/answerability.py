"""The loss of answerability: cross-entropy of "has an answer" and "has none", mean over windows.

Paper: BERTVision (001). The label belongs to the window. A window without the answer counts as impossible, also if its
question is answerable.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor
from torch.nn import functional as F

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.heads.outputs import ClassOutputs
from lamina.model import Model
from lamina.scoring.answerability import IMPOSSIBLE
from lamina.utils.options import Options


def answerability_labels(gold: Tensor) -> Tensor:
    """Return the class of each window, [R], from its gold positions [R, 2]; (0, 0) means no answer."""
    return (gold[:, 1] == 0).long() * IMPOSSIBLE


class AnswerabilityLoss:
    """The cross-entropy as a term of a training step."""

    name = "answerability"

    def counts(self, batch: Batch) -> dict[str, float]:
        return {"windows": float(len(batch.gold))}

    def __call__(self, model: Model, batch: Batch, outputs: ClassOutputs, totals: dict[str, float]) -> Tensor:
        return F.cross_entropy(outputs.logits, answerability_labels(batch.gold), reduction="sum") / totals["windows"]


class AnswerabilityLossOptions(Options):
    """Options of the loss of answerability; it has none but its type."""

    heads: ClassVar[tuple[str, ...]] = ("answerability",)
    type: Literal["answerability"] = "answerability"
    """Cross-entropy of two classes: the window has an answer or not."""

    def build(self, labels: Labels) -> AnswerabilityLoss:
        return AnswerabilityLoss()
