"""OpenVINO runs the graphs of an exported model (the extra openvino)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lamina
from lamina.errors import LaminaError
from lamina.reader.exporting import export_onnx
from lamina.runtime import exported, openvino_session
from tests import tiny
from tests.command import lamina as command
from tests.runtime.graphs import CLOSE
from tests.runtime.test_without_torch import QUESTIONS, TEXT, folder

__all__ = ["folder"]  # a fixture

pytest.importorskip("openvino")


@pytest.mark.parametrize("name", ["onnx", "shared"])
def test_logits_and_answers_are_those_of_onnxruntime(name: str, folder: Path) -> None:
    ours, theirs = (lamina.load(folder / name, backend=one, precision="float32", threads=2) for one in ("openvino", "onnx"))
    assert ours.backend == "openvino, float32"
    examples = tiny.corpus(40)
    for a, b in zip(ours.predict(examples), theirs.predict(examples), strict=True):
        assert a.null_odds == pytest.approx(b.null_odds, abs=CLOSE)
    assert [one.text for one in ours.answer(QUESTIONS, TEXT)] == [one.text for one in theirs.answer(QUESTIONS, TEXT)]


def test_8_bits_are_close_to_those_of_onnxruntime(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino_session, "has_vnni", lambda: True)  # these graphs have small weights, which cannot overflow
    ours, theirs = (lamina.load(folder / "onnx", backend=one, precision="int8") for one in ("openvino", "onnx"))
    assert ours.backend == "openvino, int8"
    examples = ours.read(folder / "dev.json")
    apart = [abs(a.null_odds - b.null_odds) for a, b in zip(ours.predict(examples), theirs.predict(examples), strict=True)]
    exact = lamina.load(folder / "onnx", backend="openvino", precision="float32").predict(examples)
    assert max(apart) < 0.5
    assert any(a.null_odds != b.null_odds for a, b in zip(ours.predict(examples), exact, strict=True))


def test_8_bits_are_refused_where_they_can_overflow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino_session, "has_vnni", lambda: False)
    reader = lamina.load(folder / "onnx", backend="openvino", precision="int8")
    with pytest.raises(LaminaError, match=r"to have VNNI\. Fix: choose the backend onnx, or the precision float32"):
        reader.answer(QUESTIONS[0], TEXT)
    assert lamina.load(folder / "onnx", backend="openvino", precision="float32").answer(QUESTIONS[0], TEXT) is not None


def test_8_bits_are_left_out_where_they_can_overflow(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    for module in (exported, openvino_session):
        monkeypatch.setattr(module, "has_vnni", lambda: False)
    assert lamina.load(folder / "onnx", backend="openvino").backend == "openvino, float32"
    assert lamina.load(folder / "onnx", precision="int8").backend == "onnx, int8"
    assert lamina.load(folder / "onnx", device="cpu").backend in ("onnx, float32", "onnx, int8", "openvino, float32")


def test_vectors(tmp_path: Path) -> None:
    settings = {"train.epochs": 0, "encoder.model": "tiny", "encoder.pretrained": False}
    lamina.train("sentences", tmp_path / "run", settings=settings, dev=False)
    run = lamina.load(tmp_path / "run", device="cpu")
    export_onnx(run, tmp_path / "graphs")
    texts = ["A heron.", "The mill by the sea is old."]
    found = lamina.load(tmp_path / "graphs", backend="openvino").embed(texts, task="similarity")
    assert np.abs(found - run.embed(texts, task="similarity")).max() < CLOSE


def test_without_the_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported, "installed", lambda package: package != "openvino")
    with pytest.raises(LaminaError, match=r"needs openvino, which is not installed\. Fix: pip install 'lamina-qa\[openvino\]'"):
        lamina.load(folder / "onnx", backend="openvino")
    assert lamina.load(folder / "onnx").backend.startswith("onnx")


def test_the_command_takes_the_backend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino_session, "has_vnni", lambda: True)
    asked = ("ask", "--model", folder / "onnx", "--text", TEXT, QUESTIONS[0], "--backend", "openvino")
    found = command(*asked)
    assert (found.code, found.err) == (0, "")
    assert found.out
