"""The loss of a task: the sum of its terms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lamina.data.batches import Batch
from lamina.heads import Outputs
from lamina.model import Model
from lamina.objectives.term import Term


class Weighted:
    """A term times a factor, such as the objective beside the outputs of teachers."""

    def __init__(self, term: Term, factor: float) -> None:
        self.name = term.name
        self.term = term
        self.factor = factor

    def counts(self, batch: Batch) -> dict[str, float]:
        return self.term.counts(batch)

    def __call__(self, model: Model, batch: Batch, outputs: Outputs, totals: dict[str, float]) -> Tensor:
        return self.factor * self.term(model, batch, outputs, totals)


@dataclass(frozen=True)
class Loss:
    """The sum of a task's terms, times the weight of the task."""

    terms: Sequence[Term]
    weight: float = 1.0

    @property
    def objective(self) -> Term:
        """Return the objective, without the terms that are added to it and without any weight."""
        first = self.terms[0]
        return first.term if isinstance(first, Weighted) else first

    @property
    def joint(self) -> bool:
        """Whether the loss of an item depends on the other items of its micro-batch."""
        return any(getattr(term, "joint", False) for term in (self.objective, *self.terms))

    def counts(self, batches: Iterable[Batch]) -> dict[str, float]:
        """Return the denominators of a whole step, so that micro-batches add up to its mean."""
        totals: dict[str, float] = {}
        for batch in batches:
            for term in self.terms:
                for name, count in term.counts(batch).items():
                    totals[name] = totals.get(name, 0.0) + count
        return totals

    def parts(self, model: Model, batch: Batch, outputs: Outputs, totals: dict[str, float]) -> Tensor:
        """Return the micro-batch's share of each term, [terms], times the weight of the task.

        `totals` are the counts of the whole step.
        """
        return self.weight * torch.stack([term(model, batch, outputs, totals) for term in self.terms])

    def __call__(self, model: Model, batch: Batch, outputs: Outputs, totals: dict[str, float]) -> Tensor:
        """Return the micro-batch's share of the loss of the step, the sum of `parts`."""
        return self.parts(model, batch, outputs, totals).sum()
