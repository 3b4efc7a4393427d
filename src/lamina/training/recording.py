"""Record the metrics of a run while it trains, and its checkpoint, which has the length of the metrics file."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

import torch
from torch import nn

from lamina.errors import LaminaWarning
from lamina.objectives import Remembers
from lamina.training.checkpoint import State, load_checkpoint, save_checkpoint


class Recording(Protocol):
    """The part of a recorder that a training loop uses. The loop updates `state`."""

    state: State

    def record(self, entry: Mapping[str, object]) -> None: ...

    def save(self) -> None: ...


class Recorder:
    """``with Recorder(...) as recorder``: writes entries to the metrics file, and its state to the checkpoint.

    It starts from the checkpoint if there is one. It removes the lines that were written after the checkpoint, because the
    resumed run writes them again. If lines from before the checkpoint are missing, it warns and keeps the whole lines.
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
        length = self._whole_lines()
        self._metrics = self._path.open("ab")
        self._metrics.truncate(length)  # never more than the file has: that would fill it up with NUL bytes
        return self

    def _whole_lines(self) -> int:
        """Return the length of the whole lines from before the checkpoint. Warn if some of them are missing."""
        wanted = self.state.metrics_bytes
        found = self._path.read_bytes()[:wanted] if self._path.exists() else b""
        length = found.rfind(b"\n") + 1
        if length < wanted:
            message = (
                f"{self._path}: has {length:,} of the {wanted:,} bytes from before step {self.state.step}, "
                "where the run resumes. The other lines are lost. The weights do not change"
            )
            warnings.warn(message, LaminaWarning, stacklevel=4)
        return length

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._metrics.close()

    def record(self, entry: Mapping[str, object]) -> None:
        self._metrics.write((json.dumps(dict(entry)) + "\n").encode())

    def save(self) -> None:
        self._metrics.flush()
        os.fsync(self._metrics.fileno())  # a power cut must not remove lines that the checkpoint counts
        self.state.metrics_bytes = self._metrics.tell()
        save_checkpoint(self._checkpoint, self._model, self._optimizer, self.state, self._memories)
