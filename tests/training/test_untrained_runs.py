"""A run of 0 epochs scores the model as it is before the first step."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import lamina
from lamina.config.build import build_model
from lamina.encoder import load as encoders
from lamina.training.trainer import train
from tests.command import lamina as command
from tests.training.test_split_loss import entries, recipe


@pytest.mark.parametrize("more", [(), ("train.schedule=exponential", "augment.eda.ramp=true"), ("tune.layers=0",)])
def test_run_of_no_epochs_is_a_run_of_the_first_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    made = recipe(tmp_path, "train.epochs=0", "train.curves=true", *more)
    run = train(made, tmp_path / "run")
    info = json.loads(run.info.read_text())
    assert (info["steps"], info["chosen_step"], info["costs"]["tokens"]) == (0, 0, 0)
    assert not entries(run, "epoch"), "no steps"
    (evaluation,) = entries(run, "evaluation")
    assert evaluation["step"] == 0
    assert evaluation["evaluation"].keys() >= {"balanced_f1", "loss"}
    assert info["score"] == evaluation["evaluation"]["balanced_f1"]
    assert json.loads(run.scores.read_text())["tuned"]["total"] == 15
    torch.manual_seed(made.train.seed)
    first = build_model(made, encoders.load(encoders.find(made.encoder))).state_dict()
    last = lamina.load(run.path, device="cpu").model.state_dict()
    assert all(np.array_equal(last[name], first[name]) for name in first)
    assert not (tmp_path / "cache").exists(), "no states are stored for training"


def test_command_trains_no_epochs_and_plans_them(tmp_path: Path) -> None:
    recipe(tmp_path)
    file = tmp_path / "recipe.toml"
    made = command("train", file, "--set", "train.epochs=0", "--out", tmp_path / "run")
    assert made.code == 0, made.err
    assert "cost: 0.0 min of training on 0 tokens" in made.out
    planned = command("inspect", file, "--set", "train.epochs=0", "--plot-schedule")
    assert planned.code == 0, planned.err
    assert " 0 epochs" in planned.out
    again = command("train", file, "--set", "train.epochs=0", "--out", tmp_path / "run", "--resume")
    assert again.code == 0, again.err
