"""Searches with real trials in processes, also killed and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lamina.data.squad import to_squad
from lamina.utils.files import read_json
from lamina.utils.locks import Lock
from lamina.utils.run_folder import Run
from tests import tiny
from tests.command import Result, lamina

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tuning")]  # each trial is a process

PATIENCE = 120.0  # seconds after which the search is considered stuck
RATES = [1e-3, 1e-2]
SPACE = f"[space]\ntrain.lr = {RATES}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a recipe with a training set and a dev set that does not exist."""
    folder = tmp_path_factory.mktemp("tuning with spaces")
    (folder / "train.json").write_text(json.dumps(to_squad(tiny.corpus(12))))
    recipe = tiny.SMALL_RECIPE.format(folder=folder) + "checkpoint_minutes = 0\nevaluate_every = 0.25\n"
    (folder / "recipe.toml").write_text(recipe)
    (folder / "space.toml").write_text(SPACE)
    return folder


@pytest.fixture(scope="module")
def grid(folder: Path) -> Path:
    """Run a whole search and return its folder."""
    result = tune(folder, "grid")
    assert result.code == 0, result.err
    (folder / "grid.txt").write_text(result.out)
    return folder / "grid"


def arguments(folder: Path, out: str, *more: object, space: str = "space.toml") -> list[str]:
    return [str(word) for word in ("tune", folder / "recipe.toml", "--space", folder / space, "--out", folder / out, *more)]


def tune(folder: Path, out: str, *more: object, space: str = "space.toml") -> Result:
    return lamina(*arguments(folder, out, *more, space=space))


def trials(out: Path) -> list[dict[str, Any]]:
    """Return the table of the trials without its times."""
    found: list[dict[str, Any]] = read_json(out / "trials.json")
    for trial in found:
        trial.pop("minutes")
    return found


def test_dev_set_is_never_read(grid: Path) -> None:
    """Name a dev set that does not exist."""
    assert not (grid.parent / "dev.json").exists()
    for number in range(2):
        run = Run(grid / "trials" / f"{number:03d}")
        assert run.finished
        assert not run.scores.exists()


def test_grid_search_sorts_its_trials_by_score(grid: Path) -> None:
    best, second = trials(grid)
    assert {best["number"], second["number"]} == {0, 1}
    assert best["score"] >= second["score"]
    for trial in (best, second):
        run = Run(grid / "trials" / f"{trial['number']:03d}")
        assert trial["state"] == "done"
        assert trial["settings"] == {"train.lr": RATES[trial["number"]]}
        assert trial["score"] == read_json(run.info)["score"]
        assert read_json(run.recipe)["train"]["lr"] == RATES[trial["number"]]
    head, first, *rest = (grid.parent / "grid.txt").read_text().splitlines()
    assert head.split() == ["trial", "score", "state", "minutes", "train.lr"]
    assert first.split()[:3] == [str(best["number"]), f"{best['score']:.2f}", "done"]
    assert rest[-2:] == [f"best: {grid / 'best.json'}, for `lamina train`", f"picture: {grid / 'trials.png'}"]
    assert (grid / "trials.png").read_bytes().startswith(b"\x89PNG")


def test_best_recipe_trains_and_is_scored_on_the_dev_set(grid: Path, tmp_path: Path) -> None:
    dev = tmp_path / "dev.json"
    dev.write_text(json.dumps(to_squad(tiny.corpus(4))))
    data = read_json(grid / "best.json")["tasks"]["main"]["data"]
    assert data["dev"] == str(grid.parent / "dev.json")
    result = lamina("train", grid / "best.json", "--set", f"data.dev={dev}", "--out", tmp_path / "run", "--json")
    assert result.code == 0, result.err
    assert read_json(tmp_path / "run" / "run.json")["score"] == trials(grid)[0]["score"]
    assert (tmp_path / "run" / "scores.json").exists()


