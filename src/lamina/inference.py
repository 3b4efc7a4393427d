"""Windows -> logits: the model over a whole data set, in batches of about equal length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from lamina.data.batches import make_batch, pack
from lamina.data.windows import Windows
from lamina.model import Model
from lamina.progress import Progress, Silent

Floats = npt.NDArray[np.float32]

TOKENS = 1536  # padded tokens at once: a few rows, whose activations stay in the cache


@dataclass(frozen=True, slots=True)
class SpanLogits:
    """Start and end logits without padding, one a token of the windows that they were made from."""

    start: Floats  # [tokens]
    end: Floats  # [tokens]


@torch.inference_mode()
def span_logits(model: Model, windows: Windows, *, tokens: int = TOKENS, progress: Progress | None = None) -> SpanLogits:
    """The logits of every window. The model must be in eval mode."""
    progress = progress or Silent()
    progress.start("answering", len(windows))
    device = next(model.parameters()).device
    start = np.empty(len(windows.ids), np.float32)
    end = np.empty(len(windows.ids), np.float32)
    order = np.argsort(-windows.lengths, kind="stable")  # longest first: what does not fit in memory fails at once
    for run in pack(windows.lengths[order], tokens):
        rows = order[run]
        batch = make_batch(windows, rows)
        outputs = model(batch.to(device))
        mask = batch.mask.numpy()
        token = (windows.starts[rows][:, None] + np.arange(mask.shape[1]))[mask]
        start[token] = outputs.start.cpu().numpy()[mask]
        end[token] = outputs.end.cpu().numpy()[mask]
        progress.advance(len(rows))
    return SpanLogits(start, end)
