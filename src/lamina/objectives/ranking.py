"""Multiple negatives ranking: the partner of a text should be nearer than the other texts of the batch.

For every similar pair (a, b) of a micro-batch, all second texts b_j and first texts a_j of its items are candidates:

    loss = ( -log softmax_j(scale cos(a, b_j))[b]  -  log softmax_j(scale cos(b, a_j))[a] ) / 2, mean over similar pairs

Paper: Henderson et al. 2017; 002 names it as future work. Dissimilar pairs give negatives only. The negatives come from the
micro-batch, so a step that is cut smaller to fit into memory has fewer of them.

Departure: a candidate that is known to belong to the pair is no negative and is left out of the softmax. That is a text
equal to one of the pair's texts, or one that forms a similar pair with one of them in the micro-batch. The second text of a
dissimilar pair with the same first text stays, since such negatives are hard ones.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.errors import LaminaError
from lamina.heads.outputs import Outputs, PairOutputs
from lamina.model import Model
from lamina.objectives.targets import alike, need_pairs
from lamina.objectives.term import Extra, Term
from lamina.utils.options import Options


def text_numbers(batch: Batch) -> tuple[Tensor, Tensor]:
    """Return a number for every first text and every second text, [I] each; equal texts have equal numbers."""
    rows = batch.ids.masked_fill(~batch.mask, -1)  # [2 I, T]
    _, number = torch.unique(rows, dim=0, return_inverse=True)
    return number[0::2], number[1::2]


def ranking_losses(cosines: Tensor, scale: float, positive: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return the loss of every similar pair, [P].

    `cosines` [I, I] has first texts as rows and second texts as columns. `positive` [I] marks similar items. `first` and
    `second` [I] are the numbers of their texts.
    """
    scores = scale * cosines
    forward = _direction(scores, positive, first, second)
    backward = _direction(scores.t(), positive, second, first)
    return (forward + backward) / 2


def _direction(scores: Tensor, positive: Tensor, asking: Tensor, candidate: Tensor) -> Tensor:
    """Return -log softmax of each similar pair's own candidate, [P]; the others of the softmax are its negatives."""
    texts = int(torch.stack([asking, candidate]).max()) + 1
    belongs = torch.eye(texts, dtype=torch.bool, device=scores.device)  # [texts, texts] equal, or similar in some pair
    belongs[asking[positive], candidate[positive]] = belongs[candidate[positive], asking[positive]] = True
    known = (belongs[asking][:, candidate] | belongs[candidate][:, candidate]).fill_diagonal_(False)  # [I, I]
    logs = scores.masked_fill(known, torch.finfo(scores.dtype).min).log_softmax(-1)
    return -logs.diagonal()[positive]


class Ranking:
    """Multiple negatives ranking as a term of a training step."""

    name = "ranking"
    joint = True

    def __init__(self, labels: Labels, weight: float, scale: float) -> None:
        self.labels = labels
        self.weight = weight
        self.scale = scale

    def counts(self, batch: Batch) -> dict[str, float]:
        return {"ranking.positives": float(alike(batch, self.labels).sum())}

    def __call__(self, model: Model, batch: Batch, outputs: Outputs, totals: dict[str, float]) -> Tensor:
        if not isinstance(outputs, PairOutputs):
            raise LaminaError('terms.ranking: it compares texts that are read separately. Fix: set head.type = "cosine"')
        cosines = outputs.first @ outputs.second.t()  # [I, I]
        losses = ranking_losses(cosines, self.scale, alike(batch, self.labels), *text_numbers(batch))
        return self.weight * losses.sum() / max(1.0, totals["ranking.positives"])


class RankingOptions(Options):
    """Options of multiple negatives ranking."""

    heads: ClassVar[tuple[str, ...]] = ("cosine",)
    weight: float = Field(default=1.0, ge=0)
    """Factor of the term; 0 switches it off."""
    scale: float = Field(default=20.0, gt=0)
    """Factor of the cosines before the softmax."""

    @property
    def extra(self) -> Extra:
        return Extra()

    def build(self, task: str, labels: Labels, objective: Term) -> Ranking:
        need_pairs("terms.ranking", labels)
        return Ranking(labels, self.weight, self.scale)