def test_two_workers_train_the_same_trials_as_one(grid: Path, folder: Path) -> None:
    result = tune(folder, "two workers", "--workers", 2, "--json")
    assert result.code == 0, result.err
    printed = json.loads(result.out)
    assert printed["best"] == str(folder / "two workers" / "best.json")
    assert [trial["number"] for trial in printed["trials"]] == [trial["number"] for trial in trials(grid)]
    assert trials(folder / "two workers") == trials(grid)
    for number in (0, 1):
        metrics = Run(folder / "two workers" / "trials" / f"{number:03d}").metrics
        assert metrics.read_bytes() == Run(grid / "trials" / f"{number:03d}").metrics.read_bytes()


@contextmanager
def started(words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-m", "lamina", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(process: subprocess.Popen[bytes], run: Run, lines: int) -> None:
    """Wait until a trial has recorded so many lines."""
    deadline = time.monotonic() + PATIENCE
    while not (run.metrics.exists() and run.metrics.read_bytes().count(b"\n") >= lines):
        assert process.poll() is None and time.monotonic() < deadline, "the search recorded too few lines in time"
        time.sleep(0.002)


def test_killed_and_interrupted_search_resumes_to_the_same_result(grid: Path, folder: Path) -> None:
    out = folder / "killed"
    first, last = Run(out / "trials" / "000"), Run(out / "trials" / "001")
    with started(arguments(folder, "killed")) as process:
        wait_for(process, first, 6)
        os.kill(process.pid, signal.SIGKILL)
    assert not first.finished and first.checkpoint.exists(), "killed in the middle of a trial"
    Lock(out / "trials" / ".000.lock").close()  # waits until its worker has ended
    assert not first.finished

    with started(arguments(folder, "killed", "--resume")) as process:
        wait_for(process, last, 6)
        written = first.model.stat().st_mtime_ns
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert errors.decode().endswith("lamina: interrupted. Fix: to continue, run the command again, with --resume\n")
    assert not last.finished and last.checkpoint.exists()

    result = tune(folder, "killed", "--resume")
    assert result.code == 0, result.err
    assert "trial 0" not in result.err, "finished trials are not repeated"
    assert first.model.stat().st_mtime_ns == written
    assert trials(out) == trials(grid)
    for run in (first, last):
        assert run.metrics.read_bytes() == (grid / "trials" / run.path.name / "metrics.jsonl").read_bytes()
    assert (out / "best.json").read_bytes() == (grid / "best.json").read_bytes()


def test_halving_stops_a_bad_trial_and_a_failed_trial_stops_nothing(folder: Path) -> None:
    """Use a learning rate in the second trial that soon makes the loss infinite."""
    (folder / "halving.toml").write_text("[search]\nhalving = true\n[space]\ntrain.lr = [1e-2, 1e30, 1e-9]\n")
    result = tune(folder, "halving", space="halving.toml")
    assert result.code == 0, result.err
    good, bad, failed = trials(folder / "halving")
    assert (good["number"], good["state"]) == (0, "done")
    assert (bad["number"], bad["state"]) == (2, "pruned")
    assert bad["score"] < good["score"]
    run = Run(folder / "halving" / "trials" / "002")
    steps = [json.loads(line)["step"] for line in run.metrics.read_text().splitlines()]
    assert steps[-1] <= read_json(run.info)["steps"] / 2
    assert (failed["number"], failed["state"], failed["score"]) == (1, "failed", None)
    assert "lower train.lr" in failed["problem"]


def test_settings_that_do_not_fit_stop_nothing(folder: Path) -> None:
    """Combine values that only fit the first value of the other field. Unlike a grid, a draw cannot be checked before."""
    search = "[search]\nmethod = 'random'\ntrials = 8\n"
    (folder / "odd.toml").write_text(search + "[space]\nwindow.length = [64, 48]\nwindow.query = [16, 32]\n")
    result = tune(folder, "odd", "--set", "train.epochs=0.25", space="odd.toml")
    assert result.code == 0, result.err
    found = trials(folder / "odd")
    failed = [trial for trial in found if trial["settings"] == {"window.length": 48, "window.query": 32}]
    assert len(found) == 8 and 0 < len(failed) < 8
    assert all(trial["state"] == ("failed" if trial in failed else "done") for trial in found)
    assert "raise window.length" in failed[0]["problem"]


def test_equal_settings_are_not_trained_twice(folder: Path) -> None:
    (folder / "twins.toml").write_text("[search]\nmethod = 'tpe'\ntrials = 3\n[space]\ntrain.lr = [1e-3]\n")
    result = tune(folder, "twins", "--set", "train.epochs=0.5", space="twins.toml")
    assert result.code == 0, result.err
    assert [path.name for path in (folder / "twins" / "trials").glob("[!.]*")] == ["000"]
    scores = {trial["score"] for trial in trials(folder / "twins")}
    assert scores == {read_json(folder / "twins" / "trials" / "000" / "run.json")["score"]}
    assert "trial 2: same settings as trial 0" in result.err


def test_search_resumes_only_with_the_same_recipe_and_space(grid: Path, folder: Path) -> None:
    (folder / "other.toml").write_text("[space]\ntrain.lr = [1e-4]\n")
    where = f"lamina: {grid}: "
    assert tune(folder, "grid").err == where + "already has a search. Fix: use --resume to continue it, or another --out\n"
    changed = where + "the {} has changed since this search began. Fix: use another --out\n"
    assert tune(folder, "grid", "--resume", space="other.toml").err == changed.format("space")
    assert tune(folder, "grid", "--resume", "--set", "train.epochs=1").err == changed.format("recipe")
    lock = Lock(grid / ".lock")
    busy = "another process is writing here. Fix: wait until it has ended, or use another folder\n"
    assert tune(folder, "grid", "--resume").err == where + busy
    lock.close()
    assert tune(folder, "grid", "--resume").code == 0, "a finished search can be resumed"
    assert tune(folder, ".").err.endswith(": already exists and is not a search of Lamina. Fix: use another --out\n")


@pytest.mark.parametrize(
    ("space", "settings", "complaint"),
    [
        ("train.lrr = [1e-4]", [], "{space}: train.lrr: no such field. Fix: did you mean train.lr?"),
        ("train.lr = [1e-4, -1]", [], "{space}: train.lr: Input should be greater than 0 (given: -1)"),
        (
            "window.length = [64, 9999]",
            [],
            "window.length: is 9999, but tiny has 512 positions. Fix: set window.length to at most 512",
        ),
        ("train.lr = [1e-4]", ["data.holdout=0"], "data.holdout: is 0, but a search scores its trials on the held-out split"),
        ("train.lr = [1e-4]", ["data.train=nowhere.json", "data.dev="], "nowhere.json: "),
    ],
)
def test_mistakes_print_one_line_before_any_training(
    folder: Path, tmp_path: Path, space: str, settings: list[str], complaint: str
) -> None:
    (tmp_path / "space.toml").write_text(f"[space]\n{space}\n")
    words = [word for setting in settings for word in ("--set", setting)]
    result = lamina("tune", folder / "recipe.toml", "--space", tmp_path / "space.toml", "--out", tmp_path / "out", *words)
    assert result.code == 2
    line = result.err.splitlines()[-1]
    assert line.startswith("lamina: " + complaint.format(space=tmp_path / "space.toml"))
    assert not list(tmp_path.glob("out/trials/*/metrics.jsonl"))


def test_without_optuna_the_error_names_the_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    for module in ("search", "trials"):
        monkeypatch.delitem(sys.modules, f"lamina.experiments.tuning.{module}", raising=False)
    result = tune(folder, "without optuna")
    assert (result.code, result.err) == (
        2,
        "lamina: lamina tune: needs Optuna, which is not installed. Fix: pip install 'lamina-qa[studies]'\n",
    )
    assert not (folder / "without optuna").exists()


def test_without_matplotlib_only_the_picture_is_missing(grid: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (grid / "trials.png").unlink()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = tune(folder, "grid", "--resume")
    assert result.code == 0
    fix = "Fix: pip install 'lamina-qa[plots]'"
    assert result.err == f"no picture: {grid / 'trials.png'}: pictures need matplotlib. {fix}\n"
    assert "best: " in result.out and "picture" not in result.out
    monkeypatch.undo()
    assert tune(folder, "grid", "--resume").out.endswith(f"picture: {grid / 'trials.png'}\n")
