"""A head that scores whether a question asks for a number: 1 for a number, 0 for anything else."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor, nn

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.heads.outputs import ScoreOutputs
from lamina.heads.queries import AskingHead
from lamina.heads.start import StartOptions


class NumberHead(AskingHead):
    """Computes w . v + b for the classifier token's vector v."""

    slots = 1
    positions: Literal["cls"] = "cls"

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 1)

    def forward(self, vectors: Tensor, batch: Batch) -> ScoreOutputs:
        return ScoreOutputs(self.linear(vectors[:, 0, 0]).squeeze(-1).float())  # [R, 1, T, D] -> [R]


class NumberHeadOptions(StartOptions):
    slots: ClassVar[int] = NumberHead.slots
    kind: ClassVar[str] = "numbers"  # the kind of task
    pooled: ClassVar[bool] = False
    objective: ClassVar[str] = "mse"
    type: Literal["number"] = "number"

    def build(self, width: int, labels: Labels) -> NumberHead:
        return NumberHead(width)
