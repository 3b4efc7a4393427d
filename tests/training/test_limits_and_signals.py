"""Plans and grids that no machine can hold, a full disk while training, and the signals that stop a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from lamina.config.recipe import Recipe
from lamina.errors import LaminaError
from lamina.experiments.tuning.space import parse_space
from lamina.training.plan import MOST_STEPS, Draw, check_steps, evaluation_points, plan_steps
from lamina.training.trainer import train
from lamina.utils.run_folder import Run
from tests.command import lamina
from tests.training.test_resume import recipe

LAMINA = Path(sys.executable).with_name("lamina")


def test_a_plan_of_too_many_steps_is_refused_at_once() -> None:
    check_steps(1, MOST_STEPS)
    lengths = {"main": lambda _: np.full(100, 8)}
    with pytest.raises(LaminaError, match=r"train\.epochs: 1e\+18 epochs of .* steps are more than the 5,000,000"):
        next(plan_steps(0, 1e18, lengths, tokens=64))


def test_a_run_of_too_many_epochs_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(LaminaError, match=r"train\.epochs: 1e\+18 epochs"):
        train(recipe(tmp_path, epochs=1e18), tmp_path / "run")


def test_evaluations_are_at_most_one_after_each_step() -> None:
    steps = [(0, (Draw("main", 0, np.arange(10)),))] * 10
    assert evaluation_points(steps, items=100, every=1e-300) == set(range(1, 11))


def test_a_grid_is_not_made_whole() -> None:
    values = {f"train.{name}": list(range(1, 61)) for name in ("a", "b", "c", "d", "e")}
    space = parse_space({"space": values})
    with pytest.raises(LaminaError, match="the grid has 777,600,000 combinations"):
        space.check_size("space.toml")
    few = space.model_copy(update={"search": space.search.model_copy(update={"trials": 3})})
    few.check_size("space.toml")
    assert [one["train.e"] for one in few.grid()] == [one["train.e"] for one in few.corners()] == [1, 2, 3]


def test_a_run_that_has_begun_without_a_number_of_steps_is_refused(tmp_path: Path) -> None:
    made = recipe(tmp_path, epochs=0.5)
    train(made, tmp_path / "run")
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    del info["steps"]
    (tmp_path / "run" / "run.json").write_text(json.dumps(info | {"finished": False}))
    with pytest.raises(LaminaError, match=r"run\.json: steps is missing\. Fix: copy the run folder again"):
        train(made, tmp_path / "run", resume=True)


LIMITED = """
import resource, sys
from pathlib import Path
from lamina import cli
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
cli.main()
"""


@pytest.mark.skipif(os.name != "posix", reason="needs setrlimit")
@pytest.mark.parametrize("size", [200, 200_000])
def test_a_full_disk_while_training_is_one_line_and_the_run_resumes(size: int, tmp_path: Path) -> None:
    """Let no file grow beyond a size: first the metrics do not fit, then the checkpoint does not."""
    made: Recipe = recipe(tmp_path, epochs=0.5)
    (tmp_path / "recipe.json").write_text(made.model_dump_json())
    words = ["train", str(tmp_path / "recipe.json"), "--out", str(tmp_path / "run"), "--resume"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "LAMINA_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(size), *words], capture_output=True, text=True, env=environment, check=False
    )
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 2 and last.startswith("lamina: ") and "Fix: free disk space" in last, done.stderr
    assert "Traceback" not in done.stderr and not list(tmp_path.rglob("*.tmp"))
    resumed = lamina(*words)
    assert resumed.code == 0, resumed.err
    whole = train(made, tmp_path / "whole")
    assert Run(tmp_path / "run").metrics.read_bytes() == whole.metrics.read_bytes()


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_sigterm_and_sighup_save_a_checkpoint(tmp_path: Path) -> None:
    made = recipe(tmp_path, epochs=400.0)
    (tmp_path / "recipe.json").write_text(made.model_dump_json())
    for number in (signal.SIGTERM, signal.SIGHUP):
        command = [str(LAMINA), "train", str(tmp_path / "recipe.json"), "--out", str(tmp_path / number.name)]
        # The tests may run under nohup, whose processes ignore SIGHUP.
        process = subprocess.Popen(["env", "--default-signal=HUP,TERM", *command], stderr=subprocess.PIPE, text=True)
        metrics = tmp_path / number.name / "metrics.jsonl"
        while not (metrics.exists() and metrics.stat().st_size):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 128 + number
        assert err.splitlines()[-1].startswith("lamina: interrupted. Fix: ")
        assert Run(tmp_path / number.name).checkpoint.exists()


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_nohup_keeps_sighup_ignored() -> None:
    code = "import signal; from lamina.utils.signals import handle_stops; handle_stops(print)\n"
    code += "print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    done = subprocess.run(["nohup", sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
