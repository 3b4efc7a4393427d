"""The losses of sentences and of pairs, each the mean over items.

Paper: Stephens, minBERT for three tasks (002). For a pair, c is the cosine of its two vectors and z the head's logit of
"similar". s is the label as a share of the range of scores; for two classes it is 0 or 1.

    cross_entropy:         -log softmax(logits)[class]
    binary_cross_entropy:  -s log sigmoid(z) - (1 - s) log(1 - sigmoid(z))
    cosine_embedding:      1 - c for similar pairs, max(0, c - margin) for the others
    mse:                   (c - s)^2, or (score - s)^2 for heads that predict a score

Departure: the cosine embedding loss is for labels of +1 and -1, but the paper gave it scores of 0 to 5. There only a label of
exactly 1 counts, as "similar". Here 3 of 5 and more (0.6 of the range) are similar; `paper_labels` computes the paper's loss.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.heads.outputs import ClassOutputs, PairOutputs, ScoreOutputs
from lamina.model import Model
from lamina.objectives.targets import alike, need_classes, need_pairs, need_scores, numbers, shares
from lamina.utils.options import Options


def cosine_embedding(cosine: Tensor, side: Tensor, margin: float = 0.0) -> Tensor:
    """Return the loss of each pair, [I]. `side` is 1 for similar pairs, -1 for dissimilar ones; others have no loss."""
    return (1 - cosine) * (side == 1) + (cosine - margin).clamp_min(0) * (side == -1)


class ItemLoss:
    """A loss that is a mean over items."""

    name: str

    def counts(self, batch: Batch) -> dict[str, float]:
        return {"items": float(len(numbers(batch)))}


class CrossEntropy(ItemLoss):
    """Cross-entropy of the classes."""

    name = "cross_entropy"

    def __init__(self, label_smoothing: float) -> None:
        self.label_smoothing = label_smoothing

    def __call__(self, model: Model, batch: Batch, outputs: ClassOutputs, totals: dict[str, float]) -> Tensor:
        classes = numbers(batch).long()
        loss = F.cross_entropy(outputs.logits, classes, reduction="sum", label_smoothing=self.label_smoothing)
        return loss / totals["items"]


class BinaryCrossEntropy(ItemLoss):
    """Binary cross-entropy of a pair's logit."""

    name = "binary_cross_entropy"

    def __init__(self, labels: Labels) -> None:
        self.labels = labels

    def __call__(self, model: Model, batch: Batch, outputs: PairOutputs, totals: dict[str, float]) -> Tensor:
        targets = shares(batch, self.labels)
        return F.binary_cross_entropy_with_logits(outputs.logits, targets, reduction="sum") / totals["items"]


class CosineEmbedding(ItemLoss):
    """The cosine embedding loss of pairs."""

    name = "cosine_embedding"

    def __init__(self, labels: Labels, margin: float, *, paper_labels: bool) -> None:
        self.labels = labels
        self.margin = margin
        self.paper_labels = paper_labels

    def __call__(self, model: Model, batch: Batch, outputs: PairOutputs, totals: dict[str, float]) -> Tensor:
        side = numbers(batch) if self.paper_labels else alike(batch, self.labels).long() * 2 - 1
        return cosine_embedding(outputs.cosine, side, self.margin).sum() / totals["items"]


class SquaredError(ItemLoss):
    """The squared error of a cosine or a score."""

    name = "mse"

    def __init__(self, labels: Labels) -> None:
        self.labels = labels

    def __call__(self, model: Model, batch: Batch, outputs: PairOutputs | ScoreOutputs, totals: dict[str, float]) -> Tensor:
        predicted = outputs.cosine if isinstance(outputs, PairOutputs) else outputs.scores
        return F.mse_loss(predicted, shares(batch, self.labels), reduction="sum") / totals["items"]


# ---- options


class CrossEntropyOptions(Options):
    """Options of the cross-entropy."""

    heads: ClassVar[tuple[str, ...]] = ("classification", "concatenation")
    type: Literal["cross_entropy"] = "cross_entropy"
    """Cross-entropy of the classes."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Share of the target spread over all classes, from 0 to below 1."""

    def build(self, labels: Labels) -> CrossEntropy:
        need_classes('objective.type = "cross_entropy"', labels)
        return CrossEntropy(self.label_smoothing)


class BinaryCrossEntropyOptions(Options):
    """Options of the binary cross-entropy; it has none but its type."""

    heads: ClassVar[tuple[str, ...]] = ("cosine",)
    type: Literal["binary_cross_entropy"] = "binary_cross_entropy"
    """Binary cross-entropy of the logit of a pair; scores are soft targets."""

    def build(self, labels: Labels) -> BinaryCrossEntropy:
        need_pairs('objective.type = "binary_cross_entropy"', labels)
        return BinaryCrossEntropy(labels)


class CosineEmbeddingOptions(Options):
    """Options of the cosine embedding loss."""

    heads: ClassVar[tuple[str, ...]] = ("cosine",)
    type: Literal["cosine_embedding"] = "cosine_embedding"
    """Raise the cosine of similar pairs and lower that of other pairs down to a margin."""
    margin: float = Field(default=0.0, ge=-1, le=1)
    """Cosine below which dissimilar pairs have no loss, from -1 to 1."""
    paper_labels: bool = False
    """Use the labels as numbers: only 1 (similar) and -1 (dissimilar) have a loss."""

    def build(self, labels: Labels) -> CosineEmbedding:
        need_pairs('objective.type = "cosine_embedding"', labels)
        return CosineEmbedding(labels, self.margin, paper_labels=self.paper_labels)


class SquaredErrorOptions(Options):
    """Options of the squared error; it has none but its type."""

    heads: ClassVar[tuple[str, ...]] = ("regression", "cosine", "concatenation")
    type: Literal["mse"] = "mse"
    """Squared error between the output and the label as a share of its range."""

    def build(self, labels: Labels) -> SquaredError:
        need_scores('objective.type = "mse"', labels)
        return SquaredError(labels)
