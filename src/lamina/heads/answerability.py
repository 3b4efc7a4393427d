"""The answerability head: a linear map of the classifier token's vector to two classes.

The question is whether the window holds an answer. Paper: BERTVision (001).
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.heads.outputs import ClassOutputs
from lamina.heads.start import StartOptions


class AnswerabilityHead(nn.Module):
    """Two classes from the vector of the classifier token; each class may have its own mixture."""

    slots = 2
    positions: Literal["cls"] = "cls"

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(self.slots, width))  # one row per class
        self.bias = nn.Parameter(torch.zeros(self.slots))
        if not self.weight.is_meta:
            nn.init.normal_(self.weight, std=0.02)

    def queries(self) -> Tensor:
        return self.weight  # [2, D]

    def forward(self, vectors: Tensor, batch: Batch) -> ClassOutputs:
        logits = (vectors[:, :, 0] * self.weight).sum(-1)  # [R, Q, D] * [2, D]; Q is 1 or 2
        return ClassOutputs((logits + self.bias).float())


class AnswerabilityHeadOptions(StartOptions):
    """Options of the answerability head.

    `aggregate` joins the windows of a question. "min" calls it unanswerable if no window has an answer. "paper_max" does so if
    any window has none, which calls every long text unanswerable.
    """

    slots: ClassVar[int] = AnswerabilityHead.slots
    kind: ClassVar[str] = "answerability"  # the kind of task
    objective: ClassVar[str] = "answerability"
    type: Literal["answerability"] = "answerability"
    """Classify each window as with or without an answer."""
    pooled: bool = True
    """Give the mixer the pooled state too; the mixer `last` then reads only that."""
    aggregate: Literal["min", "paper_max"] = "min"
    """Call a question unanswerable if all its windows have no answer, or, as the paper does, if any has none."""

    def build(self, width: int, labels: Labels) -> AnswerabilityHead:
        return AnswerabilityHead(width)
