"""R-Drop: penalises different outputs of two passes over the same texts with different dropout.

Paper: Liang et al. 2021. With o1 and o2 the outputs of the two passes, L the task's objective, D the `divergence` (of classes
and positions KL(p1, p2) + KL(p2, p1), of scores and cosines the squared difference):

    loss = (L(o1) + L(o2)) / 2 + weight D(o1, o2) / 2, mean over items

L(o1) is in the loss already, as the task's objective; the term adds (L(o2) - L(o1)) / 2 and the weighted divergence to it. Its
gradient flows through both passes. Without dropout the two are equal and the loss is L(o1).

Departures: the mean of both objectives instead of their sum, so that the learning rate need not change; half the paper's
weight gives its balance of the two. What the task adds besides (ranking, SMART) sees the first pass alone. The second is in
float32, also where the first is not.

It costs a second forward and its backward: a step of the default recipe takes 1.8 times as long.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.heads.outputs import Outputs
from lamina.model import Model
from lamina.objectives.divergence import divergence
from lamina.objectives.term import Extra, Term


class RDrop:
    """The term; the `totals` that it is given hold the counts of its objective, which stands beside it in the loss."""

    name = "rdrop"

    def __init__(self, task: str, objective: Term, weight: float) -> None:
        self.task = task
        self.objective = objective
        self.weight = weight

    def counts(self, batch: Batch) -> dict[str, float]:
        return {"rdrop.items": float(len(batch.ids) // batch.sides)}

    def __call__(self, model: Model, batch: Batch, outputs: Outputs, totals: dict[str, float]) -> Tensor:
        again: Outputs = model(batch, self.task)
        first, second = (self.objective(model, batch, said, totals) for said in (outputs, again))
        apart = divergence(outputs, again).sum() / totals["rdrop.items"]
        return (second - first) / 2 + self.weight * apart / 2


class RDropOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    heads: ClassVar[tuple[str, ...]] = ()
    weight: float = Field(default=1.0, ge=0)
    """Factor of the divergence; 0 switches the term and its second forward pass off."""

    @property
    def extra(self) -> Extra:
        return Extra(passes=1)

    def build(self, task: str, labels: Labels, objective: Term) -> RDrop:
        return RDrop(task, objective, self.weight)
