"""Heads for sentences and for pairs of sentences.

Paper: Stephens, minBERT for three tasks (002). With u and v the pooled vectors of two texts:

    classification:  W drop(u) + b, one row of W per class  one window: a sentence, or both texts of a pair (cross-encoder)
    regression:      w . drop(u) + b, a share of the range  one window, likewise
    cosine:          c = cos(u, v); logit a c + b           two windows; a starts at 5, b at -2.5, both train
    concatenation:   W drop([u, v, |u - v|, u * v]) + b     two windows; classes, or one score

Departures from the paper:
- Its logit is the cosine itself (`paper_sigmoid`). The sigmoid of a cosine stays between 0.27 and 0.73, so every cosine
  above 0 means "similar". Our logit is 0 at a cosine of 0.5 and is steep enough for both classes.
- Pooling is the mean over tokens by default, since the default encoder was trained with it. The paper's is "pooler".
- Regression and concatenation (Conneau et al. 2017) are not in the paper.

If a mixer attends with the head's queries (`mixers.attention`), those of classification are the rows of W and that of
regression is w. A class then reads its own mixture u_c of the layers: its logit is W_c . drop(u_c) + b_c. The vector of a
text (`lamina embed`) is the mean over the mixtures. Cosine and concatenation learn one query, since they have no such rows.

A score is a linear map without a sigmoid. Scores at the ends of the range are common; a sigmoid never reaches them and
learns slowest there. The score starts in the middle of the range. A prediction can be slightly outside the range.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.encoder.blocks import Dropout
from lamina.errors import LaminaError
from lamina.heads.outputs import ClassOutputs, PairOutputs, ScoreOutputs
from lamina.heads.queries import AskingHead
from lamina.heads.start import StartOptions

Pooling = Literal["cls", "pooler", "mean"]


def pool(vectors: Tensor, mask: Tensor, pooling: Pooling) -> Tensor:
    """Return one vector per text, in float32: [R, T, D] and the real tokens [R, T] -> [R, D].

    The mean includes special tokens. The pooler's vector is at the first token, where the mixer puts it.
    """
    if pooling != "mean":
        return vectors[:, 0].float()
    weights = mask.float() / mask.sum(1, keepdim=True)  # [R, T]
    return (vectors.float() * weights.unsqueeze(-1)).sum(1)


def two_sides(vectors: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the vectors of the first texts and of the second texts: [2 I, D] -> [I, D] each."""
    if batch.sides != 2:
        raise ValueError(f"this head reads a pair in two windows, but the batch has {batch.sides} per pair")
    return vectors[0::2], vectors[1::2]


class Linear(nn.Linear):
    """A linear map that starts as BERT's heads: normal(0, 0.02), and a bias of `start` everywhere."""

    def __init__(self, width: int, outputs: int, start: float = 0.0) -> None:
        self.start = start
        super().__init__(width, outputs)

    def reset_parameters(self) -> None:
        if not self.weight.is_meta:  # the meta device has no values, see `SpanHead`
            nn.init.normal_(self.weight, std=0.02)
        nn.init.constant_(self.bias, self.start)


def each_row(linear: nn.Linear, vectors: Tensor) -> Tensor:
    """Return linear(vectors), [I, Q, D] -> [I, outputs]; Q is 1, or one vector for each output."""
    if vectors.shape[1] == 1:
        mapped: Tensor = linear(vectors[:, 0])
        return mapped
    return (vectors * linear.weight).sum(-1) + linear.bias


