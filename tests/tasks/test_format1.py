"""Runs in format 1 of run.json: load, use, compare and resume them."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import pytest

import lamina
from lamina.answers.decisions import SpanDecision
from lamina.config.parse import read_recipe
from lamina.encoder.load import EncoderOptions, find
from lamina.errors import LaminaWarning
from lamina.experiments.compare import compare
from lamina.training.trainer import train
from lamina.utils.files import read_json, write_json
from lamina.utils.run_folder import FORMAT, Run

OLD = Path(__file__).resolve().parents[1] / "format1"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy both runs, with the tokenizer that they were trained with."""
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    for name in ("finished", "halfway"):
        shutil.copytree(OLD / name, tmp_path / name)
    shutil.copyfile(find(EncoderOptions()).tokenizer, tmp_path / "finished" / "tokenizer.json")
    return tmp_path


def test_committed_runs_are_of_format_1() -> None:
    assert [read_json(OLD / name / "run.json")["format"] for name in ("finished", "halfway")] == [1, 1]
    assert FORMAT == 2


def test_a_finished_run_answers_with_its_threshold_and_calibration(runs: Path) -> None:
    old = read_json(runs / "finished" / "run.json")
    reader = lamina.load(runs / "finished", device="cpu", threads=1)
    assert reader.threshold == old["threshold"] != 0
    assert vars_of(reader.decision) == {"threshold": old["threshold"], "calibration": old["calibration"]}
    assert reader.answer("Who built the mill?", "The mill was built by Ada Thorn.", threshold=1e9).text


def vars_of(decision: SpanDecision) -> dict[str, object]:
    return decision.model_dump(mode="json", exclude={"type"}, exclude_none=True)


def test_finished_run_has_its_old_scores(runs: Path) -> None:
    reader = lamina.load(runs / "finished", device="cpu", threads=1)
    found = reader.evaluate(reader.read("fables/dev")[:20])
    wanted = read_json(runs / "finished" / "scores.json")
    for place in ("zero", "tuned", "best"):
        assert found[place]["f1"] == pytest.approx(wanted[place]["f1"])


def test_finished_run_equals_itself(runs: Path) -> None:
    result = compare(runs / "finished", runs / "finished")
    assert result["overall"]["difference"] == 0 and result["overall"]["questions"] == 20


def test_stopped_run_resumes_to_the_same_result(runs: Path) -> None:
    """Compare with a tolerance: the machine that began the run may have had other kernels."""
    recipe = read_recipe(runs / "halfway" / "recipe.json")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LaminaWarning)  # the versions may differ from those of the old run
        run = train(recipe, runs / "halfway", resume=True)
    info, old = read_json(run.info), read_json(OLD / "finished" / "run.json")
    assert info["format"] == FORMAT and info["finished"] and info["steps"] == old["steps"]
    assert "threshold" not in info
    losses, wanted = ([json.loads(line).get("loss") for line in file.read_text().splitlines()] for file in curves(run))
    assert len(losses) == len(wanted) == 20
    for loss, expected in zip(losses, wanted, strict=True):
        assert (loss is None) is (expected is None)
        assert loss is None or loss == pytest.approx(expected, rel=1e-3)
    assert info["tasks"]["main"]["type"] == "spans"


def curves(run: Run) -> tuple[Path, Path]:
    return run.metrics, OLD / "finished" / "metrics.jsonl"


def test_decisions_of_several_tasks_get_their_types(tmp_path: Path) -> None:
    run = Run(tmp_path)
    objectives = {"answers": "span", "possible": "answerability", "mood": "cross_entropy", "alike": "mse"}
    write_json(run.recipe, {"tasks": {name: {"objective": {"type": kind}} for name, kind in objectives.items()}})
    fitted = {"answers": {"threshold": 1.5, "calibration": {}}, "possible": {}, "mood": {"threshold": 0.0}, "alike": {}}
    write_json(run.info, {"format": 1, "seed": 3, "threshold": 0.0, "tasks": fitted})
    info = run.read_info()
    assert {name: decision["type"] for name, decision in info["tasks"].items()} == {
        "answers": "spans",
        "possible": "answerability",
        "mood": "sentences",
        "alike": "sentences",
    }
    assert info["tasks"]["answers"]["threshold"] == 1.5 and info["seed"] == 3
    assert "threshold" not in info and info["format"] == FORMAT
