"""R-Drop: penalise different outputs of two forward passes over the same texts with different dropout.

Paper: Liang et al. 2021. o1 and o2 are the outputs of the two passes and L is the task's objective. D is the `divergence`:
KL(p1, p2) + KL(p2, p1) for classes and positions, the squared difference for scores and cosines.

    loss = (L(o1) + L(o2)) / 2 + weight D(o1, o2) / 2, mean over items

L(o1) is in the loss already, as the task's objective. So the term adds (L(o2) - L(o1)) / 2 and the weighted divergence. Its
gradient flows through both passes. Without dropout the two are equal and the loss is L(o1).

Departures:
- The loss has the mean of both objectives instead of their sum, so the learning rate need not change. Half the paper's
  weight gives the paper's balance.
- Other terms of the task (ranking, SMART) see the first pass only.
- The second pass is in float32, even if the first is not.

R-Drop costs a second forward and backward pass: a step of the default recipe takes 1.8 times as long.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field
from torch import Tensor

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.heads.outputs import Outputs
from lamina.model import Model
from lamina.objectives.divergence import divergence
from lamina.objectives.term import Extra, Term
from lamina.utils.options import Options


class RDrop:
    """R-Drop as a term of a training step. `totals` must hold the counts of its objective, which is in the same loss."""

    name = "rdrop"

    def __init__(self, task: str, objective: Term, weight: float) -> None:
        self.task = task
        self.objective = objective
        self.weight = weight

    def counts(self, batch: Batch) -> dict[str, float]:
        return {"rdrop.items": float(len(batch.ids) // batch.sides)}

    def __call__(self, model: Model, batch: Batch, outputs: Outputs, totals: dict[str, float]) -> Tensor:
        again: Outputs = model(batch, self.task)
        first, second = (self.objective(model, batch, one, totals) for one in (outputs, again))
        apart = divergence(outputs, again).sum() / totals["rdrop.items"]
        return (second - first) / 2 + self.weight * apart / 2


class RDropOptions(Options):
    """Options of R-Drop."""

    heads: ClassVar[tuple[str, ...]] = ()
    weight: float = Field(default=1.0, ge=0)
    """Factor of the divergence; 0 switches the term and its second forward pass off."""

    @property
    def extra(self) -> Extra:
        return Extra(passes=1)

    def build(self, task: str, labels: Labels, objective: Term) -> RDrop:
        return RDrop(task, objective, self.weight)
