"""Training on stored states equals training with a live encoder, and raises if it would not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lamina.config.parse import parse_recipe
from lamina.config.recipe import Recipe
from lamina.data.squad import to_squad
from lamina.errors import LaminaError
from lamina.state_cache.maintenance import list_stores
from lamina.training import steps as planning
from lamina.training import trainer
from lamina.utils.run_folder import Run
from tests.golden import checkpoints
from tests.tiny import Heard, corpus


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))


def recipe(tmp_path: Path, **tables: dict[str, Any]) -> Recipe:
    data = tmp_path / "train.json"
    if not data.exists():
        data.write_text(json.dumps(to_squad(corpus(8))))
    train = {"epochs": 3, "lr": 2e-3, "batch_tokens": 512, "evaluate_every": 0.5, "threads": 1, "device": "cpu"}
    values = {
        "data": {"train": str(data), "dev": str(data), "holdout": 0.2},
        "window": {"length": 64, "query": 16, "step": 16},
        "encoder": {"model": "tiny", "pretrained": False, "dropout": 0.1},
        "tune": {"layers": 1},
        "cache": {"dtype": "float32"},
        "train": train | tables.pop("train", {}),
    }
    return parse_recipe({**values, **tables})


def curve(run: Run) -> list[float]:
    return [json.loads(line)["loss"] for line in run.metrics.read_text().splitlines() if "loss" in json.loads(line)]


@pytest.mark.parametrize(
    "tables",
    [
        {"tune": {"layers": 1}},
        {"tune": {"layers": 0}},
        {"tune": {"layers": 0, "adapters": {"size": 4, "layers": 1}}},
        {"tune": {"layers": 1}, "mixer": {"type": "learned"}},
        {"tune": {"layers": 0}, "mixer": {"type": "compression", "size": 8}},
        {"tune": {"layers": 0}, "mixer": [{"type": "learned"}, {"type": "compression", "size": 8}, {"type": "xception"}]},
        {"tune": {"layers": 0}, "head": {"type": "answerability"}, "mixer": {"type": "average"}},
    ],
    ids=["last layer", "head", "adapters above", "learned mixture", "compression", "stages", "answerability"],
)
def test_training_on_stored_states_equals_live_training(tmp_path: Path, tables: dict[str, Any]) -> None:
    cached = trainer.train(recipe(tmp_path, **tables), tmp_path / "cached")
    assert len(list_stores()) == 2, "one for the training split, one for the held-out split"
    live = trainer.train(recipe(tmp_path, **tables, cache={"use": "never"}), tmp_path / "live")
    assert len(curve(cached)) > 8
    assert curve(cached) == pytest.approx(curve(live), abs=1e-4)
    scores = [json.loads(run.scores.read_text()) for run in (cached, live)]
    f1s = [found["f1"] if "f1" in found else found["zero"]["f1"] for found in scores]
    assert f1s[0] == pytest.approx(f1s[1], abs=1)
    costs = json.loads(cached.info.read_text())["costs"]
    assert 0 < costs["read_seconds"] < costs["train_seconds"]
    assert costs["store_seconds"] > 0


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_smaller_types_train_nearly_equally(tmp_path: Path, dtype: str) -> None:
    cached = trainer.train(recipe(tmp_path, cache={"dtype": dtype}), tmp_path / "cached")
    live = trainer.train(recipe(tmp_path, cache={"use": "never"}), tmp_path / "live")
    assert curve(cached) == pytest.approx(curve(live), abs=0.15)
    assert curve(cached) != curve(live)


@pytest.mark.parametrize(
    ("tune", "reason"),
    [
        ({"layers": 1, "norms": True}, "tune.norms"),
        ({"layers": 1, "dropout": True}, "tune.dropout"),
        ({"layers": 1, "embeddings": True}, "the embeddings train"),
        ({"layers": 0, "adapters": {"size": 2}}, "layer 1 trains or has adapters"),
        ({"layers": "all"}, "the embeddings train"),
    ],
)
def test_states_that_cannot_be_stored_raise_with_the_reason(tmp_path: Path, tune: dict[str, Any], reason: str) -> None:
    with pytest.raises(LaminaError, match=reason):
        trainer.train(recipe(tmp_path, tune=tune, cache={"use": "always"}), tmp_path / "always")
    heard = Heard()
    run = trainer.train(recipe(tmp_path, tune=tune, train={"epochs": 0.3}), tmp_path / "auto", progress=heard)
    assert run.finished
    assert any(reason in line for line in heard.lines) == (tune["layers"] != "all"), "a full fine-tuning run reports nothing"
    assert list_stores() == []


def test_states_above_the_limit_are_not_stored(tmp_path: Path) -> None:
    heard = Heard()
    run = trainer.train(recipe(tmp_path, cache={"max_gb": 1e-6}, train={"epochs": 0.3}), tmp_path / "run", progress=heard)
    assert run.finished
    assert any("cache.max_gb" in line and "in every epoch" in line for line in heard.lines)
    assert list_stores() == []


def test_run_continues_if_the_cache_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "file"))
    heard = Heard()
    assert trainer.train(recipe(tmp_path, train={"epochs": 0.3}), tmp_path / "run", progress=heard).finished
    assert any("cannot be stored" in line and "every epoch computes them" in line for line in heard.lines)


def test_second_run_uses_the_stored_states_of_the_first(tmp_path: Path) -> None:
    trainer.train(recipe(tmp_path, tune={"layers": 0}), tmp_path / "one")
    before = {store.name: store.bytes for store in list_stores()}
    trainer.train(recipe(tmp_path, tune={"layers": 0}, train={"lr": 1e-4}), tmp_path / "two")
    assert {store.name: store.bytes for store in list_stores()} == before


def test_the_states_of_the_dev_set_can_be_stored_too(tmp_path: Path) -> None:
    stored = trainer.train(recipe(tmp_path, tune={"layers": 0}, cache={"dtype": "float32", "dev": True}), tmp_path / "stored")
    assert len(list_stores()) == 3, "training split, held-out split and dev set"
    live = trainer.train(recipe(tmp_path, tune={"layers": 0}, cache={"use": "never"}), tmp_path / "live")
    f1s = [json.loads(run.scores.read_text())["zero"]["f1"] for run in (stored, live)]
    assert f1s[0] == pytest.approx(f1s[1], abs=1)


def test_stopped_run_on_stored_states_resumes_to_the_same_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipe(tmp_path, train={"checkpoint_minutes": 0})
    whole = trainer.train(made, tmp_path / "whole")
    step = planning.make_step
    calls: list[int] = []

    def stopping(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return step(*arguments)

    monkeypatch.setattr(trainer, "make_step", stopping)
    with pytest.raises(KeyboardInterrupt):
        trainer.train(made, tmp_path / "part")
    monkeypatch.undo()
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    part = trainer.train(made, tmp_path / "part", resume=True)
    assert part.metrics.read_bytes() == whole.metrics.read_bytes()
    assert part.model.read_bytes() == whole.model.read_bytes()


@pytest.mark.filterwarnings("ignore::lamina.LaminaWarning")  # its vocabulary has few words
def test_albert_is_stored_if_it_is_frozen_as_a_whole(tmp_path: Path) -> None:
    encoder = {"model": str(checkpoints.write("albert", tmp_path / "albert")), "dropout": 0.1}
    tables: dict[str, Any] = {"encoder": encoder, "mixer": {"type": "average"}, "tune": {"layers": 0}}
    cached = trainer.train(recipe(tmp_path, **tables), tmp_path / "cached")
    assert {store.layers for store in list_stores()} == {tuple(range(checkpoints.LAYERS + 1))}
    live = trainer.train(recipe(tmp_path, **tables, cache={"use": "never"}), tmp_path / "live")
    assert curve(cached) == pytest.approx(curve(live), abs=1e-4)
    adapted = {"layers": 0, "adapters": {"size": 2, "layers": 1}}
    with pytest.raises(LaminaError, match="share one block"):
        trainer.train(recipe(tmp_path, **{**tables, "tune": adapted}, cache={"use": "always"}), tmp_path / "adapted")
