"""Some windows as arrays, padded to the longest of them, and the windows of a dataset cut into batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lamina.data.windows import Windows
from lamina.utils.arrays import Bools, Longs


@dataclass(frozen=True, slots=True)
class Padded:
    """R rows of T tokens, as a model reads them."""

    ids: Longs  # [R, T]
    type_ids: Longs  # [R, T]
    mask: Bools  # [R, T], True on real tokens
    context: Bools  # [R, T], where an answer can be


def pad_windows(windows: Windows, rows: Sequence[int] | Longs) -> Padded:
    """Return the windows `rows`, padded to the longest of them."""
    index = np.asarray(rows, np.int64)
    length = windows.lengths[index]
    column = np.arange(length.max())
    mask = column < length[:, None]  # [R, T]
    token = np.where(mask, windows.starts[index][:, None] + column, 0)  # [R, T]
    return Padded(
        ids=np.where(mask, windows.ids[token], windows.pad).astype(np.int64),
        type_ids=np.where(mask, windows.type_ids[token], 0).astype(np.int64),
        mask=mask,
        context=windows.context[token] & mask,
    )


def places(windows: Windows, rows: Longs, mask: Bools) -> Longs:
    """Return the indices of a batch's real tokens among the tokens of all windows. `rows` are the windows of the batch."""
    place: Longs = (windows.starts[rows][:, None] + np.arange(mask.shape[1]))[mask]
    return place


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
