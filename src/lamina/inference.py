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
from lamina.heads import ClassOutputs, Outputs, SpanOutputs
from lamina.model import Model
from lamina.parallel import side_by_side
from lamina.progress import Progress, Silent

__all__ = ["SpanLogits", "class_logits", "span_logits"]

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

    def keep(rows: Longs, batch: Batch, outputs: Outputs) -> None:
        assert isinstance(outputs, SpanOutputs)
        mask = batch.mask.numpy()
        token = (windows.starts[rows][:, None] + np.arange(mask.shape[1]))[mask]
        logits.start[token] = outputs.start.cpu().numpy()[mask]
        logits.end[token] = outputs.end.cpu().numpy()[mask]

    _run(model, windows, keep, store, tokens, progress)
    return logits


def class_logits(model: Model, windows: Windows, *, store: Store | None = None, progress: Progress | None = None) -> Floats:
    """[W, C] the logits of every window's classes. The model must be in eval mode."""
    logits: dict[int, Floats] = {}

    def keep(rows: Longs, batch: Batch, outputs: Outputs) -> None:
        assert isinstance(outputs, ClassOutputs)
        logits.update(zip(rows.tolist(), outputs.logits.cpu().numpy(), strict=True))

    _run(model, windows, keep, store, None, progress)
    return np.stack([logits[window] for window in range(len(windows))])


def _run(
    model: Model,
    windows: Windows,
    keep: Callable[[Longs, Batch, Outputs], None],
    store: Store | None,
    tokens: int | None,
    progress: Progress | None,
) -> None:
    """Every window through the model, in batches of about equal length; `keep` gets what comes out."""
    progress = progress or Silent()
    device = next(model.parameters()).device
    order = np.argsort(-windows.lengths, kind="stable")  # longest first: what does not fit in memory fails at once

    @torch.inference_mode()
    def run(part: Longs) -> int:
        rows = order[part]
        batch = stored_batch(windows, rows, store)
        keep(rows, batch, model(batch.to(device)))
        return len(rows)

    parts = pack(windows.lengths[order], tokens or (TOKENS if device.type == "cpu" else GPU_TOKENS))
    for rows in side_by_side(run, parts) if device.type == "cpu" else map(run, parts):
        progress.advance(rows)
