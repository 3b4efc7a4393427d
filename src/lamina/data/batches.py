"""Batches: some windows as tensors, padded to the longest of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lamina.data.hidden_states import HiddenStack, moved
from lamina.data.padding import pad_windows
from lamina.data.windows import Windows


@dataclass(frozen=True, slots=True)
class Batch:
    """R rows of T tokens. `context` marks where an answer can be; it never comes from the type ids."""

    ids: Tensor  # [R, T] int64
    type_ids: Tensor  # [R, T] int64
    mask: Tensor  # [R, T] bool, True on real tokens
    context: Tensor  # [R, T] bool
    gold: Tensor  # [R, 2] int64, first and last token of the answer; (0, 0) is the null answer
    windows: tuple[int, ...]  # the index of the window of each row
    states: HiddenStack | None = None  # of frozen layers, from a store; then the encoder starts above them
    labels: Tensor | None = None  # [I] float32, the class or score of each item; only for sentences
    sides: int = 1  # rows of an item, which follow each other: 2 for pairs encoded separately, so R = 2 I
    taught: Tensor | None = None  # outputs of K teachers for `terms.teacher`: [K, R, T, 2] of spans, else [K, I, C]

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device."""
        ids, type_ids, mask, context, gold = (
            moved(part, device) for part in (self.ids, self.type_ids, self.mask, self.context, self.gold)
        )
        states = self.states.to(device) if self.states is not None else None
        labels, taught = (None if part is None else moved(part, device) for part in (self.labels, self.taught))
        return Batch(ids, type_ids, mask, context, gold, self.windows, states, labels, self.sides, taught)


def make_batch(windows: Windows, rows: Sequence[int] | npt.NDArray[np.int64]) -> Batch:
    """Return the windows `rows`, which are whole items, padded to the longest of them."""
    index = np.asarray(rows, np.int64)
    padded = pad_windows(windows, index)
    return Batch(
        ids=torch.from_numpy(padded.ids),
        type_ids=torch.from_numpy(padded.type_ids),
        mask=torch.from_numpy(padded.mask),
        context=torch.from_numpy(padded.context),
        gold=torch.from_numpy(windows.gold[index].astype(np.int64)),
        windows=tuple(index.tolist()),
        labels=None if windows.labels is None else torch.from_numpy(windows.labels[index[:: windows.sides] // windows.sides]),
        sides=windows.sides,
    )
