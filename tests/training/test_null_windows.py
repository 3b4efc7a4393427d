"""`data.null_windows` leaves out some of the windows that miss the answer of their question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lamina.config.parse import parse_recipe
from lamina.errors import LaminaError
from lamina.state_cache.dataset import missing_the_answer
from lamina.tasks.checks import build_on_meta
from lamina.training.cost_estimate import inspect
from lamina.training.plan import evaluation_points
from lamina.training.steps import make_plan
from lamina.training.trainer import train
from tests.resuming import stopped_and_resumed
from tests.training.test_augmented_runs import EDA, dataset_of, recipe
from tests.training.test_resume import assert_same, result

SHORT = {"window": {"length": 32, "query": 12, "step": 8}}


@pytest.mark.parametrize("tables", [SHORT, {**SHORT, **EDA}])
def test_only_windows_without_the_answer_of_an_answerable_question_are_left_out(tmp_path: Path, tables: dict[str, Any]) -> None:
    whole, _ = dataset_of(recipe(tmp_path, **tables))
    examples, windows = whole.at(0).examples, whole.at(0).windows
    missing = missing_the_answer(windows)
    for window, example in enumerate(windows.example.tolist()):
        inside = windows.gold[window, 0] != 0
        answered = windows.gold[windows.example == example, 0].max() > 0
        assert missing[window] == (answered and not inside)
        assert not missing[window] or examples[example].answers
    assert 20 < missing.sum() < len(missing) - 20
    for share in (0.0, 0.5, 1.0):
        dataset, _ = dataset_of(recipe(tmp_path, f"data.null_windows={share}", **tables))
        used = np.isin(np.arange(len(windows)), dataset.usable(0))
        assert used[~missing & (windows.gold[:, 0] >= 0)].all()
        assert used[missing].mean() == pytest.approx(share, abs=0.2 if 0 < share < 1 else 0)


def test_each_epoch_draws_other_windows(tmp_path: Path) -> None:
    dataset, _ = dataset_of(recipe(tmp_path, "data.null_windows=0.5", **SHORT))
    assert not np.array_equal(dataset.usable(0), dataset.usable(1))
    assert np.array_equal(dataset.usable(1), dataset_of(recipe(tmp_path, "data.null_windows=0.5", **SHORT))[0].usable(1))


@pytest.mark.parametrize("tables", [SHORT, {**SHORT, **EDA}])
def test_an_epoch_is_the_windows_that_are_trained_on(tmp_path: Path, tables: dict[str, Any]) -> None:
    made = recipe(tmp_path, "data.null_windows=0", **tables)
    dataset, _ = dataset_of(made)
    options = made.train.model_copy(update={"epochs": 2.0, "batch_windows": 2})
    plan = make_plan(options, {"main": dataset}, build_on_meta(made), {}, {"main": dataset})
    assert plan.epoch_items == len(dataset.usable(0)) < dataset.windows.items
    assert len(evaluation_points(plan, plan.epoch_items, every=0.25)) == 8


def test_inspect_counts_the_windows_that_are_trained_on(tmp_path: Path) -> None:
    every, none = (inspect(recipe(tmp_path, f"data.null_windows={share}", **SHORT))["training"] for share in (1, 0))
    assert every is not None
    assert none is not None
    assert 0 < none["windows"] < every["windows"]
    assert 0 < none["flops"] < every["flops"]
    assert 0 < none["tokens_per_epoch"] < every["tokens_per_epoch"]


def test_resumed_run_is_the_same(tmp_path: Path) -> None:
    made = recipe(tmp_path, "data.null_windows=0.3", "train.checkpoint_minutes=0", **SHORT)
    train(made, tmp_path / "whole")
    stopped_and_resumed(made, tmp_path / "resumed", before=5)
    assert_same(result(tmp_path / "resumed"), result(tmp_path / "whole"))


def test_sentences_have_no_null_windows(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("sentence,label\na,x\nb,y\n")
    values = {"data": {"train": str(tmp_path / "rows.csv"), "classes": ["x", "y"]}, "head": {"type": "classification"}}
    with pytest.raises(LaminaError, match=r"data.null_windows: is for questions, .* Fix: leave data.null_windows out"):
        build_on_meta(parse_recipe(values | {"encoder": {"model": "tiny", "pretrained": False}}, ["data.null_windows=0.5"]))
