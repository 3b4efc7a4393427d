"""Several processes that train one model together end like one process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from lamina.config.parse import parse_recipe
from lamina.config.recipe import Recipe
from lamina.errors import LaminaError, LaminaWarning
from lamina.tasks.checks import build_on_meta
from lamina.training.processes import ALONE, OneProcess, check_divisible, check_same, merged
from lamina.training.trainer import train
from lamina.utils.run_folder import Run
from tests.together import PATIENCE, Job, trained_together
from tests.training import test_sentence_runs as sentence_runs
from tests.training.test_resume import assert_same, recipe_values, result, wait_for

Values = dict[str, Any]
HALVES = {"memory_tokens": 256}  # two micro-batches a step
STILL = {"encoder": {"model": "tiny", "pretrained": False, "dropout": 0.0}}

data = sentence_runs.data  # a fixture


def values(folder: Path, train: Values | None = None, **tables: Any) -> Values:
    """Return a recipe of 14 steps that keeps its last weights."""
    return recipe_values(folder, **{"epochs": 2, "keep": "last", **(train or {})}) | tables


def of_sentences(data: Path) -> Values:
    """Return a recipe of three tasks in each step, with PCGrad, R-Drop and negatives from the micro-batch."""
    settings = (
        "train.sampling=combined",
        "train.gradients=pcgrad",
        "tasks.sentiment.terms.rdrop.weight=0.5",
        "tasks.paraphrase.terms.ranking.weight=0.5",
        "train.keep=last",
        "train.epochs=2",
        "train.device=cpu",
    )
    made: Values = sentence_runs.recipe(data, sentence_runs.TASKS, *settings).model_dump(mode="json")
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("together")


@pytest.fixture(scope="module")
def recipes(folder: Path, data: Path) -> dict[str, Values]:
    train(parse_recipe(values(folder, {"epochs": 1})), folder / "teacher")
    teacher = {"teacher": {"runs": [str(folder / "teacher")]}}
    return {
        "plain": values(folder, HALVES),
        "divided": values(folder, **STILL),
        "idle": values(folder, {"batch_windows": 1, "epochs": 0.3}),  # the second process has no micro-batch
        "tasks": of_sentences(data),
        "distil": values(folder, HALVES, terms={"distil": {"window": 2}}),
        "frozen": values(folder, HALVES, terms=teacher, tune={"layers": 1}, cache={"use": "always"}),
    }


@pytest.fixture(scope="module")
def reports(folder: Path, recipes: dict[str, Values], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Train all recipes in two processes, and stop one of the runs and resume it."""
    jobs: dict[str, Job] = {name: {"recipe": recipe, "out": f"two/{name}"} for name, recipe in recipes.items()}
    again = {"recipe": recipes["plain"], "out": "two/again"}
    jobs |= {"stopped": again | {"stop": 3}, "resumed": again | {"resume": True}}
    jobs["other"] = {"recipe": recipes["plain"], "out": "two/other", "stop": 3}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAMINA_CACHE", str(tmp_path_factory.mktemp("cache")))
        return trained_together(folder, jobs)


def losses(run: Path) -> list[float]:
    entries = [json.loads(line) for line in Run(run).metrics.read_bytes().splitlines()]
    return [entry["loss"] for entry in entries if "loss" in entry]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "divided", "idle", "tasks", "distil", "frozen"])
def test_two_processes_have_the_losses_of_one(
    name: str, folder: Path, recipes: dict[str, Values], reports: dict[str, list[str]], tmp_path: Path
) -> None:
    one, two = losses(train(parse_recipe(recipes[name]), tmp_path / "one").path), losses(folder / "two" / name)
    assert len(one) >= 10
    assert two[:2] == pytest.approx(one[:2], rel=1e-5)
    assert two == pytest.approx(one, rel=1e-3)
    assert json.loads(Run(folder / "two" / name).info.read_bytes())["processes"] == 2
    assert reports[name][0] == reports[name][1], "the weights have the same bits in both processes"


