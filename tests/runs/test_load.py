"""Damaged run folders: the error names the file, the task and the field."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import lamina as library
from lamina.data.squad import to_squad
from lamina.errors import LaminaError
from lamina.experiments.average import average
from lamina.runs.scored_run import ScoredRun
from tests import tiny
from tests.command import lamina
from tests.golden import TRAINED


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    for name in ("train", "dev"):
        (folder / f"{name}.json").write_text(json.dumps(to_squad(tiny.corpus(6))))
    (folder / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=folder))
    assert lamina("train", folder / "small.toml", "--out", folder / "run", "--set", "train.epochs=0.5").code == 0
    return folder / "run"


def test_the_recipe_of_a_run_cannot_allow_a_pickle(run: Path, tmp_path: Path) -> None:
    shutil.copytree(TRAINED, tmp_path / "encoder")
    torch.save(load_file(TRAINED / "model.safetensors"), tmp_path / "encoder" / "pytorch_model.bin")
    (tmp_path / "encoder" / "model.safetensors").unlink()
    settings = {
        "encoder.model": str(tmp_path / "encoder"),
        "encoder.pretrained": True,
        "encoder.allow_pickle": True,
        "tune.layers": 0,
        "train.epochs": 0.1,
    }
    frozen = library.train(run.parent / "small.toml", tmp_path / "frozen", settings=settings)
    message = r"frozen: the run holds only what it trained.*a pickle file.*Fix: if you trust.*allow it by --allow-pickle"
    with pytest.raises(LaminaError, match=message):
        library.load(frozen.path, device="cpu")
    again = library.train(frozen.recipe, tmp_path / "again")
    assert again.model.read_bytes() == frozen.model.read_bytes(), "who trains with this recipe allows what it says"
    question = "When was the heron born?", "The heron was born in 1807."
    expected = library.load(frozen.path, device="cpu", allow_pickle=True).answer(*question)
    plain = library.load(frozen.path, device="cpu", allow_pickle=True).save(tmp_path / "saved")
    assert library.load(plain.path, device="cpu").answer(*question) == expected
    with pytest.raises(LaminaError, match="a pickle file"):
        average([frozen.path, again.path], tmp_path / "average")
    assert average([frozen.path, again.path], tmp_path / "average", allow_pickle=True).finished


def damaged(run: Path, tmp_path: Path, **changes: Any) -> Path:
    """Copy the run with other fields in run.json; None removes a field."""
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    info = {**json.loads((run / "run.json").read_text()), **changes}
    (copy / "run.json").write_text(json.dumps({name: value for name, value in info.items() if value is not None}))
    return copy


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": None}, "run.json: tasks.main is missing. Fix: copy the run folder again, or train the run again"),
        ({"tasks": []}, "run.json: tasks.main is missing"),
        ({"tasks": {"other": {}}}, "run.json: tasks.main is missing"),
        ({"tasks": {"main": {"type": "spans", "threshold": "0.5"}}}, "tasks.main.threshold: Input should be a valid"),
        ({"tasks": {"main": {"type": "spans", "threshold": True}}}, "tasks.main.threshold: Input should be a valid"),
        ({"tasks": {"main": {"type": "spans", "threshold": float("nan")}}}, "tasks.main.threshold: Input should be a finite"),
        (
            {"tasks": {"main": {"type": "spans", "calibration": {"temperature": 0}}}},
            "tasks.main.calibration.temperature: Input",
        ),
        ({"tasks": {"main": {"type": "labels"}}}, "run.json: tasks.main.type: Input should be 'spans' (given: 'labels')"),
        ({"format": 3}, "run format 3, this version of Lamina reads formats 1 and 2"),
        ({"format": True}, "run format True, this version of Lamina reads formats 1 and 2"),
        ({"format": "2"}, "run format '2', this version of Lamina reads formats 1 and 2"),
    ],
)
def test_damaged_run_json_raises(run: Path, tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    copy = damaged(run, tmp_path, **changes)
    with pytest.raises(LaminaError) as caught:
        library.load(copy)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    refused = lamina("evaluate", copy, "--data", run.parent / "dev.json")
    assert refused.code == 2 and refused.err.count("\n") == 1


@pytest.mark.parametrize("content", ["[]", "null", "3"])
def test_run_json_that_is_not_an_object_raises(run: Path, tmp_path: Path, content: str) -> None:
    copy = damaged(run, tmp_path)
    (copy / "run.json").write_text(content)
    refused = lamina("ask", "--model", copy, "--text", "Ada built it.", "Who?")
    assert refused.code == 2 and "run.json: expected a JSON object, found" in refused.err


def test_compare_names_the_damaged_file(run: Path, tmp_path: Path) -> None:
    with pytest.raises(LaminaError, match=r"run\.json: tasks\.main\.threshold: Input should be a valid number"):
        ScoredRun.open(damaged(run, tmp_path, tasks={"main": {"type": "spans", "threshold": "high"}}))
    with pytest.raises(LaminaError, match=r"run\.json: tasks is not a table of decisions"):
        ScoredRun.open(damaged(run, tmp_path / "other", tasks=[]))


def test_evaluate_and_predict_without_examples_raise(run: Path) -> None:
    reader = library.load(run)
    with pytest.raises(LaminaError, match="there is nothing to evaluate"):
        reader.evaluate([])
    assert reader.predictions([]) == {"predictions": {}, "null_odds": {}, "nbest": {}, "questions": {}}
    assert reader.predictions([], wanted=["nbest"]) == {"nbest": {}}


def test_evaluate_a_dataset_by_its_name(run: Path) -> None:
    reader = library.load(run)
    data = str(run.parent / "dev.json")
    assert reader.evaluate(data) == reader.evaluate(reader.read(data))
    assert reader.predictions(data) == reader.predictions(reader.read(data))
