"""Combine runs into an ensemble, from their saved outputs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lamina.answers.decode import Across, AnswerOptions, decode
from lamina.answers.ensembles import combine
from lamina.answers.formats import predictions_json
from lamina.answers.saved_outputs import load_outputs
from lamina.data import multi_context
from lamina.data.bm25 import with_neighbours
from lamina.data.squad import read, to_squad
from lamina.errors import LaminaError
from lamina.experiments.ensemble import ensemble
from lamina.scoring.squad import score_squad2
from lamina.utils.files import read_json, write_json
from lamina.utils.run_folder import Run
from tests import tiny
from tests.command import lamina
from tests.run_folders import make_run

WRITTEN = {"ensemble.json", "nbest.json", "null_odds.json", "predictions.json", "scores.json"}


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(to_squad(tiny.corpus(6))))
    return path


@pytest.mark.parametrize("how", ["max", "mean"])
@pytest.mark.parametrize("times", [1, 3])
def test_ensemble_of_equal_runs_is_the_run(dev: Path, tmp_path: Path, how: Any, times: int) -> None:
    """Check that answers, threshold and scores are those of the run, for every way to combine."""
    run = make_run(tmp_path / "run", dev, 0, threshold=1.25)
    result = ensemble([run.path] * times, tmp_path / "out", how=how)
    assert result["route"] == "logits"
    assert read_json(tmp_path / "out" / "predictions.json") == read_json(run.predictions)
    own, scores = read_json(run.scores), result["scores"]
    assert scores["zero"] == pytest.approx(own["zero"])
    assert scores["tuned"]["threshold"] == 0
    for key in ("exact", "f1", "HasAns_f1", "NoAns_f1", "total", "best_f1"):
        assert scores["tuned"][key] == pytest.approx(own["tuned"][key])
    assert scores["best"]["f1"] == pytest.approx(own["best"]["f1"])
    assert scores["best"]["threshold"] == pytest.approx(own["best"]["threshold"] - 1.25, abs=1e-4)


@pytest.mark.parametrize("across", ["margin", "paper_probability"])
def test_questions_with_several_contexts(dev: Path, tmp_path: Path, across: Across) -> None:
    """Check that each run votes at its threshold for questions."""
    multi_context.write_questions(tmp_path / "several.jsonl", with_neighbours(read(dev), 3, hits="impossible").questions)
    run = make_run(tmp_path / "run", tmp_path / "several.jsonl", 0, answer=AnswerOptions(across=across), threshold=1.25)
    alone = ensemble([run.path] * 2, tmp_path / "alone", how="mean")["scores"]
    own = read_json(run.scores)
    for place in ("zero", "tuned"):
        for key in ("exact", "f1", "HasAns_f1", "NoAns_f1", "total"):
            assert alone["questions"][place][key] == pytest.approx(own["questions"][place][key])
    assert read_json(tmp_path / "alone" / "questions.json") == read_json(run.questions)
    info = read_json(run.info)
    info["tasks"]["main"]["question_threshold"] = -50.0
    write_json(run.info, info)
    silent = ensemble([run.path], tmp_path / "silent")["scores"]
    assert not any(read_json(tmp_path / "silent" / "questions.json").values())
    assert silent["tuned"] == pytest.approx(alone["tuned"]), "contexts have their own threshold"


def test_runs_with_the_same_windows_are_combined_by_their_logits(dev: Path, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"run{seed}", dev, seed) for seed in range(3)]
    result = ensemble([run.path for run in runs], tmp_path / "out", how="mean")
    assert result["route"] == "logits"
    windows = load_outputs(runs[0])[0]
    together = combine([load_outputs(run)[1] for run in runs], windows, "mean")
    wanted = predictions_json(decode(windows, together.start, together.end, read(dev)))
    assert read_json(tmp_path / "out" / "predictions.json") == wanted
    alone = max(read_json(run.scores)["zero"]["f1"] for run in runs)
    assert result["scores"]["zero"]["f1"] > alone, "independent mistakes cancel"


def test_runs_with_different_windows_are_combined_by_their_texts(dev: Path, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "one", dev, 0), make_run(tmp_path / "two", dev, 1, window=tiny.SHORT)]
    result = ensemble([run.path for run in runs], tmp_path / "out")
    assert result["route"] == "nbest"
    assert len({run["windows"] for run in result["runs"]}) == 2
    assert result["scores"]["tuned"]["total"] == 30
    with_itself = ensemble([runs[1].path], tmp_path / "alone")
    assert with_itself["scores"]["zero"] == pytest.approx(read_json(runs[1].scores)["zero"])


def test_answer_options_of_each_run_are_used(dev: Path, tmp_path: Path) -> None:
    """Combine a run that answers with one token only. By logits this would not be possible."""
    short = AnswerOptions(max_tokens=1)
    runs = [make_run(tmp_path / "one", dev, 0), make_run(tmp_path / "two", dev, 1, answer=short)]
    assert ensemble([run.path for run in runs], tmp_path / "out")["route"] == "nbest"


def test_each_run_votes_at_its_own_threshold(dev: Path, tmp_path: Path) -> None:
    """Use thresholds so low that no run answers: the ensemble does not answer either. Without them it does."""
    runs = [make_run(tmp_path / f"run{seed}", dev, seed, threshold=-50.0) for seed in range(2)]
    result = ensemble([run.path for run in runs], tmp_path / "out")
    assert not any(read_json(tmp_path / "out" / "predictions.json").values())
    assert result["scores"]["tuned"]["HasAns_f1"] == 0
    assert result["scores"]["zero"]["HasAns_f1"] > 20


def test_written_files_are_consistent(dev: Path, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"run{seed}", dev, seed, threshold=0.5) for seed in range(2)]
    out = tmp_path / "out"
    result = ensemble([run.path for run in runs], out)
    assert {path.name for path in out.iterdir()} == WRITTEN
    golds = {example.id: [answer.text for answer in example.answers] for example in read(dev)}
    texts, odds, nbest = (read_json(out / f"{name}.json") for name in ("predictions", "null_odds", "nbest"))
    scores = read_json(out / "scores.json")
    assert scores == result["scores"] | {"counts": result["counts"]}
    assert list(scores) == ["zero", "tuned", "best", "counts"]
    scored = score_squad2(golds, texts)
    assert {key: scores["tuned"][key] for key in scored} == scored
    assert {question: entries[0]["text"] for question, entries in nbest.items()} == texts
    assert all((odds[question] > 0) == (not text) for question, text in texts.items())
    assert scores["best"]["f1"] >= scores["tuned"]["f1"]
    counts = result["counts"]
    assert counts["HasAns_total"] + counts["NoAns_total"] == len(golds) == 30
    assert counts["wrong"] == 30 - counts["HasAns_right"] - counts["NoAns_right"]
    assert scores["tuned"]["exact"] == pytest.approx(100 * (1 - counts["wrong"] / 30))
    about = read_json(out / "ensemble.json")
    assert [run["path"] for run in about["runs"]] == [str(run.path) for run in runs]
    assert (about["how"], about["route"], about["runs"][0]["threshold"]) == ("max", "logits", 0.5)


def test_moved_dev_set_can_be_named(dev: Path, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"run{seed}", dev, seed) for seed in range(2)]
    moved = dev.rename(tmp_path / "moved.json")
    with pytest.raises(LaminaError, match=r"dev\.json: no such data"):
        ensemble([run.path for run in runs], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert ensemble([run.path for run in runs], tmp_path / "out", data=str(moved))["scores"]["zero"]["total"] == 30


def test_ensemble_on_the_first_questions_of_a_dev_set(dev: Path, tmp_path: Path) -> None:

    runs = [
        make_run(tmp_path / f"run{seed}", dev, seed, examples=read(dev)[: 12 + seed], dev_questions=12 + seed)
        for seed in range(2)
    ]
    assert ensemble([runs[0].path] * 2, tmp_path / "out")["scores"]["zero"]["total"] == 12
    with pytest.raises(LaminaError, match=r"run1: was not scored on the same questions as .*run0.*dev_questions"):
        ensemble([run.path for run in runs], tmp_path / "other")


def test_changed_questions_raise(dev: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", dev, 0)
    dev.write_text(dev.read_text().replace("by the sea", "at the sea"))
    with pytest.raises(LaminaError, match=r"run: was not scored on .*dev\.json\. Fix: name its dev set with --data"):
        ensemble([run.path], tmp_path / "out")


def test_runs_of_different_questions_raise(dev: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps(to_squad(tiny.corpus(5))))
    runs = [make_run(tmp_path / "one", dev, 0), make_run(tmp_path / "two", other, 1)]
    with pytest.raises(LaminaError, match=r"two: was not scored on the same questions as .*one"):
        ensemble([run.path for run in runs], tmp_path / "out")


def test_ensemble_does_not_overwrite_files(dev: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", dev, 0)
    for taken in (run.path, dev):
        with pytest.raises(LaminaError, match=r"exists and is not empty\. Fix: write the ensemble into a new folder"):
            ensemble([run.path], taken)
    (tmp_path / "empty").mkdir()
    ensemble([run.path], tmp_path / "empty")


def test_folder_that_is_no_finished_run_raises(dev: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", dev, 0)
    with pytest.raises(LaminaError, match="name at least one"):
        ensemble([], tmp_path / "out")
    with pytest.raises(LaminaError, match="not a run folder"):
        ensemble([run.path, tmp_path / "nowhere"], tmp_path / "out")
    recipe = read_json(run.recipe)
    write_json(run.recipe, recipe | {"window": {"length": "long"}})
    with pytest.raises(LaminaError, match=r"recipe\.json: is not the recipe of a run") as caught:
        ensemble([run.path], tmp_path / "out")
    assert "\n" not in str(caught.value)
    del recipe["tasks"]
    write_json(run.recipe, recipe)
    with pytest.raises(LaminaError, match=r"recipe\.json: is not the recipe of a run \('tasks'\)"):
        ensemble([run.path], tmp_path / "out")
    older = make_run(tmp_path / "older", dev, 0)
    older.windows.unlink()
    with pytest.raises(LaminaError, match=r"has no windows\.safetensors"):
        ensemble([older.path], tmp_path / "out")


# ---- the command


def test_ensemble_command(dev: Path, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"run{seed}", dev, seed).path for seed in range(2)]
    printed = lamina("ensemble", *runs, "--out", tmp_path / "out", "--how", "mean", "--json")
    assert printed.code == 0, printed.err
    result = json.loads(printed.out)
    assert result["how"] == "mean"
    assert result["scores"] | {"counts": result["counts"]} == read_json(tmp_path / "out" / "scores.json")
    shown = lamina("ensemble", *runs, "--out", tmp_path / "again", "--data", dev)
    assert shown.code == 0, shown.err
    assert "F1" in shown.out and "have the right answer second" in shown.out
    assert f"ensemble: {tmp_path / 'again'}" in shown.out
    refused = lamina("ensemble", *runs, "--out", tmp_path / "out")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("lamina: ") and "new folder" in refused.err


def test_no_model_is_loaded(dev: Path, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"run{seed}", dev, seed).path for seed in range(2)]
    words = ["lamina", "ensemble", *map(str, runs), "--out", str(tmp_path / "out")]
    code = f"import sys; from lamina import cli; sys.argv = {words}\ntry: cli.main()\nexcept SystemExit: pass\n"
    code += "assert not {'torch', 'transformers', 'lamina.model', 'lamina.encoder'} & set(sys.modules), 'a model was loaded'"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    assert read_json(tmp_path / "out" / "scores.json")["zero"]["total"] == 30


def test_ensemble_of_trained_runs(dev: Path, tmp_path: Path) -> None:
    (tmp_path / "train.json").write_text(json.dumps(to_squad(tiny.corpus(12))))
    (tmp_path / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=tmp_path))
    runs = [tmp_path / f"run{seed}" for seed in range(2)]
    for seed, path in enumerate(runs):
        trained = lamina("train", tmp_path / "small.toml", "--out", path, "--set", f"train.seed={seed}", "--json")
        assert trained.code == 0, trained.err
    alone = ensemble([runs[0]], tmp_path / "alone")
    assert read_json(tmp_path / "alone" / "predictions.json") == read_json(Run(runs[0]).predictions)
    assert alone["scores"]["zero"] == pytest.approx(read_json(Run(runs[0]).scores)["zero"])
    assert ensemble(runs, tmp_path / "both")["route"] == "logits"
