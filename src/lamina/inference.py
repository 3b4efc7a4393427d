"""Windows -> logits: the model over a whole data set, in batches of about equal length."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from lamina.cache.part import stored_batch
from lamina.cache.store import Store
from lamina.data.batches import Batch, pack
from lamina.data.logits import SpanLogits
from lamina.data.windows import Windows
from lamina.heads import ClassOutputs, SpanOutputs
from lamina.model import Model
from lamina.parallel import side_by_side
from lamina.progress import Progress, Silent

__all__ = ["SpanLogits", "class_logits", "each_batch", "places", "span_logits"]

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]

TOKENS = 1024  # padded tokens at once on a CPU: a few rows, whose activations stay in the cache
GPU_TOKENS = 1 << 15


def span_logits(
    model: Model,
    windows: Windows,
    *,
    store: Store | None = None,
    tokens: int | None = None,
    progress: Progress | None = None,
) -> SpanLogits:
    """The logits of every window; `progress` advances by windows. The model must be in eval mode."""
    logits = SpanLogits(np.empty(len(windows.ids), np.float32), np.empty(len(windows.ids), np.float32))

    def work(rows: Longs, batch: Batch) -> None:
        outputs = model(batch)
        assert isinstance(outputs, SpanOutputs)
        mask = batch.mask.cpu().numpy()
        token = places(windows, rows, mask)
        logits.start[token] = outputs.start.cpu().numpy()[mask]
        logits.end[token] = outputs.end.cpu().numpy()[mask]

    each_batch(model, windows, work, store=store, tokens=tokens, progress=progress)
    return logits


def class_logits(model: Model, windows: Windows, *, store: Store | None = None, progress: Progress | None = None) -> Floats:
    """[W, C] the logits of every window's classes. The model must be in eval mode."""
    logits: dict[int, Floats] = {}

    def work(rows: Longs, batch: Batch) -> None:
        outputs = model(batch)
        assert isinstance(outputs, ClassOutputs)
        logits.update(zip(rows.tolist(), outputs.logits.cpu().numpy(), strict=True))

    each_batch(model, windows, work, store=store, progress=progress)
    return np.stack([logits[window] for window in range(len(windows))])


def places(windows: Windows, rows: Longs, mask: npt.NDArray[np.bool_]) -> Longs:
    """Where the real tokens of a batch of the windows `rows` stand among the tokens of all windows."""
    place: Longs = (windows.starts[rows][:, None] + np.arange(mask.shape[1]))[mask]
    return place


def each_batch(
    model: Model,
    windows: Windows,
    work: Callable[[Longs, Batch], None],
    *,
    store: Store | None = None,
    tokens: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Calls `work` with every window once, in batches of about equal length on the model's device, in inference mode."""
    progress = progress or Silent()
    device = next(model.parameters()).device
    order = np.argsort(-windows.lengths, kind="stable")  # longest first: what does not fit in memory fails at once

    @torch.inference_mode()
    def run(part: Longs) -> int:
        rows = order[part]
        work(rows, stored_batch(windows, rows, store).to(device))
        return len(rows)

    parts = pack(windows.lengths[order], tokens or (TOKENS if device.type == "cpu" else GPU_TOKENS))
    for rows in side_by_side(run, parts) if device.type == "cpu" else map(run, parts):
        progress.advance(rows)
