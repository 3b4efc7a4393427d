"""Run a function over all windows of a dataset, in padded batches of about equal length, several at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from lamina.data.logits import SpanLogits
from lamina.data.padding import Padded, pack, pad_windows, places
from lamina.data.windows import Windows
from lamina.utils.arrays import Floats, Longs
from lamina.utils.progress import Progress

TOKENS = 256  # tokens of a batch, with padding: one row or two, whose activations fit the nearest caches of the processor

Found = Mapping[str, npt.NDArray[Any]]  # the outputs of a graph for a batch, by name
Run = Callable[[Padded], Found]


def spans(run: Run, windows: Windows, workers: int, progress: Progress) -> SpanLogits:
    """Return the logits of every token, from the outputs `start_logits` and `end_logits`, [R, T]."""
    logits = SpanLogits(np.empty(len(windows.ids), np.float32), np.empty(len(windows.ids), np.float32))

    def work(rows: Longs, batch: Padded, found: Found) -> None:
        token = places(windows, rows, batch.mask)
        logits.start[token] = found["start_logits"][batch.mask]
        logits.end[token] = found["end_logits"][batch.mask]

    each_batch(run, windows, work, workers, progress)
    return logits


def items(run: Run, windows: Windows, workers: int, progress: Progress, *, sides: int) -> dict[str, Floats]:
    """Return the outputs of every item by name. An item is `sides` neighbouring windows."""
    found: list[tuple[Longs, Found]] = []

    def work(rows: Longs, batch: Padded, outputs: Found) -> None:
        found.append((rows[::sides] // sides, outputs))

    each_batch(run, windows, work, workers, progress)
    if not found:
        return {}
    order = np.argsort(np.concatenate([rows for rows, _ in found]))
    return {name: np.concatenate([outputs[name] for _, outputs in found])[order] for name in found[0][1]}


def each_batch(
    run: Run, windows: Windows, work: Callable[[Longs, Padded, Found], None], workers: int, progress: Progress
) -> None:
    """Call `work` with the rows, the batch and the outputs of every batch. A batch holds whole items.

    Batches run in parallel, one thread each, since threads that share a batch wait for each other.
    """
    lengths = windows.item_lengths
    order = np.argsort(-lengths, kind="stable")  # longest first: a batch too large for the memory fails at once
    parts = pack(lengths[order], TOKENS)

    def one(part: Longs) -> int:
        rows = windows.windows_of(order[part])
        batch = pad_windows(windows, rows)
        work(rows, batch, run(batch))
        return len(rows)

    if min(workers, len(parts)) < 2:
        for part in parts:
            progress.advance(one(part))
        return
    pool = ThreadPoolExecutor(min(workers, len(parts)), "lamina")
    try:
        for rows in pool.map(one, parts):
            progress.advance(rows)
    finally:
        pool.shutdown(cancel_futures=True)
