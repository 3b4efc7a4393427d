"""Evaluations record the mean of the objective over the split, beside the scores."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import lamina
from lamina.config.parse import read_recipe
from lamina.config.recipe import Recipe
from lamina.config.train_options import TrainOptions
from lamina.data.squad import to_squad
from lamina.data.windows import LOST
from lamina.encoder import load as encoders
from lamina.heads import SpanOutputs
from lamina.model import Model
from lamina.model.inference import span_logits
from lamina.objectives import SpanLoss
from lamina.state_cache.dataset import Dataset
from lamina.tasks.kind import Evaluation, FileCache
from lamina.training.datasets import AnyDataset, Datasets, load_data
from lamina.training.learning_curves import read_curves, unit_of
from lamina.training.plan import Draw
from lamina.training.split_loss import SplitLoss
from lamina.training.steps import TrainingPlan, curve_points
from lamina.training.task_group import TaskGroup
from lamina.training.trainer import train
from lamina.utils.progress import Silent
from lamina.utils.run_folder import Run
from tests import tiny


def recipe(folder: Path, *settings: str) -> Recipe:
    for name, examples in (("train", tiny.corpus(12)), ("dev", tiny.corpus(15)[60:])):
        (folder / f"{name}.json").write_text(json.dumps(to_squad(examples)))
    (folder / "recipe.toml").write_text(tiny.SMALL_RECIPE.format(folder=folder))
    return read_recipe(folder / "recipe.toml", ["train.device=cpu", *settings])


def entries(run: Run, key: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    return [entry for entry in found if key in entry]


def item_loss(model: Model, dataset: AnyDataset, item: int) -> float:
    """Return the loss of one window, without padding and without the library's loss functions."""
    batch = dataset.batch([item])
    with torch.inference_mode():
        outputs = model(batch)
    assert isinstance(outputs, SpanOutputs)
    allowed = outputs.allowed[0].nonzero().flatten().tolist()
    ends = zip((outputs.start[0], outputs.end[0]), batch.gold[0].tolist(), strict=True)
    return sum(-F.log_softmax(logits[allowed], 0)[allowed.index(gold)].item() for logits, gold in ends) / 2


def mean_loss(model: Model, dataset: AnyDataset) -> float:
    usable = [item for item in range(len(dataset.windows)) if dataset.windows.gold[item, 0] != LOST]
    return sum(item_loss(model, dataset, item) for item in usable) / len(usable)


@pytest.mark.parametrize("terms", [(), ("terms.rdrop.weight=1.0", "objective.type=span")])
def test_evaluations_and_curves_record_the_objective_without_terms(tmp_path: Path, terms: tuple[str, ...]) -> None:
    made = recipe(tmp_path, "train.keep=last", "train.evaluate_every=0.5", "train.curves=true", *terms)
    run = train(made, tmp_path / "run")
    data = load_data(made, encoders.find(made.encoder), FileCache(), Silent())
    model = lamina.load(run.path, device="cpu").model
    evaluations = entries(run, "evaluation")
    assert len(evaluations) >= 4
    assert len({entry["evaluation"]["loss"] for entry in evaluations}) == len(evaluations), "at steps, not only at epochs"
    assert evaluations[-1]["evaluation"]["loss"] == pytest.approx(mean_loss(model, data.holdout["main"]), rel=1e-5)
    curve = entries(run, "curve")[-1]["curve"]
    assert curve["dev"]["loss"] == pytest.approx(mean_loss(model, data.dev["main"]), rel=1e-5)
    assert curve["train"]["loss"] == pytest.approx(mean_loss(model, data.train["main"]), rel=1e-5)


def test_curves_of_a_sample_have_so_many_examples_of_each_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, int]] = []
    evaluate = TaskGroup.evaluate

    def noted(self: TaskGroup, model: Model, datasets: Datasets, *more: Any, **named: Any) -> Evaluation:
        seen.append({name: len(dataset.examples) for name, dataset in datasets.items()})
        return evaluate(self, model, datasets, *more, **named)

    monkeypatch.setattr(TaskGroup, "evaluate", noted)
    made = recipe(tmp_path, "train.epochs=1", "train.evaluate_every=1", "train.curves=true", "train.curves_examples=7")
    run = train(made, tmp_path / "run")
    assert seen.count({"main": 7}) == 2, "of the training split and of the dev set"
    assert {"f1", "loss"} <= entries(run, "curve")[-1]["curve"]["dev"].keys()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_run_is_scored_in_the_number_format_of_the_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    formats = set()
    infer = Model.forward

    def noted(self: Model, *arguments: Any) -> Any:
        if not self.training:
            formats.add("bfloat16" if torch.is_autocast_enabled("cpu") else "float32")
        return infer(self, *arguments)

    monkeypatch.setattr(Model, "forward", noted)
    train(recipe(tmp_path, "train.epochs=1", f"train.score_precision={precision}"), tmp_path / "run")
    assert formats == {precision}


@pytest.mark.parametrize("threads", [1, 2])
def test_windows_whose_answer_no_token_covers_have_no_loss(threads: int) -> None:
    model, windows = tiny.model().eval(), tiny.windows(tiny.corpus(12))
    gold = windows.gold.copy()
    gold[::3] = LOST
    dataset = Dataset(tiny.corpus(12), replace(windows, gold=gold))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        loss = SplitLoss(SpanLoss(), model, dataset)
        span_logits(model, dataset.windows, seen=loss.add)
    finally:
        torch.set_num_threads(before)
    assert loss.value == pytest.approx(mean_loss(model, dataset), rel=1e-5)


def test_a_split_without_a_usable_window_has_no_loss() -> None:
    model, windows = tiny.model().eval(), tiny.windows(tiny.corpus(2))
    dataset = Dataset(tiny.corpus(2), replace(windows, gold=windows.gold * 0 + LOST))
    loss = SplitLoss(SpanLoss(), model, dataset)
    span_logits(model, dataset.windows, seen=loss.add)
    assert loss.value is None


@pytest.mark.parametrize(
    ("settings", "epochs"),
    [
        (("train.epochs=1.3",), [1, 1.3]),
        (("train.epochs=1.5", "train.curves_every=0.5"), [0.5, 1, 1.5]),
        (("train.epochs=2",), [1, 2]),
        (("train.epochs=0",), [0]),
    ],
)
def test_points_of_curves_are_at_their_number_of_epochs(tmp_path: Path, settings: tuple[str, ...], epochs: list[float]) -> None:
    run = train(recipe(tmp_path, "train.curves=true", *settings), tmp_path / "run")
    points = entries(run, "curve")
    assert [entry["epochs"] for entry in points] == epochs
    assert points[-1]["step"] == json.loads(run.info.read_text())["steps"]
    assert [at for at, _ in read_curves(run)["loss"]["dev"]] == epochs
    assert {metric: unit_of(metric, recipe(tmp_path)) for metric in read_curves(run)} == {
        "f1": "percent",
        "exact": "percent",
        "loss": "loss",
    }


def test_the_last_point_of_a_run_by_minutes_has_the_share_of_its_epoch() -> None:
    turn = (Draw("main", 0, np.arange(2)),)
    plan = TrainingPlan([(0, turn)] * 4 + [(1, turn)], [4, 5], 8)
    assert curve_points(TrainOptions(minutes=1.0), plan) == {4: 1, 5: 1.2}
