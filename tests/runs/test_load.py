"""Damaged run folders: the error names the file, the task and the field."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import lamina as library
from lamina.data.squad import to_squad
from lamina.encoder.load import EncoderOptions, find
from lamina.errors import LaminaError
from lamina.experiments.average import average
from lamina.runs.scored_run import ScoredRun
from lamina.utils.run_folder import Run
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
    """Copy the run with other fields in run.json, without its own checksum; None removes a field."""
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    info = {**json.loads((run / "run.json").read_text()), **changes}
    if isinstance(info["checksums"], dict):
        info["checksums"].pop("run.json", None)
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


def flip_a_bit(run: Path) -> None:
    content = bytearray((run / "model.safetensors").read_bytes())
    content[-2] ^= 0x40  # the exponent of the last weight
    (run / "model.safetensors").write_bytes(content)


def shift_vocabulary(run: Path) -> None:
    tokenizer = json.loads((run / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    words = [word for word, number in vocabulary.items() if number >= 1000]
    tokenizer["model"]["vocab"] = vocabulary | {
        word: vocabulary[next_word] for word, next_word in zip(words, words[1:] + words[:1], strict=True)
    }
    (run / "tokenizer.json").write_text(json.dumps(tokenizer))


def cut_vocabulary(run: Path) -> None:
    tokenizer = json.loads((run / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    tokenizer["model"]["vocab"] = {word: number for word, number in vocabulary.items() if number < 20_000}
    (run / "tokenizer.json").write_text(json.dumps(tokenizer))


def change_activation(run: Path) -> None:
    shape = json.loads((run / "encoder.json").read_text())
    (run / "encoder.json").write_text(json.dumps(shape | {"activation": "relu"}))


def change_the_longest_answer(run: Path) -> None:
    recipe = json.loads((run / "recipe.json").read_text())
    recipe["answer"]["max_tokens"] = 7
    (run / "recipe.json").write_text(json.dumps(recipe))


@pytest.mark.parametrize(
    ("damage", "file"),
    [
        (flip_a_bit, "model.safetensors"),
        (shift_vocabulary, "tokenizer.json"),
        (cut_vocabulary, "tokenizer.json"),
        (change_activation, "encoder.json"),
        (change_the_longest_answer, "recipe.json"),
    ],
)
def test_files_that_differ_from_their_checksums_raise(
    run: Path, tmp_path: Path, damage: Callable[[Path], None], file: str
) -> None:
    """Damage files so that they still load."""
    copy = damaged(run, tmp_path)
    library.load(copy)
    damage(copy)
    complaint = rf"{file}: has the checksum crc32:\w{{8}}, but run\.json has crc32:\w{{8}}, .* Fix: copy the run folder again"
    with pytest.raises(LaminaError, match=complaint) as caught:
        library.load(copy)
    assert "\n" not in str(caught.value)
    with pytest.raises(LaminaError, match=complaint):
        find(EncoderOptions(model=str(copy)))
    with pytest.raises(LaminaError, match=complaint):
        average([run, copy], tmp_path / "average")
    older = damaged(copy, tmp_path / "older", checksums=None)
    library.load(older)


def test_checksums_are_those_of_the_files_on_disk(run: Path) -> None:
    recorded = json.loads((run / "run.json").read_text())["checksums"]
    for name in ("model.safetensors", "tokenizer.json", "encoder.json"):
        assert recorded.pop(name) == f"crc32:{zlib.crc32((run / name).read_bytes()):08x}"
    assert recorded.keys() == {"recipe.json", "run.json"}


def test_run_json_has_a_checksum_of_itself(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    info = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(info, sort_keys=True))  # only the order of the keys differs
    library.load(copy)
    info["tasks"]["main"]["threshold"] += 0.5
    (copy / "run.json").write_text(json.dumps(info))
    with pytest.raises(LaminaError, match=r"run\.json: has the checksum .* remove its checksum from run\.json$"):
        library.load(copy)
    del info["checksums"]["run.json"]
    (copy / "run.json").write_text(json.dumps(info))
    assert library.load(copy).threshold == info["tasks"]["main"]["threshold"]


def test_data_and_encoders_may_move_after_a_run(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    recipe = json.loads((copy / "recipe.json").read_text())
    recipe["tasks"]["main"]["data"]["train"] = "elsewhere.json"
    (copy / "recipe.json").write_text(json.dumps(recipe))
    library.load(copy)


def test_average_has_checksums_of_its_own(run: Path, tmp_path: Path) -> None:
    made = average([run], tmp_path / "average")
    assert made.read_info()["checksums"].keys() == Run(run).read_info()["checksums"].keys()
    made.check_files()
    flip_a_bit(made.path)
    with pytest.raises(LaminaError, match=r"model\.safetensors: has the checksum"):
        made.check_files()


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
