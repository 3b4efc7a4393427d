"""Runs that train some weights of an encoder: store, load, continue and export them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import lamina
from lamina.config.parse import parse_recipe
from lamina.config.recipe import Recipe
from lamina.data.squad import to_squad
from lamina.data.windows import make_windows
from lamina.errors import LaminaError
from lamina.model.inference import span_logits
from lamina.reader.load import Reader
from lamina.runs.export import export
from lamina.training import trainer
from lamina.utils.arrays import Floats
from lamina.utils.run_folder import Run
from tests.command import lamina as command
from tests.golden import TRAINED
from tests.tiny import SHORT, corpus

EXAMPLES = corpus(8)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))


def recipe(tmp_path: Path, **tables: dict[str, Any]) -> Recipe:
    data = tmp_path / "train.json"
    data.write_text(json.dumps(to_squad(EXAMPLES)))
    train = {"epochs": 1, "lr": 5e-3, "batch_tokens": 512, "threads": 1, "device": "cpu"}
    values = {
        "data": {"train": str(data), "dev": str(data), "holdout": 0.2},
        "window": {"length": 64, "query": 16, "step": 16},
        "encoder": {"model": str(TRAINED)},
        "train": train | tables.pop("train", {}),
    }
    return parse_recipe({**values, **tables})


def logits(model: str | Path | Reader) -> Floats:
    reader = model if isinstance(model, Reader) else lamina.load(model, device="cpu")
    return span_logits(reader.model, make_windows(EXAMPLES, reader.tokenizer, SHORT)).start


PARTS: dict[str, dict[str, Any]] = {
    "last layer": {"layers": 1},
    "head": {"layers": 0},
    "adapters": {"layers": 0, "adapters": {"size": 4}},
    "lora": {"layers": 0, "lora": {"rank": 2, "alpha": 64}},
    "lora and layer": {"layers": 1, "lora": {"rank": 2}, "norms": True},
}


@pytest.mark.parametrize("tune", PARTS.values(), ids=PARTS.keys())
def test_only_trained_weights_are_stored_and_loaded_onto_the_base(tmp_path: Path, tune: dict[str, Any]) -> None:
    run = trainer.train(recipe(tmp_path, tune=tune), tmp_path / "run")
    stored = load_file(run.model)
    whole = sum(value.numel() for value in load_file(TRAINED / "model.safetensors").values())
    assert sum(value.numel() for value in stored.values()) < whole / 2
    predictions = {prediction.id: prediction for prediction in lamina.load(run.path, device="cpu").predict(EXAMPLES)}
    odds = json.loads(run.null_odds.read_text())
    assert {name: prediction.null_odds for name, prediction in predictions.items()} == pytest.approx(odds, abs=1e-3)


def test_a_folder_of_runs_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    base = trainer.train(recipe(tmp_path, tune={"layers": 1}), Path("base"))
    top = recipe(tmp_path, encoder={"model": "base"}, tune={"layers": 0}, mixer={"type": "average"})
    trainer.train(top, Path("top"))
    before = logits("top")
    shutil.move(tmp_path / "here", tmp_path / "there")
    monkeypatch.chdir(tmp_path)
    assert np.array_equal(logits(tmp_path / "there" / "top"), before)
    shutil.rmtree(tmp_path / "there" / "base")
    with pytest.raises(LaminaError, match="holds only what it trained, and the encoder that it started from cannot"):
        lamina.load(tmp_path / "there" / "top")
    assert base.path == Path("base")


def test_changed_base_raises(tmp_path: Path) -> None:
    base = tmp_path / "base"
    shutil.copytree(TRAINED, base)
    run = trainer.train(recipe(tmp_path, encoder={"model": str(base)}, tune={"layers": 0}), tmp_path / "run")
    weights = load_file(base / "model.safetensors")
    next(iter(weights.values())).add_(1e-3)
    save_file(weights, base / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(LaminaError, match="have changed since"):
        lamina.load(run.path)


def test_run_starts_from_a_partly_trained_run(tmp_path: Path) -> None:
    """Check that upper layers come from the first run and lower layers from its encoder."""
    first = trainer.train(recipe(tmp_path, tune={"layers": 1}), tmp_path / "first")
    second = trainer.train(
        recipe(tmp_path, encoder={"model": str(first.path)}, tune={"layers": 0}, train={"epochs": 0.2, "lr": 1e-9}),
        tmp_path / "second",
    )
    a, b = (lamina.load(run.path, device="cpu").model.encoder.state_dict() for run in (first, second))
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_run_cannot_start_from_a_run_with_adapters(tmp_path: Path) -> None:
    run = trainer.train(recipe(tmp_path, tune=PARTS["adapters"]), tmp_path / "run")
    with pytest.raises(LaminaError, match="has adapters or LoRA"):
        trainer.train(recipe(tmp_path, encoder={"model": str(run.path)}), tmp_path / "next")


@pytest.mark.parametrize("name", ["last layer", "lora", "lora and layer"])
def test_partly_trained_layers_and_lora_are_exported_merged(tmp_path: Path, name: str) -> None:
    run = trainer.train(recipe(tmp_path, tune=PARTS[name]), tmp_path / "run")
    reader = lamina.load(run.path, device="cpu")
    before = logits(reader)
    export(reader.trained, tmp_path / "out")
    assert np.array_equal(logits(reader), before), "the reader itself is not changed"
    _, notes = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not notes["missing_keys"] and not notes["unexpected_keys"]
    assert np.abs(logits(tmp_path / "out") - before).max() < 1e-4 * np.abs(before).max()
    assert np.abs(logits(TRAINED) - before).max() > 1e-2, "training changed the logits"


@pytest.mark.parametrize(
    ("tables", "reason"),
    [({"tune": PARTS["adapters"]}, "adapters inside its layers"), ({"mixer": {"type": "learned"}}, "mixes its layers")],
)
def test_export_of_adapters_or_mixers_raises(tmp_path: Path, tables: dict[str, Any], reason: str) -> None:
    run = trainer.train(recipe(tmp_path, **tables), tmp_path / "run")
    with pytest.raises(LaminaError, match=reason):
        export(lamina.load(run.path, device="cpu").trained, tmp_path / "out")


def test_checkpoints_are_runs(tmp_path: Path) -> None:
    plain = {"schedule": "constant", "warmup": 0, "evaluate_every": 9, "keep": "last"}
    run = trainer.train(recipe(tmp_path, train=plain | {"epochs": 1, "checkpoints": 0.25}), tmp_path / "run")
    kept = sorted(path.name for path in (run.path / "checkpoints").iterdir())
    assert kept == ["0.25", "0.5", "0.75", "1"]
    assert np.array_equal(logits(run.path / "checkpoints" / "1"), logits(run.path))
    assert not np.array_equal(logits(run.path / "checkpoints" / "0.25"), logits(run.path))
    short = trainer.train(recipe(tmp_path, train=plain | {"epochs": 0.25}), tmp_path / "short")
    assert np.array_equal(logits(run.path / "checkpoints" / "0.25"), logits(short.path)), "the same as a shorter run"
    head = recipe(tmp_path, encoder={"model": str(run.path / "checkpoints" / "0.25")}, tune={"layers": 0})
    assert trainer.train(head, tmp_path / "head").finished


def test_answer_on_an_answerability_run_raises(tmp_path: Path) -> None:
    run = trainer.train(recipe(tmp_path, head={"type": "answerability", "pooled": False}), tmp_path / "run")
    scores = json.loads(run.scores.read_text())
    assert scores["total"] == len(EXAMPLES)
    assert set(json.loads(run.predictions.read_text())) == {example.id for example in EXAMPLES}
    with pytest.raises(LaminaError, match="does not answer questions with spans; its heads: answerability"):
        lamina.load(Run(run.path).path).answer("Who?", "Ada.")


def test_checkpoint_of_a_partly_trained_run_finds_its_moved_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    shutil.copytree(TRAINED, "base")
    made = recipe(tmp_path, encoder={"model": "base"}, tune={"layers": 1}, train={"checkpoints": 0.5})
    trainer.train(made, Path("run"))
    before = logits(Path("run") / "checkpoints" / "0.5")
    shutil.move(tmp_path / "here", tmp_path / "there")
    monkeypatch.chdir(tmp_path)
    assert np.array_equal(logits(tmp_path / "there" / "run" / "checkpoints" / "0.5"), before)


def test_folder_with_the_name_of_a_preset_does_not_replace_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minilm").mkdir()
    made = recipe(tmp_path, encoder={"model": "minilm"}, tune={"layers": 0}, train={"epochs": 0.1})
    run = trainer.train(made, Path("run"))
    assert "folder" not in json.loads(run.info.read_text())["encoder"]
    assert lamina.load(run.path, device="cpu").model.encoder.config.layers == 6


def test_train_and_evaluate_print_answerability_and_legacy_scores(tmp_path: Path) -> None:
    written = recipe(tmp_path, head={"type": "answerability", "pooled": False}).model_dump(mode="json")
    (tmp_path / "classify.json").write_text(json.dumps(written))
    classified = command("train", tmp_path / "classify.json", "--out", tmp_path / "classify")
    assert classified.code == 0, classified.err
    assert "accuracy " in classified.out
    written = recipe(tmp_path, train={"scorer": "bertvision_legacy"}).model_dump(mode="json")
    (tmp_path / "legacy.json").write_text(json.dumps(written))
    legacy = command("train", tmp_path / "legacy.json", "--out", tmp_path / "legacy")
    assert legacy.code == 0, legacy.err
    assert "bertvision_legacy" in legacy.out
    scores = json.loads((tmp_path / "legacy" / "scores.json").read_text())["bertvision_legacy"]
    shown = command("evaluate", tmp_path / "legacy", "--data", written["tasks"]["main"]["data"]["dev"])
    assert f"{'bertvision_legacy':<18}{scores['exact']:>7.2f}{scores['f1']:>7.2f}" in shown.out
    as_json = command("evaluate", tmp_path / "legacy", "--data", written["tasks"]["main"]["data"]["dev"], "--json")
    assert json.loads(as_json.out)["bertvision_legacy"] == pytest.approx(scores)
