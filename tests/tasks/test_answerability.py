"""Runs that classify questions as answerable or impossible: training, evaluation and predictions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lamina as library
from lamina.data.squad import to_squad
from lamina.errors import LaminaError
from lamina.scoring.answerability import score_answerability
from tests import tiny
from tests.command import lamina

RECIPE = tiny.SMALL_RECIPE + '\n[head]\ntype = "answerability"\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a run on questions of which one in five is impossible."""
    folder = tmp_path_factory.mktemp("answerability")
    for name in ("train", "dev"):
        (folder / f"{name}.json").write_text(json.dumps(to_squad(tiny.corpus())))
    (folder / "small.toml").write_text(RECIPE.format(folder=folder))
    done = lamina("train", folder / "small.toml", "--out", folder / "run")
    assert done.code == 0, done.err
    assert "accuracy" in done.out and "f1" in done.out
    return folder


def written(folder: Path) -> dict[str, float]:
    probabilities: dict[str, float] = json.loads((folder / "run" / "predictions.json").read_text())
    return probabilities


def test_scores_match_the_predictions(folder: Path) -> None:
    probabilities, examples = written(folder), tiny.corpus()
    assert list(probabilities) == [example.id for example in examples]
    gold = np.array([not example.answers for example in examples])
    wanted = score_answerability(np.array([probabilities[example.id] for example in examples]), gold)
    assert json.loads((folder / "run" / "scores.json").read_text()) == wanted
    info = json.loads((folder / "run" / "run.json").read_text())
    assert info["tasks"] == {"main": {"type": "answerability"}}


def test_evaluate(folder: Path) -> None:
    scores = json.loads((folder / "run" / "scores.json").read_text())
    found = lamina("evaluate", folder / "run", "--data", folder / "dev.json", "--threads", 1, "--json")
    assert found.code == 0, found.err
    assert json.loads(found.out) == pytest.approx(scores)
    shown = lamina("evaluate", folder / "run", "--data", folder / "dev.json", "--threads", 1)
    assert shown.out.startswith(f"accuracy {scores['accuracy']:.3f}, f1 {scores['f1']:.3f}")
    reader = library.load(folder / "run", device="cpu", threads=1)
    assert reader.evaluate(tiny.corpus()) == pytest.approx(scores)


def test_predict(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "probabilities.json"
    done = lamina("predict", folder / "run", "--data", folder / "dev.json", "--out", out, "--threads", 1)
    assert done.code == 0, done.err
    assert json.loads(out.read_text()) == pytest.approx(written(folder), abs=1e-5)
    impossible = sum(probability > 0.5 for probability in written(folder).values())
    assert done.out == f"60 questions, {impossible} impossible, written to {out}\n"
    odd = lamina("predict", folder / "run", "--data", folder / "dev.json", "--out", out, "--nbest", tmp_path / "nbest.json")
    assert odd.code == 2 and "--nbest: task 'main' (head.type 'answerability') has no such predictions" in odd.err


def test_predictions_do_not_depend_on_gold_answers(folder: Path) -> None:
    reader = library.load(folder / "run", device="cpu", threads=1)
    bare = [replace(example, answers=()) for example in tiny.corpus(2)]
    assert reader.predictions(tiny.corpus(2)) == reader.predictions(bare)


def test_answer_on_an_answerability_run_raises(folder: Path) -> None:
    reader = library.load(folder / "run", device="cpu", threads=1)
    with pytest.raises(LaminaError, match="does not answer questions with spans; its heads: answerability"):
        reader.answer("Who?", "Ada.")
    asked = lamina("ask", "--model", folder / "run", "--text", "Ada.", "Who?")
    assert asked.code == 2 and "does not answer questions" in asked.err
