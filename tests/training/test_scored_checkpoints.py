"""Checkpoints of fractions of an epoch have decisions and outputs of the dev set, so commands take them as runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lamina.config.recipe import Recipe
from lamina.training.trainer import train
from lamina.utils.run_folder import Run
from tests.command import lamina as command
from tests.resuming import stopped_and_resumed
from tests.training.test_split_loss import recipe

PLAIN = ("train.schedule=constant", "train.warmup=0", "train.keep=last", "train.epochs=1", "train.lr=0.01")


def checkpointed(folder: Path, *settings: str) -> Recipe:
    return recipe(folder, *PLAIN, "train.checkpoints=0.5", *settings)


def content(folder: Path) -> dict[str, Any]:
    """Return the files of a run; run.json as a table without times, since the others depend on the seed alone.

    The recipes of these tests differ, so the checksums of recipe.json and of run.json itself are left out.
    """
    files: dict[str, Any] = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    files["run.json"] = {key: value for key, value in json.loads(files["run.json"]).items() if key != "costs"}
    for name in ("recipe.json", "run.json"):
        del files["run.json"]["checksums"][name]
    return files


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("checkpoints")
    return train(checkpointed(folder), folder / "run")


def test_checkpoint_has_the_outputs_and_the_decision_of_a_shorter_run(run: Run, tmp_path: Path) -> None:
    short = train(recipe(tmp_path, *PLAIN, "train.epochs=0.5"), tmp_path / "short")
    found, wanted = content(run.path / "checkpoints" / "0.5"), content(short.path)
    for name in (
        "scores.json",
        "predictions.json",
        "null_odds.json",
        "nbest.json",
        "outputs.safetensors",
        "windows.safetensors",
    ):
        assert found[name] == wanted[name], name
    for key in ("tasks", "chosen_step", "checksums", "finished"):
        assert found["run.json"][key] == wanted["run.json"][key], key
    assert found["run.json"]["tasks"]["main"]["calibration"], "fitted on the held-out split"
    last = content(run.path / "checkpoints" / "1")
    assert last["outputs.safetensors"] == content(run.path)["outputs.safetensors"]
    assert last["outputs.safetensors"] != found["outputs.safetensors"]


def test_commands_take_a_checkpoint_as_a_run(run: Run, tmp_path: Path) -> None:
    half, whole = run.path / "checkpoints" / "0.5", run.path / "checkpoints" / "1"
    for words in (
        ("ensemble", half, whole, run.path, "--out", tmp_path / "ensemble"),
        ("compare", half, run.path),
        ("compare", half, tmp_path / "ensemble"),
        ("analyze", half, run.path, "--json"),
    ):
        done = command(*words)
        assert done.code == 0, done.err
    evaluated = command("evaluate", half, "--data", run.path.parent / "dev.json", "--json", "--device", "cpu")
    assert evaluated.code == 0, evaluated.err
    stored = json.loads((half / "scores.json").read_text())
    assert json.loads(evaluated.out)["f1"] == pytest.approx(stored["tuned"]["f1"])


def test_checkpoints_change_neither_the_run_nor_its_metrics(run: Run, tmp_path: Path) -> None:
    plain = train(recipe(tmp_path, *PLAIN), tmp_path / "run")
    assert plain.metrics.read_bytes() == run.metrics.read_bytes()
    assert plain.model.read_bytes() == run.model.read_bytes()


@pytest.mark.parametrize("before", [2, 5])
def test_checkpoints_of_a_resumed_run_are_the_same(run: Run, tmp_path: Path, before: int) -> None:
    for minutes in ("0", "5"):  # the second one repeats the steps, and so the checkpoint, from the start
        made = checkpointed(run.path.parent, f"train.checkpoint_minutes={minutes}")
        again = stopped_and_resumed(made, tmp_path / minutes, before=before)
        for name in ("0.5", "1"):
            found, wanted = (content(folder / "checkpoints" / name) for folder in (again.path, run.path))
            assert {file for file in wanted if found.get(file) != wanted[file]} <= {"recipe.json"}
        assert again.metrics.read_bytes() == run.metrics.read_bytes()


def test_outputs_of_checkpoints_can_be_left_out(run: Run, tmp_path: Path) -> None:
    made = checkpointed(tmp_path, "train.checkpoint_outputs=false")
    lean = train(made, tmp_path / "run").path / "checkpoints" / "0.5"
    assert not Run(lean).outputs.exists()
    assert not Run(lean).scores.exists()
    assert content(lean)["run.json"]["tasks"] == content(run.path / "checkpoints" / "0.5")["run.json"]["tasks"]
    refused = command("compare", lean, run.path)
    assert refused.code == 2
    assert "Fix: train the run with data.dev and train.checkpoint_outputs = true" in refused.err