class Classes(nn.Module):
    """Dropout and a linear map: vectors [I, Q, D] -> the logits of classes; Q is 1, or the number of classes."""

    def __init__(self, width: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.linear = Linear(width, classes)

    def forward(self, vectors: Tensor) -> ClassOutputs:
        return ClassOutputs(each_row(self.linear, self.dropout(vectors)).float())


class Score(nn.Module):
    """Dropout and a linear map: vectors [I, 1, D] -> scores as shares of the range."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.linear = Linear(width, 1, start=0.5)

    def forward(self, vectors: Tensor) -> ScoreOutputs:
        return ScoreOutputs(each_row(self.linear, self.dropout(vectors)).squeeze(-1).float())


class ScaleAndShift(nn.Module):
    """a c + b with learned a and b."""

    def __init__(self, scale: float = 5.0, shift: float = -2.5) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(scale))
        self.shift = nn.Parameter(torch.tensor(shift))

    def forward(self, cosine: Tensor) -> Tensor:
        return self.scale * cosine + self.shift


class SentenceHead(AskingHead):
    """A head that reads one vector per text, or one per text and output."""

    slots = 1
    positions: Literal["tokens", "cls"]

    def __init__(self, pooling: Pooling) -> None:
        super().__init__()
        self.pooling: Pooling = pooling
        self.positions = "tokens" if pooling == "mean" else "cls"

    def pooled(self, vectors: Tensor, batch: Batch) -> Tensor:
        """Return the vectors of the texts, the mean over the mixtures: [R, Q, T, D] -> [R, D] in float32."""
        return self.mixtures(vectors, batch).mean(1)

    def mixtures(self, vectors: Tensor, batch: Batch) -> Tensor:
        """Return the vector of each text in each mixture: [R, Q, T, D] -> [R, Q, D] in float32."""
        return torch.stack([pool(mixture, batch.mask, self.pooling) for mixture in vectors.unbind(1)], 1)


class OneWindowHead(SentenceHead):
    """Passes the vector of a sentence, or of a pair in one window, to `read` (`Classes` or `Score`).

    Its queries are the rows of `read`. If a mixer attends with them, each class has its own vector.
    """

    def __init__(self, pooling: Pooling, read: Classes | Score) -> None:
        super().__init__(pooling)
        self.read = read

    def queries(self) -> Tensor:
        return self.read.linear.weight  # [classes, D], or [1, D] for a score

    def forward(self, vectors: Tensor, batch: Batch) -> ClassOutputs | ScoreOutputs:
        outputs: ClassOutputs | ScoreOutputs = self.read(self.mixtures(vectors, batch))
        return outputs


class ConcatenationHead(SentenceHead):
    """Passes [u, v, |u - v|, u * v] of two texts to `read`, whose input is four times as wide."""

    def __init__(self, pooling: Pooling, read: Classes | Score) -> None:
        super().__init__(pooling)
        self.read = read

    def forward(self, vectors: Tensor, batch: Batch) -> ClassOutputs | ScoreOutputs:
        u, v = two_sides(self.pooled(vectors, batch), batch)  # [I, D] each
        outputs: ClassOutputs | ScoreOutputs = self.read(torch.cat([u, v, (u - v).abs(), u * v], -1).unsqueeze(1))
        return outputs


class CosineHead(SentenceHead):
    """The cosine of two texts; `turn` maps it to the logit (`ScaleAndShift`, or nn.Identity() as in the paper)."""

    def __init__(self, pooling: Pooling, turn: nn.Module) -> None:
        super().__init__(pooling)
        self.turn = turn

    def forward(self, vectors: Tensor, batch: Batch) -> PairOutputs:
        first, second = two_sides(F.normalize(self.pooled(vectors, batch), dim=-1), batch)  # [I, D] each
        cosine = (first * second).sum(-1)  # [I]
        return PairOutputs(cosine, self.turn(cosine), first, second)


# ---- options


class SentenceHeadOptions(StartOptions):
    """Options that all sentence heads share."""

    slots: ClassVar[int] = SentenceHead.slots
    kind: ClassVar[str] = "sentences"  # the kind of task
    sides: ClassVar[int] = 1  # number of windows of an item
    pooling: Pooling = "mean"
    """Vector of a text: mean of its tokens, state of the first token, or that through the encoder's pooler."""

    @property
    def pooled(self) -> bool:
        """Return whether the mixer gets the pooled state too."""
        return self.pooling == "pooler"

    def queries(self, labels: Labels) -> int:
        """Return the number of queries that the head has for a mixer."""
        return self.slots


class ClassificationHeadOptions(SentenceHeadOptions):
    """Options of the classification head."""

    objective: ClassVar[str] = "cross_entropy"
    type: Literal["classification"] = "classification"
    """Classify a text, or a pair of texts in one window."""
    dropout: float = Field(default=0.3, ge=0, lt=1)
    """Probability of dropout on the pooled vector, from 0 to below 1."""

    def queries(self, labels: Labels) -> int:
        return len(labels.classes)

    def build(self, width: int, labels: Labels) -> OneWindowHead:
        if labels.are_scores:
            raise LaminaError(
                'head.type: "classification" needs classes, but the labels are scores. Fix: list the classes in data.classes, '
                'or set head.type = "regression"'
            )
        return OneWindowHead(self.pooling, Classes(width, len(labels.classes), self.dropout))


class RegressionHeadOptions(SentenceHeadOptions):
    """Options of the regression head."""

    objective: ClassVar[str] = "mse"
    type: Literal["regression"] = "regression"
    """Predict a score for a text, or for a pair of texts in one window."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropout on the pooled vector, from 0 to below 1."""

    def build(self, width: int, labels: Labels) -> OneWindowHead:
        if not labels.are_scores:
            raise LaminaError(
                f'head.type: "regression" needs scores, but the labels are classes ({", ".join(labels.classes)}). '
                'Fix: give their range in data.scores, or set head.type = "classification"'
            )
        return OneWindowHead(self.pooling, Score(width, self.dropout))


class CosineHeadOptions(SentenceHeadOptions):
    """Options of the cosine head. `map` has the two maps that the paper tried and rejected (`answers.sentences`)."""

    sides: ClassVar[int] = 2
    objective: ClassVar[str] = "binary_cross_entropy"
    type: Literal["cosine"] = "cosine"
    """Compare two texts, read separately, by the cosine of their vectors."""
    paper_sigmoid: bool = False
    """Use the cosine itself as the logit, without learned scale and shift."""
    map: Literal["none", "bins", "cut"] = "none"
    """Map the cosine after training: not at all, to six equal bins (scores only), or to 0 below 0.5 (classes: "no")."""

    def build(self, width: int, labels: Labels) -> CosineHead:
        if not labels.are_scores and len(labels.classes) != 2:
            raise LaminaError(
                f'head.type: "cosine" needs two classes or scores, but the labels are {len(labels.classes)} classes '
                f'({", ".join(labels.classes)}). Fix: set head.type = "concatenation"'
            )
        return CosineHead(self.pooling, nn.Identity() if self.paper_sigmoid else ScaleAndShift())


class ConcatenationHeadOptions(SentenceHeadOptions):
    """Options of the concatenation head. It predicts classes by default; scores need objective.type = "mse"."""

    sides: ClassVar[int] = 2
    objective: ClassVar[str] = "cross_entropy"
    type: Literal["concatenation"] = "concatenation"
    """Classify or score two texts, read separately, from their joined vectors; scores need `objective.type = "mse"`."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropout on the joined vectors, from 0 to below 1."""

    def build(self, width: int, labels: Labels) -> ConcatenationHead:
        read = Score(4 * width, self.dropout) if labels.are_scores else Classes(4 * width, len(labels.classes), self.dropout)
        return ConcatenationHead(self.pooling, read)
