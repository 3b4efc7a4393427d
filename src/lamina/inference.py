"""Windows -> logits: the model over a whole data set, in batches of about equal length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from lamina.data.batches import make_batch, pack
from lamina.data.windows import Windows
from lamina.model import Model
from lamina.parallel import side_by_side
from lamina.progress import Progress, Silent

Floats = npt.NDArray[np.float32]

TOKENS = 1024  # padded tokens at once on a CPU: a few rows, whose activations stay in the cache
GPU_TOKENS = 1 << 15


@dataclass(frozen=True, slots=True)
class SpanLogits:
    """Start and end logits without padding, one a token of the windows that they were made from."""

    start: Floats  # [tokens]
    end: Floats  # [tokens]


def span_logits(model: Model, windows: Windows, *, tokens: int | None = None, progress: Progress | None = None) -> SpanLogits:
    """The logits of every window; `progress` advances by windows. The model must be in eval mode."""
    progress = progress or Silent()
    device = next(model.parameters()).device
    logits = SpanLogits(np.empty(len(windows.ids), np.float32), np.empty(len(windows.ids), np.float32))
    order = np.argsort(-windows.lengths, kind="stable")  # longest first: what does not fit in memory fails at once

    @torch.inference_mode()
    def fill(run: npt.NDArray[np.int64]) -> int:
        rows = order[run]
        batch = make_batch(windows, rows)
        outputs = model(batch.to(device))
        mask = batch.mask.numpy()
        token = (windows.starts[rows][:, None] + np.arange(mask.shape[1]))[mask]
        logits.start[token] = outputs.start.cpu().numpy()[mask]
        logits.end[token] = outputs.end.cpu().numpy()[mask]
        return len(rows)

    runs = pack(windows.lengths[order], tokens or (TOKENS if device.type == "cpu" else GPU_TOKENS))
    for rows in side_by_side(fill, runs) if device.type == "cpu" else map(fill, runs):
        progress.advance(rows)
    return logits
