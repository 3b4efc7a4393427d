"""Files of run folders with wrong types, missing keys, NaN and negative or huge sizes: one line that names the field."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from lamina.encoder.blocks import EncoderConfig
from lamina.encoder.families import parse, unparse
from lamina.encoder.files import unpickled, weight_files
from lamina.encoder.load import run_config
from lamina.encoder.presets import PRESETS
from lamina.errors import LaminaError
from lamina.pretraining.folder import PretrainingFolder
from lamina.training.checkpoint import State, load_checkpoint, save_checkpoint
from lamina.utils.files import write_json
from lamina.utils.run_folder import FORMAT, Run


def refused(error: pytest.ExceptionInfo[LaminaError], part: str) -> None:
    text = str(error.value)
    assert part in text and text.count("Fix: ") == 1 and "\n" not in text, text


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"costs": {"train_seconds": "3"}}, "run.json: costs.train_seconds: Input should be a valid number"),
        ({"costs": {"train_seconds": float("nan")}}, "costs.train_seconds: Input should be a finite number"),
        ({"costs": {"tokens": -1}}, "costs.tokens: Input should be greater than or equal to 0"),
        ({"costs": []}, "costs: Input should be a valid dictionary"),
        ({"steps": -5}, "steps: Input should be greater than or equal to 0"),
        ({"steps": 1.5}, "steps: Input should be a valid integer"),
        ({"encoder": "minilm"}, "encoder: Input should be a valid dictionary"),
        ({"heads": {"main": {"run": 3}}}, "heads.main.run: Input should be a valid string"),
        ({"sources": {"main": {}}}, "sources.main: Input should be a valid list"),
        ({"language": 3}, "language: Input should be a valid string"),
        ({"windows": [3]}, "windows.0: Input should be a valid string"),
    ],
)
def test_run_json(changes: dict[str, Any], part: str, tmp_path: Path) -> None:
    run = Run(tmp_path)
    write_json(run.info, {"format": FORMAT, "finished": True, "tasks": {}, "of_a_newer_version": 1} | changes)
    with pytest.raises(LaminaError) as error:
        run.read_info()
    refused(error, part)
    write_json(run.info, {"format": FORMAT, "finished": True, "tasks": {}, "of_a_newer_version": 1})
    assert dict(run.read_info())["of_a_newer_version"] == 1


@pytest.mark.parametrize("tasks", [{"main": 3}, {"main": {"objective": []}}, {"main": {"objective": {"type": {}}}}])
def test_run_json_of_format_1(tasks: dict[str, Any], tmp_path: Path) -> None:
    run = Run(tmp_path)
    write_json(run.recipe, {"tasks": tasks})
    write_json(run.info, {"format": 1, "finished": True, "tasks": {"main": 3}})
    with pytest.raises(LaminaError) as error:
        run.read_info()
    refused(error, "tasks.main" if tasks["main"] != 3 else "main")


SHAPE = PRESETS["tiny"].to_json()


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"hidden": -64}, "hidden: Input should be greater than or equal to 1"),
        ({"hidden": "64"}, "hidden: Input should be a valid integer"),
        ({"layers": 10**12}, "layers: Input should be less than or equal to 1024"),
        ({"vocab": 10**30}, "vocab: "),
        ({"eps": float("nan")}, "eps: Input should be"),
        ({"heads": 7}, "is not a multiple of 7 heads"),
        ({"family": "gpt"}, "family: Input should be"),
        ({"dropout": 2.0}, "dropout: Input should be less than 1"),
        ({"pad_id": 10**9}, "outside its table"),
        ({"color": 1}, "color: Extra inputs are not permitted"),
        ({"hidden": None}, "hidden: Input should be a valid integer"),
    ],
)
def test_encoder_json(changes: dict[str, Any], part: str, tmp_path: Path) -> None:
    assert EncoderConfig.from_json(SHAPE) == PRESETS["tiny"]
    write_json(tmp_path / "encoder.json", SHAPE | changes)
    with pytest.raises(LaminaError) as error:
        run_config(Run(tmp_path))
    refused(error, part)


@pytest.mark.parametrize("content", [[], "x", 3, None])
def test_encoder_json_that_is_no_object(content: object, tmp_path: Path) -> None:
    write_json(tmp_path / "encoder.json", content)
    with pytest.raises(LaminaError) as error:
        run_config(Run(tmp_path))
    refused(error, "encoder.json: the shape is invalid")


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": -1},
        {"hidden_size": []},
        {"hidden_size": float("inf")},
        {"num_hidden_layers": 10**9},
        {"model_type": []},
        {"hidden_act": {}},
        {"vocab_size": "many"},
        {"type_vocab_size": None},
        {"hidden_dropout_prob": float("nan")},
    ],
)
def test_config_json(changes: dict[str, Any]) -> None:
    with pytest.raises(LaminaError) as error:
        parse(unparse(PRESETS["tiny"]) | changes, where="config.json")
    refused(error, "config.json: ")


@pytest.mark.parametrize("content", [[], {}, {"weight_map": []}, {"weight_map": {"a": 3}}, {"weight_map": {"a": "../b"}}, "x"])
def test_index_of_shards(content: object, tmp_path: Path) -> None:
    write_json(tmp_path / "model.safetensors.index.json", content)
    with pytest.raises(LaminaError) as error:
        weight_files(tmp_path, allow_pickle=False)
    refused(error, "model.safetensors.index.json")


def test_a_pickled_list_is_no_weights(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / "pytorch_model.bin")
    with pytest.raises(LaminaError) as error:
        unpickled(tmp_path / "pytorch_model.bin")
    refused(error, "the weights are a list")


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ([], "Input should be a valid dictionary"),
        ({}, "recipe: Field required"),
        ({"recipe": []}, "recipe: Input should be a valid dictionary"),
        ({"recipe": {}, "rows": [3]}, "rows.0: Input should be a valid string"),
        ({"recipe": {}, "origin": {}}, "origin.encoder: Field required"),
        ({"recipe": {}, "costs": {"tokens": -1}}, "costs.tokens: "),
        ({"recipe": {}, "scores": {"first": {"loss": None}}}, "scores.first.loss: "),
    ],
)
def test_pretraining_json(content: Any, part: str, tmp_path: Path) -> None:
    folder = PretrainingFolder(tmp_path)
    write_json(folder.info, content)
    with pytest.raises(LaminaError) as error:
        folder.read_info()
    refused(error, "expected a JSON object" if content == [] else part)


def checkpoint(path: Path) -> tuple[nn.Module, torch.optim.Optimizer, dict[str, Any]]:
    """Save a checkpoint after one step; return the model, its optimiser and the content of the file."""
    model = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    save_checkpoint(path, model, optimizer, State())
    content: dict[str, Any] = torch.load(path, weights_only=True)
    return model, optimizer, content


@pytest.mark.parametrize(
    ("place", "value", "part"),
    [
        (["state", "step"], -1, "state.step: Input should be greater"),
        (["state", "step"], "3", "state.step: Input should be a valid integer"),
        (["state", "best_score"], None, "state.best_score: "),
        (["state", "costs", "tokens"], -1, "state.costs.tokens: "),
        (["state", "costs"], [], "state.costs: "),
        (["state"], {}, "state.step: Field required"),
        (["weights"], [], "weights: Input should be a valid dictionary"),
        (["weights", "weight"], 3, "weights.weight: "),
        (["weights", "weight"], torch.ones(3, 3), "weight: its stored shape is (3, 3)"),
        (["optimizer"], {}, "the checkpoint cannot be read"),
        (["optimizer", "param_groups"], [], "the checkpoint cannot be read"),
        (["memories"], [{}], "the checkpoint cannot be read"),
    ],
)
def test_checkpoints(place: list[str], value: object, part: str, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    model, optimizer, content = checkpoint(path)
    load_checkpoint(path, model, optimizer)
    table = content
    for name in place[:-1]:
        table = table[name]
    table[place[-1]] = value
    torch.save(content, path)
    with pytest.raises(LaminaError) as error:
        load_checkpoint(path, model, optimizer)
    refused(error, part)


def test_damaged_searches(tmp_path: Path) -> None:
    search = pytest.importorskip("lamina.experiments.tuning.search")
    trials = pytest.importorskip("lamina.experiments.tuning.trials")
    space = pytest.importorskip("lamina.experiments.tuning.space").parse_space({"space": {"train.lr": [1e-3, 1e-2]}})
    recipe = pytest.importorskip("lamina.config.parse").read_recipe("quickstart")
    broken: list[Any] = [[], {}, {"recipe": 3, "space": {}}]
    for content in broken:
        write_json(tmp_path / "search.json", content)
        with pytest.raises(LaminaError) as error:
            search._begin(tmp_path, recipe, space)
        refused(error, "search.json: ")
    file = tmp_path / "study.db"
    file.write_bytes(b"no database" * 500)
    with pytest.raises(LaminaError) as error, trials.opened_database(file, space):
        pass
    refused(error, "the trials cannot be opened")
    file.unlink()
    with trials.opened_database(file, space) as database:
        database.begin()
    with sqlite3.connect(file) as damaged:
        damaged.execute("UPDATE trial_params SET distribution_json = 'no json'")
    damaged.close()
    with pytest.raises(LaminaError) as error, trials.opened_database(file, space):
        pass
    refused(error, "study.db: the trials cannot be")


def test_json_is_a_round_trip(tmp_path: Path) -> None:
    write_json(tmp_path / "encoder.json", SHAPE)
    assert run_config(Run(tmp_path)).to_json() == json.loads((tmp_path / "encoder.json").read_text())
