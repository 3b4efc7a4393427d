"""Runs that were killed, interrupted or started twice have the same result as uninterrupted ones."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lamina.config.parse import parse_recipe
from lamina.config.recipe import Recipe
from lamina.config.train_options import TrainOptions
from lamina.data.squad import to_squad
from lamina.errors import LaminaError, LaminaWarning
from lamina.model.weights import copy_weights
from lamina.objectives import SpanLoss
from lamina.objectives.loss import Loss
from lamina.state_cache.dataset import Dataset
from lamina.training import steps as planning
from lamina.training import trainer
from lamina.training.plan import plan_steps
from lamina.utils.progress import Silent
from lamina.utils.run_folder import Run
from tests.tiny import corpus, model, windows

PATIENCE = 900  # seconds: on a busy machine importing torch alone can take a minute

DRIVER = """
import sys
from pathlib import Path
from lamina.config.parse import read_recipe
from lamina.training.trainer import train

try:
    train(read_recipe(Path(sys.argv[1])), Path(sys.argv[2]), resume=sys.argv[3] == "resume")
except KeyboardInterrupt:
    sys.exit(130)
"""


def recipe_values(folder: Path, **train: Any) -> dict[str, Any]:
    """Return a recipe for 60 questions of 12 articles that saves a checkpoint after every step."""
    for name, examples in (("train", corpus(12)), ("dev", corpus(15)[60:])):
        (folder / f"{name}.json").write_text(json.dumps(to_squad(examples)))
    options = {"batch_tokens": 512, "lr": 1e-3, "checkpoint_minutes": 0, "threads": 1, "device": "cpu"}
    return {
        "data": {"train": str(folder / "train.json"), "dev": str(folder / "dev.json"), "holdout": 0.2},
        "encoder": {"model": "tiny", "pretrained": False},
        "window": {"length": 64, "query": 16, "step": 16},
        "train": options | train,
    }


def recipe(folder: Path, **train: Any) -> Recipe:
    return parse_recipe(recipe_values(folder, **train))


def result(out: Path) -> dict[str, Any]:
    """Return the files of a finished run, without its costs and without drafts that a killed process left."""
    files = {path.name: path.read_bytes() for path in out.glob("[!.]*") if path.name != "run.json"}
    info = json.loads((out / "run.json").read_bytes())
    assert info.pop("costs")["tokens"] > 0
    return files | {"run.json": info}


def assert_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert {"model.safetensors", "metrics.jsonl", "scores.json", "predictions.json", "run.json"} <= wanted.keys()
    assert {name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)} == set()


# ---- in other processes


@contextmanager
def started(file: Path, out: Path, how: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", DRIVER, str(file), str(out), how], stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def finished(file: Path, out: Path, how: str) -> None:
    with started(file, out, how) as process:
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors.decode()


def wait_for(process: subprocess.Popen[Any], out: Path, entries: int) -> None:
    """Wait until the run has recorded so many entries, or has ended."""
    metrics = out / "metrics.jsonl"
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and not (metrics.exists() and metrics.read_bytes().count(b"\n") >= entries):
        assert time.monotonic() < deadline, "the run recorded too few entries in time"
        time.sleep(0.005)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipe")
    path = folder / "recipe.json"
    path.write_text(json.dumps(recipe_values(folder, epochs=4, evaluate_every=0.5)))
    return path


@pytest.fixture(scope="module")
def uninterrupted(file: Path) -> dict[str, Any]:
    finished(file, file.parent / "uninterrupted", "new")
    found = result(file.parent / "uninterrupted")
    assert found["metrics.jsonl"].count(b'"loss"') >= 20, "long enough to be killed several times"
    assert found["metrics.jsonl"].count(b'"evaluation"') >= 6
    return found


@pytest.mark.slow
def test_run_killed_several_times_ends_the_same(file: Path, uninterrupted: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "killed"
    seed = int(os.environ.get("LAMINA_TEST_SEED") or int.from_bytes(os.urandom(4)))
    print(f"LAMINA_TEST_SEED={seed}")  # pytest shows it if the test fails
    chance = random.Random(seed)
    kills = 0
    for how, entries in (("new", 2), ("resume", 11), ("resume", 20)):
        with started(file, out, how) as process:
            wait_for(process, out, entries)
            time.sleep(chance.uniform(0, 0.08))
            process.kill()
            kills += process.wait(PATIENCE) == -signal.SIGKILL
    assert kills >= 2
    assert not Run(out).finished
    finished(file, out, "resume")
    assert_same(result(out), uninterrupted)


@pytest.mark.slow
def test_ctrl_c_saves_and_the_run_resumes_from_there(file: Path, uninterrupted: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "interrupted"
    with started(file, out, "new") as process:
        wait_for(process, out, 5)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    run = Run(out)
    assert run.checkpoint.exists()
    assert not run.finished
    finished(file, out, "resume")
    assert_same(result(out), uninterrupted)


# ---- in this process


class Stops(Silent):
    """A progress that stops the run, as a power cut would: the current step is not saved."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def advance(self, amount: int, note: str = "") -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def cut_off(recipe: Recipe, out: Path, steps: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        trainer.train(recipe, out, progress=Stops(steps))


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recipe, Path]:
    """Train a run of a few steps."""
    folder = tmp_path_factory.mktemp("short")
    made = recipe(folder, epochs=0.5)
    trainer.train(made, folder / "run")
    return made, folder / "run"


