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
from lamina.mixers.pooling import Learned
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


@pytest.fixture(scope="module")
def second(folder: Path) -> Path:
    """Train the same recipe with another seed."""
    done = lamina("train", folder / "small.toml", "--out", folder / "second", "--set", "train.seed=5")
    assert done.code == 0, done.err
    return folder / "second"


@pytest.mark.parametrize("how", ["max", "mean"])
def test_ensemble(folder: Path, second: Path, tmp_path: Path, how: str) -> None:
    """An ensemble takes the greatest probability of each class, or the mean; a run with itself is the run."""
    done = lamina("ensemble", folder / "run", second, "--how", how, "--out", tmp_path / "both", "--json")
    assert done.code == 0, done.err
    one, two = written(folder), json.loads((second / "predictions.json").read_text())
    found = json.loads((tmp_path / "both" / "predictions.json").read_text())
    assert one != two and list(found) == list(one)
    for question, p in found.items():
        a, b = one[question], two[question]
        yes, no = max(a, b), max(1 - a, 1 - b)
        assert p == pytest.approx((a + b) / 2 if how == "mean" else yes / (yes + no))
    gold = np.array([not example.answers for example in tiny.corpus()])
    assert json.loads(done.out)["scores"] == pytest.approx(score_answerability(np.array([*found.values()]), gold))
    alone = lamina("ensemble", folder / "run", folder / "run", "--how", how, "--out", tmp_path / "alone")
    scores = json.loads((folder / "run" / "scores.json").read_text())
    assert alone.out.startswith(f"accuracy {scores['accuracy']:.3f}, f1 {scores['f1']:.3f}, total 60\nensemble: ")


def test_compare(folder: Path, second: Path, tmp_path: Path) -> None:
    """Two runs are compared by accuracy, an ensemble with a run too."""
    done = lamina("compare", folder / "run", second, "--clusters", "question", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    for side, path in (("a", folder / "run"), ("b", second)):
        assert found["overall"][side] == pytest.approx(json.loads((path / "scores.json").read_text())["accuracy"])
    gold = {example.id: not example.answers for example in tiny.corpus()}
    right = [(p > 0.5) == gold[question] for question, p in written(folder).items() if gold[question]]
    assert found["metric"] == "accuracy" and found["NoAns"]["a"] == pytest.approx(100 * sum(right) / len(right))
    assert lamina("ensemble", folder / "run", "--out", tmp_path / "alone").code == 0
    same = lamina("compare", folder / "run", tmp_path / "alone")
    assert same.code == 0 and "have the same accuracy" in same.out, same.err
    odd = lamina("compare", folder / "run", second, "--at", "zero")
    assert odd.code == 2 and "--at zero: is for answers, but these runs classify questions. Fix: leave --at out" in odd.err


def test_runs_of_different_questions_are_not_compared(folder: Path, tmp_path: Path) -> None:
    done = lamina("train", folder / "small.toml", "--out", tmp_path / "few", "--set", "data.dev_questions=7")
    assert done.code == 0, done.err
    odd = lamina("compare", folder / "run", tmp_path / "few")
    assert odd.code == 2 and "was not scored on the same questions as" in odd.err


def test_heads_train_on_the_states_of_a_fine_tuned_classifier(folder: Path, tmp_path: Path) -> None:
    """Paper 001 takes 25 states of its own classifier, after a fraction of an epoch; the pooled one is an option."""
    done = lamina("train", folder / "small.toml", "--out", tmp_path / "tuned", "--set", "train.checkpoints=0.5")
    assert done.code == 0, done.err
    settings = [f"encoder.model={tmp_path / 'tuned' / 'checkpoints' / '0.5'}", "tune.layers=0", "mixer.type=learned"]
    layers = json.loads((tmp_path / "tuned" / "encoder.json").read_text())["layers"]
    for pooled in (False, True):
        options = [word for setting in (*settings, f"head.pooled={pooled}".lower()) for word in ("--set", setting)]
        head = tmp_path / f"head-{pooled}"
        done = lamina("train", folder / "small.toml", "--out", head, *options)
        assert done.code == 0, done.err
        mixer = library.load(head, device="cpu").model.task("main").mixer
        assert isinstance(mixer, Learned)
        assert mixer.mixture().shape[-1] == layers + 1 + pooled, "the embeddings are a state too"
        assert lamina("compare", tmp_path / "tuned", head).code == 0
        assert lamina("evaluate", head, "--data", folder / "dev.json").code == 0


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
