"""Run a model over all windows of a dataset, in batches of about equal length, and return numpy arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import cast

import numpy as np
import torch

from lamina.data.batches import Batch
from lamina.data.logits import SpanLogits
from lamina.data.padding import pack, places
from lamina.data.windows import Windows
from lamina.heads import Outputs, SpanOutputs
from lamina.heads.sentence import SentenceHead
from lamina.model import Model
from lamina.state_cache.dataset import stored_batch
from lamina.state_cache.store import Store
from lamina.utils.arrays import Floats, Longs
from lamina.utils.parallel import side_by_side
from lamina.utils.progress import Progress, Silent

TOKENS = 1024  # tokens of a batch on a CPU, with padding: a few rows, whose activations fit the processor's cache
GPU_TOKENS = 1 << 15

Seen = Callable[[Batch, Outputs], None]  # called with each batch and its outputs, from several threads


def span_logits(
    model: Model,
    windows: Windows,
    *,
    task: str = "main",
    store: Store | None = None,
    tokens: int | None = None,
    progress: Progress | None = None,
    seen: Seen | None = None,
) -> SpanLogits:
    """Return the logits of every token of all windows. The model must be in eval mode. `progress` advances by windows."""
    logits = SpanLogits(np.empty(len(windows.ids), np.float32), np.empty(len(windows.ids), np.float32))

    def work(rows: Longs, batch: Batch) -> None:
        outputs = model(batch, task)
        assert isinstance(outputs, SpanOutputs)
        if seen is not None:
            seen(batch, outputs)
        mask = batch.mask.cpu().numpy()
        token = places(windows, rows, mask)
        logits.start[token] = outputs.start.float().cpu().numpy()[mask]
        logits.end[token] = outputs.end.float().cpu().numpy()[mask]

    each_batch(model, windows, work, store=store, tokens=tokens, progress=progress)
    return logits


def item_outputs(
    model: Model,
    windows: Windows,
    *,
    task: str = "main",
    store: Store | None = None,
    progress: Progress | None = None,
    seen: Seen | None = None,
) -> dict[str, Floats]:
    """Return the outputs of a head for every item, by the names of their fields. The model must be in eval mode."""
    found: list[tuple[Longs, dict[str, Floats]]] = []

    def work(rows: Longs, batch: Batch) -> None:
        outputs = model(batch, task)
        if seen is not None:
            seen(batch, outputs)
        values = {one.name: getattr(outputs, one.name).float().cpu().numpy() for one in fields(outputs)}
        found.append((rows[:: windows.sides] // windows.sides, values))

    each_batch(model, windows, work, store=store, progress=progress)
    if not found:
        return {}
    order = np.argsort(np.concatenate([items for items, _ in found]))
    return {name: np.concatenate([values[name] for _, values in found])[order] for name in found[0][1]}


def text_vectors(model: Model, windows: Windows, *, task: str = "main", progress: Progress | None = None) -> Floats:
    """Return the pooled vector of every text, [W, D]; the head must be a sentence head. The model must be in eval mode."""
    head = cast(SentenceHead, model.task(task).head)
    found: list[tuple[Longs, Floats]] = []

    def work(rows: Longs, batch: Batch) -> None:
        found.append((rows, head.pooled(model.vectors(batch, task), batch).float().cpu().numpy()))

    each_batch(model, windows, work, progress=progress)
    order = np.argsort(np.concatenate([rows for rows, _ in found]))
    vectors: Floats = np.concatenate([vectors for _, vectors in found])[order]
    return vectors


def each_batch(
    model: Model,
    windows: Windows,
    work: Callable[[Longs, Batch], None],
    *,
    store: Store | None = None,
    tokens: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Call `work` with every window once, in inference mode, on the model's device.

    A batch holds whole items of about equal length. `progress` advances by windows. `work` runs in the model's precision.
    """
    progress = progress or Silent()
    device = next(model.parameters()).device
    lengths = windows.item_lengths
    order = np.argsort(-lengths, kind="stable")  # longest first: a batch too large for the memory fails at once

    @torch.inference_mode()
    def run(part: Longs) -> int:
        rows = windows.windows_of(order[part])
        with torch.autocast(device.type, model.precision, enabled=model.precision != torch.float32):
            work(rows, stored_batch(windows, rows, store).to(device))
        return len(rows)

    parts = pack(lengths[order], tokens or (TOKENS if device.type == "cpu" else GPU_TOKENS))
    for rows in side_by_side(run, parts) if device.type == "cpu" else map(run, parts):
        progress.advance(rows)


@dataclass(frozen=True)
class TorchInference:
    """Runs a model for `tasks` (`tasks.kind.Infer`). The model must be in eval mode."""

    model: Model
    task: str = "main"
    store: Store | None = None
    progress: Progress = field(default_factory=Silent)
    seen: Seen | None = None

    def spans(self, windows: Windows) -> SpanLogits:
        """Return the logits of every token of all windows."""
        self.progress.start("answering", len(windows))
        return span_logits(self.model, windows, task=self.task, store=self.store, progress=self.progress, seen=self.seen)

    def items(self, windows: Windows) -> dict[str, Floats]:
        """Return the outputs of the head for every item."""
        self.progress.start("predicting", len(windows))
        return item_outputs(self.model, windows, task=self.task, store=self.store, progress=self.progress, seen=self.seen)


class TorchEngine:
    """Runs a torch model for a reader (`runtime.engine.Engine`). The model must be in eval mode."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def name(self) -> str:
        """The name of the engine, and its number format."""
        return f"torch, {str(self.model.precision).removeprefix('torch.')}"

    def spans(self, windows: Windows, task: str, progress: Progress) -> SpanLogits:
        """Return the start and end logits of every token of all windows."""
        return span_logits(self.model, windows, task=task, progress=progress)

    def items(self, windows: Windows, task: str, progress: Progress) -> dict[str, Floats]:
        """Return the outputs of a head for every item, by their names."""
        return item_outputs(self.model, windows, task=task, progress=progress)

    def vectors(self, windows: Windows, task: str, progress: Progress) -> Floats:
        """Return the pooled vector of every text, [W, D]; the head must be one for sentences."""
        return text_vectors(self.model, windows, task=task, progress=progress)
