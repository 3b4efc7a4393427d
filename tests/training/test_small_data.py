"""Runs on very little data of one's own: what is held out, what is scored, and what the user reads about it."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path

import pytest

import lamina
from lamina.errors import LaminaWarning
from lamina.utils.run_folder import Run
from tests import tiny

SMALL = {"encoder.model": "tiny", "encoder.pretrained": False, "train.threads": 1, "train.device": "cpu"}


def own_data(path: Path, rows: int) -> Path:
    """Write a CSV file, five questions on each text."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("question", "context", "answer"))
        for example in tiny.corpus(rows // 5):
            writer.writerow((example.question, example.context, example.answers[0].text if example.answers else ""))
    return path


def test_thirty_rows_hold_out_ten_and_warn_with_numbers(tmp_path: Path) -> None:
    settings = SMALL | {"data.train": str(own_data(tmp_path / "mine.csv", 30)), "train.epochs": 1}
    with pytest.warns(LaminaWarning) as caught:
        run = lamina.train("quickstart", tmp_path / "run", settings=settings)
    texts = [str(warning.message) for warning in caught]
    steps = json.loads(run.info.read_text())["steps"]
    assert any(text.startswith("data.dev: fables/dev is left out") for text in texts)
    small = f"data.train: 20 questions to train on in {steps} steps, and 10 held out to choose the checkpoint"
    assert any(text.startswith(small) for text in texts)
    assert not run.scores.exists(), "no dev set is scored that the user did not name"
    assert len(texts) == 2
    assert Run.open(run.path).read_info()["score"] is not None


def test_enough_data_do_not_warn(tmp_path: Path) -> None:
    settings = SMALL | {"data.train": str(own_data(tmp_path / "mine.csv", 250)), "data.dev": None, "train.epochs": 0.1}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = lamina.train("quickstart", tmp_path / "run", settings=settings)
    assert run.finished
