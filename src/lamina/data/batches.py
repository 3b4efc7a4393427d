"""Batches: some windows as tensors, padded to the longest of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lamina.data.hidden_states import HiddenStack
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
            part.to(device, non_blocking=True) for part in (self.ids, self.type_ids, self.mask, self.context, self.gold)
        )
        states = self.states.to(device) if self.states is not None else None
        labels, taught = (None if part is None else part.to(device, non_blocking=True) for part in (self.labels, self.taught))
        return Batch(ids, type_ids, mask, context, gold, self.windows, states, labels, self.sides, taught)


def make_batch(windows: Windows, rows: Sequence[int] | npt.NDArray[np.int64]) -> Batch:
    """Return the windows `rows`, which are whole items, padded to the longest of them."""
    index = np.asarray(rows, np.int64)
    length = windows.lengths[index]
    column = np.arange(length.max())
    mask = column < length[:, None]  # [R, T]
    token = np.where(mask, windows.starts[index][:, None] + column, 0)  # [R, T]
    return Batch(
        ids=torch.from_numpy(np.where(mask, windows.ids[token], windows.pad).astype(np.int64)),
        type_ids=torch.from_numpy(np.where(mask, windows.type_ids[token], 0).astype(np.int64)),
        mask=torch.from_numpy(mask),
        context=torch.from_numpy(windows.context[token] & mask),
        gold=torch.from_numpy(windows.gold[index].astype(np.int64)),
        windows=tuple(index.tolist()),
        labels=None if windows.labels is None else torch.from_numpy(windows.labels[index[:: windows.sides] // windows.sides]),
        sides=windows.sides,
    )


def pack(lengths: npt.NDArray[np.int64], tokens: int, rows: int | None = None) -> list[npt.NDArray[np.int64]]:
    """Return ``0 .. len(lengths)`` cut into runs, in order. A run padded to its longest has at most `tokens` tokens.

    A run also has at most `rows` items. A single item longer than `tokens` is a run of its own.

    >>> [run.tolist() for run in pack(np.array([3, 3, 3, 9]), tokens=6)]
    [[0, 1], [2], [3]]
    """
    runs, first, longest = [], 0, 0
    for item, length in enumerate(lengths.tolist()):
        longest = max(longest, length)
        if item > first and (longest * (item + 1 - first) > tokens or item - first == rows):
            runs.append(np.arange(first, item))
            first, longest = item, length
    if len(lengths):
        runs.append(np.arange(first, len(lengths)))
    return runs
