"""Compute the mean of an objective over a whole split, while inference runs over its batches."""

from __future__ import annotations

import math
from dataclasses import fields, replace

from lamina.data.batches import Batch, make_batch
from lamina.data.padding import pack
from lamina.data.windows import LOST
from lamina.heads import Outputs
from lamina.model import Model
from lamina.objectives import Term
from lamina.training.datasets import AnyDataset

TOKENS = 1 << 16  # tokens of a batch whose items are counted


class SplitLoss:
    """The mean of an objective over the items of a split, without other terms and without the weight of the task.

    Items whose answer no token covers are left out, as in training. Threads may call `add` at the same time, in any order.
    """

    def __init__(self, objective: Term, model: Model, dataset: AnyDataset) -> None:
        self._objective, self._model = objective, model
        self._totals: dict[str, float] = {}
        self._shares: list[float] = []
        items, windows = dataset.usable(), dataset.windows
        for run in pack(windows.item_lengths[items], TOKENS):
            for name, count in objective.counts(make_batch(windows, windows.windows_of(items[run]))).items():
                self._totals[name] = self._totals.get(name, 0.0) + count

    def add(self, batch: Batch, outputs: Outputs) -> None:
        """Add a batch with the outputs of the model."""
        usable = batch.gold[:: batch.sides, 0] != LOST  # [I]
        if not usable.all():
            rows = usable.repeat_interleave(batch.sides)  # [R]
            labels = None if batch.labels is None else batch.labels[usable]
            batch = replace(batch, mask=batch.mask[rows], context=batch.context[rows], gold=batch.gold[rows], labels=labels)
            outputs = replace(outputs, **{one.name: getattr(outputs, one.name)[usable] for one in fields(outputs)})
        if usable.any():
            self._shares.append(self._objective(self._model, batch, outputs, self._totals).item())

    @property
    def value(self) -> float | None:
        """Return the mean over all items that were added; None without a usable item."""
        return math.fsum(self._shares) if self._shares else None  # the sum does not depend on the order
