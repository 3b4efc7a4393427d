"""backend="auto" takes what is faster in a short test, which is made once per model and machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lamina
from lamina.answers.sentences import ItemOutputs
from lamina.data.logits import SpanLogits
from lamina.data.padding import pack
from lamina.data.windows import Windows
from lamina.errors import LaminaError
from lamina.runtime import choose as module
from lamina.runtime import exported, openvino_session
from lamina.runtime.batching import TOKENS
from lamina.runtime.choose import Trial, choose, fastest, random_windows
from lamina.runtime.settings import HeadView, ObjectiveView, TaskView
from lamina.utils.arrays import Floats
from lamina.utils.extras import installed
from lamina.utils.progress import Progress
from tests.runtime.test_without_torch import folder

__all__ = ["folder"]  # a fixture


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))


class Working:
    """An engine, and a candidate, that adds numbers for some rounds."""

    def __init__(self, rounds: int) -> None:
        self.rounds, self.runs, self.inside = rounds, 0, False

    name = "working"
    other_threads = False

    @property
    def engine(self) -> Working:
        return self

    def alone(self) -> AbstractContextManager[object]:
        @contextmanager
        def inside() -> Iterator[None]:
            self.inside = True
            yield
            self.inside = False

        return inside()

    def spans(self, windows: Windows, task: str, progress: Progress) -> SpanLogits:
        assert self.inside
        self.runs += 1
        for _ in range(self.rounds):
            np.ones(100_000).sum()
        return SpanLogits(np.zeros(len(windows.ids), np.float32), np.zeros(len(windows.ids), np.float32))

    def items(self, windows: Windows, task: str, progress: Progress) -> ItemOutputs:
        raise NotImplementedError

    def vectors(self, windows: Windows, task: str, progress: Progress) -> Floats:
        raise NotImplementedError


class Refused:
    """A candidate that cannot be loaded."""

    alone = nullcontext
    other_threads = False

    @property
    def engine(self) -> Working:
        raise LaminaError("model: is not there. Fix: get it")


def trial(kind: str = "spans", sides: int = 1) -> Trial:
    from lamina.config.data_options import DataOptions

    head = HeadView(type="span", kind=kind, sides=sides)
    task = TaskView(data=DataOptions(train="unused"), head=head, objective=ObjectiveView(type="span"))
    return Trial("crc32:1", "main", task, 64)


def test_the_faster_one_is_taken_and_the_result_is_stored(tmp_path: Path) -> None:
    slow, fast = Working(400), Working(1)
    assert choose({"slow": slow, "fast": fast, "refused": Refused()}, trial()) == "fast"
    assert slow.runs == fast.runs == 1 + module.ROUNDS
    (file,) = (tmp_path / "cache" / "backends").iterdir()
    assert set(json.loads(file.read_text())["processor_seconds"]) == {"slow", "fast"}
    assert choose({"slow": slow, "fast": fast, "refused": Refused()}, trial()) == "fast"
    assert fast.runs == 1 + module.ROUNDS  # no second test
    others = [replace(trial(), model="crc32:2"), replace(trial(), threads=1)]
    for other in others:
        assert choose({"slow": slow, "fast": fast}, other) == "fast"
    assert fast.runs == 3 * (1 + module.ROUNDS)
    file.write_text("{}")  # damaged
    assert choose({"slow": slow, "fast": fast, "refused": Refused()}, trial()) == "fast"
    assert fast.runs == 4 * (1 + module.ROUNDS)


def test_another_processor_is_tested_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sides = {"a": Working(1), "b": Working(1)}
    choose(sides, trial())
    monkeypatch.setattr(module, "identity", lambda: "another")
    choose(sides, trial())
    assert sides["a"].runs == 2 * (1 + module.ROUNDS)


def test_without_a_cache_the_choice_is_made_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "file"))
    assert choose({"slow": Working(400), "fast": Working(1)}, trial()) == "fast"


def test_a_single_candidate_needs_no_test() -> None:
    only = Working(1)
    assert choose({"only": only}, trial()) == "only"
    assert only.runs == 0


def test_equally_fast_ones_are_taken_in_order() -> None:
    assert fastest({"a": 1.02, "b": 1.0}) == "a"
    assert fastest({"a": 1.2, "b": 1.0}) == "b"


@pytest.mark.parametrize("sides", [1, 2])
def test_windows_of_the_test_are_one_batch(sides: int) -> None:
    windows = random_windows(trial(sides=sides))
    assert windows.items == module.ROWS
    assert set(windows.lengths) == {64}
    longest = random_windows(replace(trial(sides=sides), length=512))
    assert len(pack(longest.item_lengths, TOKENS)) == 1
    assert windows.context.sum() == len(windows.ids) / 2


def test_load_takes_what_the_test_finds(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(exported, "has_vnni", lambda: True)

    def loaded(name: str, seconds: dict[str, float], **options: Any) -> str:
        monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / str(len(list(tmp_path.iterdir())))))
        monkeypatch.setattr(module, "measured", lambda candidates, trial: {one: seconds[one] for one in candidates})
        return lamina.load(folder / name, device="cpu", **options).backend

    slow = {"openvino, float32": 4.0, "openvino, int8": 4.0}
    monkeypatch.setattr(exported, "installed", lambda package: True)
    figures = {"onnx, float32": 2.0, "onnx, int8": 1.0, "torch, float32": 3.0, **slow}
    assert loaded("shared", figures) == "onnx, int8"
    assert loaded("onnx", {**figures, "onnx, int8": 2.5}) == "onnx, float32"  # 8 bits are slower on some processors
    assert loaded("onnx", {**figures, "onnx, int8": 2.5}, backend="onnx") == "onnx, float32"
    assert loaded("shared", {**figures, "torch, float32": 0.5}) == "torch, float32"
    assert loaded("shared", {**figures, "torch, float32": 0.5}, backend="onnx") == "onnx, int8"
    assert loaded("onnx", {**figures, "openvino, int8": 0.5}) == "openvino, int8"
    assert loaded("onnx", {**figures, "openvino, int8": 0.5}, backend="onnx") == "onnx, int8"
    assert loaded("onnx", {**figures, "torch, float32": 0.5}) == "onnx, int8"  # the folder has no weights for torch


def test_the_test_itself_runs_all(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (exported, openvino_session):
        monkeypatch.setattr(place, "has_vnni", lambda: True)
    reader = lamina.load(folder / "shared", device="cpu")
    (file,) = (tmp_path / "cache" / "backends").iterdir()
    seconds = json.loads(file.read_text())["processor_seconds"]
    openvino = ["openvino, float32", "openvino, int8"] if installed("openvino") else []
    assert list(seconds) == ["onnx, float32", "onnx, int8", *openvino, "torch, float32"]
    assert reader.backend == fastest(seconds)
    assert lamina.load(folder / "shared", device="cpu").backend == reader.backend
