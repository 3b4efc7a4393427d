"""Tests of weighted losses, R-Drop and self-distillation in whole runs, alone and combined."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lamina.config.parse import read_recipe
from lamina.config.recipe import Recipe
from lamina.data.squad import to_squad
from lamina.errors import LaminaError, LaminaWarning
from lamina.tasks.checks import build_on_meta
from lamina.training import trainer
from lamina.utils.run_folder import Run
from tests import tiny
from tests.resuming import stopped_and_resumed

EVERYTHING = (
    "objective.start_weight=2.0",
    "objective.answer_weight=2.0",
    "objective.focal=1.0",
    "objective.label_smoothing=0.1",
    "terms.rdrop.weight=1.0",
    "terms.distil.window=3",
)
STILL = (*(setting for setting in EVERYTHING if "rdrop" not in setting), "encoder.dropout=0.0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name, examples in (("train", tiny.corpus(12)), ("dev", tiny.corpus(15)[60:])):
        (folder / f"{name}.json").write_text(json.dumps(to_squad(examples)))
    (folder / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=folder))
    return folder


def recipe(folder: Path, *settings: str) -> Recipe:
    return read_recipe(folder / "small.toml", ("train.epochs=1", "train.checkpoint_minutes=0", *settings))


def losses(run: Run) -> list[float]:
    return [entry["loss"] for entry in map(json.loads, run.metrics.read_text().splitlines()) if "loss" in entry]


def values_of_terms(run: Run) -> list[dict[str, float]]:
    return [entry["terms"] for entry in map(json.loads, run.metrics.read_text().splitlines()) if "terms" in entry]


@pytest.fixture(scope="module")
def plain(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trainer.train(recipe(folder), tmp_path_factory.mktemp("plain") / "run")


@pytest.mark.parametrize("teacher", ["sda", "sdv", "ema"])
def test_a_resumed_run_with_all_techniques_equals_an_uninterrupted_one(folder: Path, tmp_path: Path, teacher: str) -> None:
    settings = recipe(folder, *EVERYTHING, f"terms.distil.teacher={teacher}", "train.epochs=2", "train.keep=last")
    whole = trainer.train(settings, tmp_path / "whole")
    assert len(losses(whole)) > 10
    part = stopped_and_resumed(settings, tmp_path / "part", before=6)
    assert part.metrics.read_bytes() == whole.metrics.read_bytes()
    assert part.model.read_bytes() == whole.model.read_bytes()
    assert part.scores.read_bytes() == whole.scores.read_bytes()


def test_techniques_of_weight_0_equal_the_plain_run(folder: Path, plain: Run, tmp_path: Path) -> None:
    off = ("objective.start_weight=1", "objective.answer_weight=1", "objective.focal=0", "objective.label_smoothing=0")
    run = trainer.train(recipe(folder, *off, "terms.rdrop.weight=0", "terms.distil.weight=0"), tmp_path / "run")
    assert run.metrics.read_bytes() == plain.metrics.read_bytes()
    assert run.model.read_bytes() == plain.model.read_bytes()


def test_distillation_changes_nothing_before_its_start(folder: Path, plain: Run, tmp_path: Path) -> None:
    late = trainer.train(recipe(folder, "terms.distil.window=2", "terms.distil.start=5"), tmp_path / "late")
    assert losses(late)[:5] == losses(plain)[:5]
    assert losses(late)[5] > losses(plain)[5]
    with pytest.warns(
        LaminaWarning, match=r"terms.distil: begins after 1000 steps, but the run has \d+. Fix: let it begin earlier"
    ):
        never = trainer.train(recipe(folder, "terms.distil.start=1000"), tmp_path / "never")
    assert never.model.read_bytes() == plain.model.read_bytes()


@pytest.mark.parametrize("teacher", ["sda", "sdv"])
def test_distillation_from_the_previous_step_alone_changes_the_run(
    folder: Path, plain: Run, tmp_path: Path, teacher: str
) -> None:
    settings = ("terms.distil.window=1", f"terms.distil.teacher={teacher}", "encoder.dropout=0.0")
    run = trainer.train(recipe(folder, *settings), tmp_path / "run")
    without = trainer.train(recipe(folder, "encoder.dropout=0.0"), tmp_path / "without")
    assert losses(run)[0] == losses(without)[0]
    assert all(found > 0 for found in [terms["distil"] for terms in values_of_terms(run)][1:])
    assert losses(run)[1] > losses(without)[1]


def test_the_value_of_each_term_is_recorded(folder: Path, plain: Run, tmp_path: Path) -> None:
    """Each is recorded as it is in the loss: with its weight, the sum over the micro-batches of a step."""
    still, cut = "encoder.dropout=0.0", "train.memory_tokens=128"
    distilled = ("terms.distil.window=2", "terms.distil.teacher=sda", still)
    once = trainer.train(recipe(folder, *distilled), tmp_path / "once")
    without = trainer.train(recipe(folder, still), tmp_path / "without")
    values = [terms["distil"] for terms in values_of_terms(once)]
    assert len(values) == len(losses(once))
    assert values[:2] == [0.0, 0.0]
    assert min(values[2:]) > 0
    assert losses(once)[2] - values[2] == pytest.approx(losses(without)[2], rel=1e-5), "the models are still equal"
    for setting, factor in (("terms.distil.weight=10", 10), (cut, 1)):
        other = trainer.train(recipe(folder, *distilled, setting), tmp_path / setting)
        assert values_of_terms(other)[2]["distil"] == pytest.approx(factor * values[2], rel=1e-3)
    assert not values_of_terms(plain)


@pytest.mark.parametrize(
    ("settings", "message", "fix"),
    [
        (["terms.rdrop.weight=1", "encoder.dropout=0"], "terms.rdrop: .* has no dropout", ["encoder.attention_dropout=0.1"]),
        (["terms.rdrop.weight=1", "tune.layers=0"], "terms.rdrop: .* has no dropout", ["tune.dropout=true"]),
        (["data.choose=first"], 'data.choose: "first" has no effect without data.contexts', ["data.contexts=1"]),
        (["augment.eda.synonyms=words"], "augment.eda.synonyms: only the operations", ['augment.eda.operations=["insert"]']),
    ],
)
def test_settings_without_effect_are_refused(
    folder: Path, tmp_path: Path, settings: list[str], message: str, fix: list[str]
) -> None:
    with pytest.raises(LaminaError, match=message):
        trainer.train(recipe(folder, *settings), tmp_path / "run")
    assert not (tmp_path / "run" / "recipe.json").exists()
    build_on_meta(recipe(folder, *settings, *fix))


@pytest.mark.parametrize("setting", EVERYTHING)
def test_each_technique_alone_changes_the_run(folder: Path, plain: Run, tmp_path: Path, setting: str) -> None:
    run = trainer.train(recipe(folder, setting), tmp_path / "run")
    pairs = list(zip(losses(run), losses(plain), strict=True))
    assert any(abs(found - without) > 1e-3 for found, without in pairs)


def test_distillation_from_stored_states_equals_the_live_encoder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    settings = (*STILL, "tune.layers=1", "cache.dtype=float32")
    live = trainer.train(recipe(folder, *settings, "cache.use=never"), tmp_path / "live")
    stored = trainer.train(recipe(folder, *settings, "cache.use=always"), tmp_path / "stored")
    assert losses(stored) == pytest.approx(losses(live), abs=1e-4)


def test_a_step_in_micro_batches_has_the_loss_of_the_whole_step(folder: Path, tmp_path: Path) -> None:
    whole = trainer.train(recipe(folder, *STILL), tmp_path / "whole")
    cut = trainer.train(recipe(folder, *STILL, "train.memory_tokens=128"), tmp_path / "cut")
    assert losses(cut) == pytest.approx(losses(whole), rel=1e-3)
