"""What a training writes down while it runs: its metrics, and the checkpoint that knows how many of them there are."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import torch
from torch import nn

from lamina.objectives import Remembers
from lamina.training.checkpoint import State, load_checkpoint, save_checkpoint


class Recorder:
    """``with Recorder(...) as recorder``: from ``recorder.state`` on, lines go to the metrics and states to the checkpoint.

    Lines that were written after the checkpoint are cut off: the resumed training writes them again.
    """

    def __init__(
        self,
        metrics: Path,
        checkpoint: Path,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        memories: Sequence[Remembers] = (),
    ) -> None:
        self._path, self._checkpoint = metrics, checkpoint
        self._model, self._optimizer, self._memories = model, optimizer, memories
        self.state = load_checkpoint(checkpoint, model, optimizer, memories) if checkpoint.exists() else State()

    def __enter__(self) -> Recorder:
        self._metrics = self._path.open("ab")
        self._metrics.truncate(self.state.metrics_bytes)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._metrics.close()

    def record(self, entry: dict[str, object]) -> None:
        self._metrics.write((json.dumps(entry) + "\n").encode())

    def save(self, state: State) -> None:
        self._metrics.flush()
        os.fsync(self._metrics.fileno())  # a checkpoint must not know of lines that a power cut takes away
        state.metrics_bytes = self._metrics.tell()
        save_checkpoint(self._checkpoint, self._model, self._optimizer, state, self._memories)
