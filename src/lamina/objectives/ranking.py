"""Multiple negatives ranking: the partner of a text is to be nearer than the other texts of the batch.

For every alike pair (a, b) of a micro-batch, with all second texts b_j and first texts a_j of its items as candidates:

    loss = ( -log softmax_j(scale cos(a, b_j))[b]  -  log softmax_j(scale cos(b, a_j))[a] ) / 2, mean over alike pairs

Paper: Henderson et al. 2017; 002 names it as future work. Unlike pairs give negatives only. The negatives are those of the
micro-batch: a step that is cut smaller to fit into memory has fewer of them.

Departure: a candidate that is known to belong to the pair is no negative. It is left out of the softmax when its text is one
of the pair's two texts, or when some alike pair of the micro-batch is made of it and one of them. The second text of an
unlike pair with the same first text stays: such negatives are the hard ones.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.errors import LaminaError
from lamina.heads.outputs import Outputs, PairOutputs
from lamina.model import Model
from lamina.objectives.targets import alike, need_pairs
from lamina.objectives.term import Extra, Term


def text_numbers(batch: Batch) -> tuple[Tensor, Tensor]:
    """[I] each: a number for every first and every second text; equal texts have equal numbers."""
    rows = batch.ids.masked_fill(~batch.mask, -1)  # [2 I, T]
    _, number = torch.unique(rows, dim=0, return_inverse=True)
    return number[0::2], number[1::2]


def ranking_losses(cosines: Tensor, scale: float, positive: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """[P] the loss of every alike pair; `cosines` [I, I] of first texts (rows) with second texts (columns), `positive` [I]
    which items are alike, `first` and `second` [I] the numbers of their texts."""
    scores = scale * cosines
    forward = _direction(scores, positive, first, second)
    backward = _direction(scores.t(), positive, second, first)
    return (forward + backward) / 2


def _direction(scores: Tensor, positive: Tensor, asking: Tensor, candidate: Tensor) -> Tensor:
    """[P] -log softmax of every alike pair's own candidate among all that are its own or its negatives."""
    texts = int(torch.stack([asking, candidate]).max()) + 1
    belongs = torch.eye(texts, dtype=torch.bool, device=scores.device)  # [texts, texts] equal, or alike in some pair
    belongs[asking[positive], candidate[positive]] = belongs[candidate[positive], asking[positive]] = True
    known = (belongs[asking][:, candidate] | belongs[candidate][:, candidate]).fill_diagonal_(False)  # [I, I]
    logs = scores.masked_fill(known, torch.finfo(scores.dtype).min).log_softmax(-1)
    return -logs.diagonal()[positive]


class Ranking:
    name = "ranking"

    def __init__(self, labels: Labels, weight: float, scale: float) -> None:
        self.labels = labels
        self.weight = weight
        self.scale = scale

    def counts(self, batch: Batch) -> dict[str, float]:
        return {"ranking.positives": float(alike(batch, self.labels).sum())}

    def __call__(self, model: Model, batch: Batch, outputs: Outputs, totals: dict[str, float]) -> Tensor:
        if not isinstance(outputs, PairOutputs):
            raise LaminaError('terms.ranking compares pairs that are read apart: choose head.type = "cosine"')
        cosines = outputs.first @ outputs.second.t()  # [I, I]
        losses = ranking_losses(cosines, self.scale, alike(batch, self.labels), *text_numbers(batch))
        return self.weight * losses.sum() / max(1.0, totals["ranking.positives"])


class RankingOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

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
