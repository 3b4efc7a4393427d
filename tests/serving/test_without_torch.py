"""The service of an exported model runs without torch, and says what it cannot do then."""

from __future__ import annotations

from pathlib import Path

import pytest

import lamina
from lamina.data.sources import load_examples
from lamina.reader.exporting import export_onnx
from tests.runtime.test_without_torch import without_torch

SERVE = """
from pathlib import Path
from lamina.serving.settings import Settings
from tests.serving.live import running

model, folder, question, context = arguments
with running([model], Settings(project=Path(folder))) as service:
    for path in ("/answer", "/why"):
        found[path] = service.post(path, {"question": question, "context": context}).json
    found["trains"] = service.get("/project").json["trains"]
    found["improve"] = service.post("/project/improve", {"minutes": 1}).error
"""


def test_answers_and_reasons_are_those_of_torch(reader: lamina.Reader, tmp_path: Path) -> None:
    export_onnx(reader, tmp_path / "onnx")
    example = load_examples("fables/dev")[0]
    found = without_torch(SERVE, tmp_path / "onnx", tmp_path / "project", example.question, example.context)
    reply = reader.answer(example.question, example.context)
    assert found["/answer"]["answer"] == reply.text
    assert found["/answer"]["confidence"] == pytest.approx(reply.confidence, abs=1e-4)
    assert len(found["/why"]["starts"]) > 10 and found["/why"]["layers"] is None and found["/why"]["exported"]
    assert not found["trains"] and "needs torch" in found["improve"]
