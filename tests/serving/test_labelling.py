"""A mistake while models load or questions to label are answered is kept, and the service shows it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina.data.squad import to_squad
from lamina.errors import LaminaError
from lamina.serving import models as serving_models
from lamina.serving.batching import Batcher
from lamina.serving.corrections import Corrections
from lamina.serving.labelling import Labelling
from lamina.serving.metrics import Metrics
from lamina.serving.models import Models, Served
from lamina.serving.settings import Settings
from lamina.utils.progress import Progress
from tests import tiny
from tests.serving.live import running


def questions(folder: Path) -> str:
    path = folder / "questions.json"
    path.write_text(json.dumps(to_squad(tiny.corpus(1))))
    return str(path)


def test_a_model_that_answers_no_questions_is_a_failure(sentences: lamina.Reader, tmp_path: Path) -> None:
    with running({"sentences": sentences}, Settings(project=tmp_path), questions(tmp_path)) as service:
        until = time.monotonic() + 60
        while (found := service.get("/project/labels").json)["failure"] is None:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert "no served model answers questions" in found["failure"] and "Fix: " in found["failure"]


def test_an_error_of_the_library_itself_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> lamina.Reader:
        raise RuntimeError("a text")

    monkeypatch.setattr(serving_models, "open_reader", broken)
    models = Models()
    asyncio.run(models.load({"small": "small"}, Settings()))
    assert str(models.failure) == "models: cannot be loaded (RuntimeError). Fix: check the model" and not models.ready


class _Slow:
    def run(self, items: Sequence[Any], progress: Progress) -> Sequence[Any]:
        time.sleep(0.2)
        return items


def test_a_full_queue_is_tried_again(reader: lamina.Reader, tmp_path: Path) -> None:
    async def check() -> None:
        queue = Batcher(100, 1, 0.0, Metrics())
        full = asyncio.create_task(queue.submit(_Slow(), [1], [1], 30))
        await asyncio.sleep(0)
        labelling = Labelling(questions(tmp_path))
        await labelling.run(Served("small", "small", reader), queue)
        assert await full == [1]
        found = labelling.to_json(Corrections(tmp_path), 3)
        assert found["failure"] is None and found["answered"] == found["total"] > 0
        await queue.close()

    asyncio.run(check())


def test_a_closed_queue_is_a_failure(reader: lamina.Reader, tmp_path: Path) -> None:
    async def check() -> None:
        queue = Batcher(100, 1, 0.0, Metrics())
        await queue.close()
        labelling = Labelling(questions(tmp_path))
        await labelling.run(Served("small", "small", reader), queue)
        assert isinstance(labelling.failure, LaminaError) and "cannot be answered (ClosedError)" in str(labelling.failure)

    asyncio.run(check())
