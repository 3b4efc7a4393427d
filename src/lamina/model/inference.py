"""Windows -> logits: the model over a whole data set, in batches of about equal length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import cast

import numpy as np
import numpy.typing as npt
import torch

from lamina.data.batches import Batch, pack
from lamina.data.logits import SpanLogits
from lamina.data.windows import Windows
from lamina.heads import SpanOutputs
from lamina.heads.sentence import SentenceHead
from lamina.model import Model
from lamina.state_cache.dataset import stored_batch
from lamina.state_cache.store import Store
from lamina.utils.arrays import Floats, Longs
from lamina.utils.parallel import side_by_side
from lamina.utils.progress import Progress, Silent

TOKENS = 1024  # padded tokens at once on a CPU: a few rows, whose activations stay in the cache
GPU_TOKENS = 1 << 15


def span_logits(
    model: Model,
    windows: Windows,
    *,
    task: str = "main",
    store: Store | None = None,
    tokens: int | None = None,
    progress: Progress | None = None,
) -> SpanLogits:
    """The logits of every window; `progress` advances by windows. The model must be in eval mode."""
    logits = SpanLogits(np.empty(len(windows.ids), np.float32), np.empty(len(windows.ids), np.float32))

    def work(rows: Longs, batch: Batch) -> None:
        outputs = model(batch, task)
        assert isinstance(outputs, SpanOutputs)
        mask = batch.mask.cpu().numpy()
        token = places(windows, rows, mask)
        logits.start[token] = outputs.start.cpu().numpy()[mask]
        logits.end[token] = outputs.end.cpu().numpy()[mask]

    each_batch(model, windows, work, store=store, tokens=tokens, progress=progress)
    return logits


def item_outputs(
    model: Model,
    windows: Windows,
    *,
    task: str = "main",
    store: Store | None = None,
    progress: Progress | None = None,
) -> dict[str, Floats]:
    """All that a head says of every item, by the fields of its outputs. The model must be in eval mode."""
    found: list[tuple[Longs, dict[str, Floats]]] = []

    def work(rows: Longs, batch: Batch) -> None:
        outputs = model(batch, task)
        values = {one.name: getattr(outputs, one.name).cpu().numpy() for one in fields(outputs)}
        found.append((rows[:: windows.sides] // windows.sides, values))

    each_batch(model, windows, work, store=store, progress=progress)
    if not found:
        return {}
    order = np.argsort(np.concatenate([items for items, _ in found]))
    return {name: np.concatenate([values[name] for _, values in found])[order] for name in found[0][1]}


def text_vectors(model: Model, windows: Windows, *, task: str = "main", progress: Progress | None = None) -> Floats:
    """[W, D] the vector that a head of sentences reads of every text. The model must be in eval mode."""
    head = cast(SentenceHead, model.task(task).head)
    found: list[tuple[Longs, Floats]] = []

    def work(rows: Longs, batch: Batch) -> None:
        found.append((rows, head.pooled(model.vectors(batch, task), batch).cpu().numpy()))

    each_batch(model, windows, work, progress=progress)
    order = np.argsort(np.concatenate([rows for rows, _ in found]))
    vectors: Floats = np.concatenate([vectors for _, vectors in found])[order]
    return vectors


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
    """Calls `work` with every window once, in batches of whole items of about equal length on the model's device, in
    inference mode. `progress` advances by windows."""
    progress = progress or Silent()
    device = next(model.parameters()).device
    lengths = windows.item_lengths
    order = np.argsort(-lengths, kind="stable")  # longest first: what does not fit in memory fails at once

    @torch.inference_mode()
    def run(part: Longs) -> int:
        rows = windows.windows_of(order[part])
        work(rows, stored_batch(windows, rows, store).to(device))
        return len(rows)

    parts = pack(lengths[order], tokens or (TOKENS if device.type == "cpu" else GPU_TOKENS))
    for rows in side_by_side(run, parts) if device.type == "cpu" else map(run, parts):
        progress.advance(rows)


@dataclass(frozen=True)
class TorchInference:
    """A model as tasks run it (`tasks.kind.Infer`). The model must be in eval mode."""

    model: Model
    task: str = "main"
    store: Store | None = None
    progress: Progress = field(default_factory=Silent)

    def spans(self, windows: Windows) -> SpanLogits:
        self.progress.start("answering", len(windows))
        return span_logits(self.model, windows, task=self.task, store=self.store, progress=self.progress)

    def items(self, windows: Windows) -> dict[str, Floats]:
        self.progress.start("predicting", len(windows))
        return item_outputs(self.model, windows, task=self.task, store=self.store, progress=self.progress)