def test_equal_recipes_give_equal_runs(short: tuple[Recipe, Path], tmp_path: Path) -> None:
    """Check that random weights depend on the seed alone, not on earlier draws of the process."""
    made, out = short
    np.random.seed(1)
    again = trainer.train(made, tmp_path / "again")
    assert_same(result(again.path), result(out))


def test_finished_run_is_not_overwritten(short: tuple[Recipe, Path]) -> None:
    made, out = short
    before = result(out)
    with pytest.raises(LaminaError, match=r"already has a run\. Fix: use --resume \(resume=True\) to continue it, "):
        trainer.train(made, out)
    assert trainer.train(made, out, resume=True).finished, "a finished run can be resumed"
    assert_same(result(out), before)


def test_stopped_run_is_not_overwritten_and_rejects_another_recipe(tmp_path: Path) -> None:
    cut_off(recipe(tmp_path, epochs=1), tmp_path / "run", steps=2)
    with pytest.raises(LaminaError, match="already has a run"):
        trainer.train(recipe(tmp_path, epochs=1), tmp_path / "run")
    with pytest.raises(LaminaError, match=r"the recipe has changed .*\(train\.lr: 0\.001 then, 0\.002 now\)"):
        trainer.train(recipe(tmp_path, epochs=1, lr=2e-3), tmp_path / "run", resume=True)


def test_drafts_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    made = recipe(tmp_path, epochs=0.5)
    cut_off(made, tmp_path / "run", steps=2)
    (tmp_path / "run" / ".checkpoint.pt.4194303.tmp").write_bytes(b"half of a check")
    run = trainer.train(made, tmp_path / "run", resume=True)
    assert [path.name for path in run.path.iterdir() if path.name.startswith(".")] == []
    assert not run.checkpoint.exists()


@pytest.mark.parametrize("damage", ["missing", "short", "longer but cut in a line"])
def test_lost_metrics_are_reported_and_never_replaced_by_nul_bytes(tmp_path: Path, damage: str) -> None:
    made = recipe(tmp_path, epochs=1)
    whole = trainer.train(made, tmp_path / "whole").metrics.read_bytes().splitlines()
    out = tmp_path / "run"
    cut_off(made, out, steps=5)
    written = Run(out).metrics.read_bytes()
    assert written.count(b"\n") >= 4
    if damage == "missing":
        Run(out).metrics.unlink()
    elif damage == "short":
        Run(out).metrics.write_bytes(written[: written.index(b"\n") + 10])
    else:
        Run(out).metrics.write_bytes(written.replace(b"\n", b" \n", 1)[: len(written)] + b" and more\n")
    with pytest.warns(LaminaWarning, match=r"metrics\.jsonl: has [\d,]+ of the [\d,]+ bytes from before step \d+"):
        run = trainer.train(made, out, resume=True)
    found = [line.rstrip() for line in run.metrics.read_bytes().splitlines()]
    assert b"\0" not in run.metrics.read_bytes()
    assert set(found) < set(whole), "every line is a true one"
    assert found == [line for line in whole if line in found]
    assert found[-1] == whole[-1]


def test_time_budget_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipe(tmp_path, minutes=5, epochs=7)
    monkeypatch.setattr(planning, "_epochs_in", lambda *_: 1.4)
    cut_off(made, tmp_path / "run", steps=3)
    planned = json.loads((tmp_path / "run" / "run.json").read_bytes())["steps"]
    monkeypatch.setattr(planning, "_epochs_in", lambda *_: 0.1)
    run = trainer.train(made, tmp_path / "run", resume=True)
    entries = [json.loads(line) for line in run.metrics.read_bytes().splitlines()]
    steps = [entry for entry in entries if "loss" in entry]
    assert [entry["step"] for entry in steps] == list(range(1, planned + 1))
    assert {entry["epoch"] for entry in steps} == {0, 1}
    assert json.loads(run.info.read_bytes())["steps"] == planned


def test_measuring_does_not_change_the_model() -> None:
    losses = {"main": Loss([SpanLoss()])}
    made, held_out = ({"main": Dataset(corpus(size), windows(corpus(size)))} for size in (3, 1))
    tiny = model(dropout=0.1)
    before = copy_weights(tiny)
    options = TrainOptions(minutes=0.01, batch_tokens=512)
    assert len(planning.make_plan(options, made, tiny, losses, held_out)) >= 1
    assert all(np.array_equal(value, before[name]) for name, value in copy_weights(tiny).items())
    assert all(parameter.grad is None for parameter in tiny.parameters())
    planned = planning.make_plan(options, made, tiny, losses, held_out, known_steps=2)
    wanted = list(plan_steps(0, 2, {"main": lambda _: made["main"].windows.lengths}, tokens=512))[:2]
    assert [draw.items.tolist() for _, (draw,) in planned] == [draw.items.tolist() for _, (draw,) in wanted]
