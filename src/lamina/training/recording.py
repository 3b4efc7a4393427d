"""Record the metrics of a run while it trains, and its checkpoint, which has the length of the metrics file."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import torch
from torch import nn

from lamina.errors import LaminaWarning
from lamina.objectives import Remembers
from lamina.training.checkpoint import State, load_checkpoint, save_checkpoint
from lamina.utils.files import is_file, unwritable

OnMetrics = Callable[[dict[str, Any]], None]  # called with each entry of metrics.jsonl


class Recording(Protocol):
    """The part of a recorder that a training loop uses. The loop updates `state`."""

    state: State

    def record(self, entry: Mapping[str, object]) -> None: ...

    def save(self) -> None: ...


class Follower:
    """``with Follower(...) as recorder``: has the state of the checkpoint, and writes nothing. Another process does."""

    def __init__(
        self, checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer, memories: Sequence[Remembers] = ()
    ) -> None:
        self.state = load_checkpoint(checkpoint, model, optimizer, memories) if is_file(checkpoint) else State()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None: ...

    def record(self, entry: Mapping[str, object]) -> None: ...

    def save(self) -> None: ...


class Recorder:
    """``with Recorder(...) as recorder``: writes entries to the metrics file, and its state to the checkpoint.

    It starts from the checkpoint if there is one. It removes the lines that were written after the checkpoint, because the
    resumed run writes them again. If lines from before the checkpoint are missing, it warns and keeps the whole lines.
    `on_metrics` is called with each entry after it is written.
    """

    def __init__(
        self,
        metrics: Path,
        checkpoint: Path,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        memories: Sequence[Remembers] = (),
        on_metrics: OnMetrics | None = None,
    ) -> None:
        self._on_metrics = on_metrics
        self._path, self._checkpoint = metrics, checkpoint
        self._model, self._optimizer, self._memories = model, optimizer, memories
        self.state = load_checkpoint(checkpoint, model, optimizer, memories) if is_file(checkpoint) else State()

    def __enter__(self) -> Recorder:
        length = self._whole_lines()
        with self._written():
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

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            with self._written():
                self._metrics.close()
        else:
            with suppress(OSError):  # the first error tells more
                self._metrics.close()

    @contextmanager
    def _written(self) -> Iterator[None]:
        """Raise LaminaError if the metrics cannot be written, as on a full disk. The run resumes from its checkpoint."""
        try:
            yield
        except OSError as error:
            raise unwritable(self._path, error) from error

    def record(self, entry: Mapping[str, object]) -> None:
        with self._written():
            self._metrics.write((json.dumps(dict(entry)) + "\n").encode())
        if self._on_metrics is not None:
            self._on_metrics(dict(entry))

    def save(self) -> None:
        with self._written():
            self._metrics.flush()
            os.fsync(self._metrics.fileno())  # a power cut must not remove lines that the checkpoint counts
        self.state.metrics_bytes = self._metrics.tell()
        save_checkpoint(self._checkpoint, self._model, self._optimizer, self.state, self._memories)
