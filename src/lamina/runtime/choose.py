"""Choose what runs an exported model fastest, by a short test whose result is stored per machine and model.

The test measures processor time, since other programs on the machine hardly change it. Each engine computes the same random
windows with one thread, as it does with many batches, where each batch has one thread.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from lamina.data.windows import Windows
from lamina.errors import LaminaError
from lamina.runtime.batching import TOKENS
from lamina.runtime.engine import Engine, EngineInference
from lamina.tasks.kind import Examined
from lamina.tasks.registry import kind_of
from lamina.utils.files import write_atomically
from lamina.utils.paths import cache_folder
from lamina.utils.processor import identity

ROWS: Final = 2
ROUNDS: Final = 3  # after one to warm up; the fastest counts
CLOSE: Final = 1.03  # engines whose times differ by less are equally fast
_PACKAGES: Final = ("lamina-qa", "onnxruntime", "openvino", "torch")  # those whose versions change the speed


class Candidate(Protocol):
    """A way to run the model that the test may choose."""

    @property
    def engine(self) -> Engine:
        """What runs the model. Raises LaminaError if the model cannot be loaded in this way."""
        ...

    @property
    def alone(self) -> Callable[[], AbstractContextManager[object]]:
        """Within it, the engine computes a batch with one thread."""
        ...

    @property
    def other_threads(self) -> bool:
        """Whether the engine computes in threads of its own, so that the time of the whole process counts."""
        ...


@dataclass(frozen=True)
class Trial:
    """What the engines compute, and what the stored result depends on."""

    model: str  # a checksum of the model
    name: str  # of the task
    task: Any  # its options, or a view of them
    length: int  # the greatest number of tokens of a window
    threads: int | None = None

    def file(self, names: list[str]) -> Path:
        """Return the file of the stored result for candidates of these names."""
        versions = [_version(package) for package in _PACKAGES]
        parts = json.dumps([self.model, self.name, names, versions, self.threads, identity()])
        return cache_folder() / "backends" / f"{hashlib.sha256(parts.encode()).hexdigest()[:32]}.json"


def choose(candidates: Mapping[str, Candidate], trial: Trial) -> str:
    """Return the name of the fastest candidate. Without a stored result, the candidates are tested.

    Args:
        candidates: By their names, those first that are preferred if several are equally fast. A candidate that cannot
            be loaded is left out.
        trial: What they compute.

    Raises:
        LaminaError: A candidate was loaded, but cannot compute.
    """
    names = list(candidates)
    if len(names) == 1:
        return names[0]
    file: Path | None = None
    with suppress(LaminaError):  # no folder for caches can be found
        file = trial.file(names)
    seconds = None if file is None else _stored(file, names)
    if seconds is None:
        seconds = measured(candidates, trial)
        if file is None:
            return fastest(seconds)
        if (stored := _stored(file, names)) is not None:  # another process was first
            return fastest(stored)
        with suppress(LaminaError, OSError):  # then the next process tests again
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, json.dumps({"processor_seconds": seconds}, indent=2).encode())
    return fastest(seconds)


def fastest(seconds: Mapping[str, float]) -> str:
    """Return the first name whose time is the shortest, or nearly so.

    >>> fastest({"onnx, float32": 1.02, "onnx, int8": 1.0, "torch, float32": 2.0})
    'onnx, float32'
    >>> fastest({"onnx, float32": 1.7, "onnx, int8": 1.0})
    'onnx, int8'
    """
    least = min(seconds.values())
    return next(name for name, value in seconds.items() if value <= least * CLOSE)


def measured(candidates: Mapping[str, Candidate], trial: Trial) -> dict[str, float]:
    """Return the seconds of processor time that each candidate needs for some random windows, of those that load."""
    windows = random_windows(trial)
    engines: dict[str, Engine] = {}
    for name, candidate in candidates.items():
        with suppress(LaminaError):
            engines[name] = candidate.engine
    for name, engine in engines.items():
        _seconds(engine, candidates[name], trial, windows)
    found = dict.fromkeys(engines, float("inf"))
    for _ in range(ROUNDS):
        for name, engine in engines.items():
            found[name] = min(found[name], _seconds(engine, candidates[name], trial, windows))
    return found


def random_windows(trial: Trial) -> Windows:
    """Return windows of random tokens, one batch; their second half is the context."""
    sides = int(getattr(trial.task.head, "sides", 1))
    count = ROWS * sides
    length = min(TOKENS // count, trial.length)  # together one batch
    shape = count * length
    context = np.tile(np.arange(length) >= length // 2, count)
    return Windows(
        starts=np.arange(count + 1) * length,
        ids=np.random.default_rng(0).integers(0, 5, shape).astype(np.int32),  # every vocabulary has them
        type_ids=np.zeros(shape, np.int32),
        context=context,
        offsets=np.zeros((shape, 2), np.int32),
        max_context=context,
        example=np.arange(count, dtype=np.int32),
        gold=np.zeros((count, 2), np.int32),
        pad=0,
        sides=sides,
    )


def _seconds(engine: Engine, candidate: Candidate, trial: Trial, windows: Windows) -> float:
    with candidate.alone():
        # One batch is computed in this thread. If the engine has threads of its own, all threads of the program count.
        clock = time.process_time if candidate.other_threads else time.thread_time
        began = clock()
        kind_of(trial.task).outputs(EngineInference(engine, trial.name), Examined([], windows))
        return clock() - began


def _stored(file: Path, names: list[str]) -> dict[str, float] | None:
    """Return the stored times, or None if there are none, or the file is damaged."""
    try:
        found = json.loads(file.read_bytes())["processor_seconds"]
        times = {name: float(found[name]) for name in names if name in found}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return times or None


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