@pytest.mark.slow
def test_all_processes_stop_after_the_same_step_and_resume_with_the_same_bits(
    folder: Path, reports: dict[str, list[str]]
) -> None:
    assert reports["stopped"] == ["Stopped(15)", "Stopped(15)"], "only the first got the signal"
    assert reports["resumed"] == reports["plain"]
    assert_same(result(folder / "two/again"), result(folder / "two/plain"))


class Pretended(OneProcess):
    """The first of two processes, for checks that need no second one."""

    size = 2


@pytest.mark.parametrize(
    ("tables", "error"),
    [
        ({"train": {"minutes": 1}}, r"train\.minutes: with several processes, it measures .* Fix: set train\.epochs, or "),
        ({"terms": {"smart": {}}}, r"terms\.smart\.bregman: with several processes, it does not work\. Fix: set it to 0, or "),
        ({"mixer": {"type": "xception"}}, r"mixer: with several processes, it has batch norms, .* Fix: choose another mixer"),
    ],
)
def test_what_several_processes_cannot_train_is_refused(tmp_path: Path, tables: Values, error: str) -> None:
    made = parse_recipe(recipe_values(tmp_path) | tables)
    model = build_on_meta(made)
    check_divisible(ALONE, made, model)
    with pytest.raises(LaminaError, match=error):
        check_divisible(Pretended(), made, model)


def test_processes_with_other_files_are_refused() -> None:
    class Other(Pretended):
        def gathered(self, value: Any) -> list[Any]:
            return [value, {"the checksum of the training texts": "b"}]

    with pytest.raises(LaminaError, match="processes: the checksum of the training texts of process 1 differs from that of"):
        check_same(Other(), {"the checksum of the training texts": "a"})


def test_micro_batches_of_all_processes_are_in_order() -> None:
    class Other(Pretended):
        def gathered(self, value: Any) -> list[Any]:
            return [value, {1: "b", 3: "d"}]

    assert list(merged(Other(), {0: "a", 2: "c"}).items()) == [(0, "a"), (1, "b"), (2, "c"), (3, "d")]


def started(recipe: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "-m", "lamina", "train", str(recipe)]
    return subprocess.Popen([*words, "--out", str(out), *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def workers(process: subprocess.Popen[str]) -> list[int]:
    """Return the processes that torchrun has started, in their order."""
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True)
    return sorted(int(word) for word in found.stdout.split())


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_torchrun_stops_goes_on_and_ends_when_a_process_is_killed(tmp_path: Path) -> None:
    made: Recipe = parse_recipe(values(tmp_path, {"epochs": 400, "evaluate_every": 100}))
    (tmp_path / "recipe.json").write_text(made.model_dump_json())
    out = tmp_path / "run"
    process = started(tmp_path / "recipe.json", out)
    wait_for(process, out, 3)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0 and err.count("lamina: interrupted. Fix: ") == 1, err
    saved = torch.load(Run(out).checkpoint, weights_only=True)["state"]["step"]
    assert saved >= 3

    process = started(tmp_path / "recipe.json", out, "--resume")
    wait_for(process, out, saved + 3)
    os.kill(workers(process)[1], signal.SIGKILL)
    began = time.monotonic()
    _, err = process.communicate(timeout=PATIENCE)
    print(f"ended {time.monotonic() - began:.1f} seconds after the kill")
    lines = [line for line in err.splitlines() if line.startswith("lamina: ") and "warning" not in line]
    assert process.returncode != 0
    assert lines == [
        "lamina: processes: another process of this training has ended. "
        "Fix: see its message, then run the command again, with --resume"
    ]
    assert len(losses(out)) >= saved + 3


@pytest.mark.slow
def test_another_number_of_processes_goes_on_with_a_warning(
    folder: Path, recipes: dict[str, Values], reports: dict[str, list[str]]
) -> None:
    assert reports["other"] == ["Stopped(15)", "Stopped(15)"]
    with pytest.warns(LaminaWarning, match="processes changed from 2 to 1, so their micro-batches may have other dropout"):
        run = train(parse_recipe(recipes["plain"]), folder / "two/other", resume=True)
    assert losses(run.path) == pytest.approx(losses(folder / "two/plain"), rel=1e-3)
