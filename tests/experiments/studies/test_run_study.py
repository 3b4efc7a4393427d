"""Studies of tiny models, in real processes: finished runs are kept, failures stop nobody, and a killed study continues."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from statistics import stdev
from types import SimpleNamespace

import pytest
from rich.console import Console

import lamina
from lamina.errors import LaminaError
from lamina.experiments.reports.report import report
from lamina.experiments.studies.live_view import status_table
from lamina.experiments.studies.run_study import Doing, Status, make_plan, study
from lamina.state_cache.maintenance import list_stores
from lamina.utils.run_folder import Run
from tests.checkout import ROOT
from tests.command import lamina as command

STUDY = """
title = "A tiny study"
question = "Does it run?"
recipe = "quickstart"
baseline = "base"
[sizes.smoke]
seeds = [0, 1]
time_examples = 4
time_repeats = 2
set = [
  "encoder.model=tiny", "encoder.pretrained=false", "data.train=fables/dev", "data.dev=fables/dev",
  "data.questions=40", "data.dev_questions=20", "data.holdout=0.3",
  "window.length=128", "window.query=32", "window.step=48", "train.epochs={epochs}",
  "train.batch_windows=4", "train.threads=1", "train.checkpoint_minutes=0",
]
[variants]
base = {{}}
head = {{ encoder = "base", set = ["tune.layers=0", "train.lr=1e-2"] }}
both = {{ ensemble = ["base", "head"] }}
"""


def write(folder: Path, epochs: str = "1", more: str = "") -> Path:
    file = folder / "study.toml"
    file.write_text(STUDY.format(epochs=epochs) + more)
    return file


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, lamina.StudyTable]:
    """A finished study, with its file."""
    folder = tmp_path_factory.mktemp("study")
    return folder, lamina.study(write(folder), size="smoke", out=folder / "out", jobs=2)


def test_the_table_has_every_variant_and_seed(done: tuple[Path, lamina.StudyTable]) -> None:
    _, table = done
    assert [(one.variant, one.seed) for one in table.rows] == [
        (name, seed) for name in ("base", "head", "both") for seed in (0, 1)
    ]
    assert table.failed == {} and table.left == 0
    assert all({"EM", "F1", "best F1"} <= one.scores.keys() for one in table.rows)
    frame = table.to_pandas()
    assert list(frame.columns[:4]) == ["variant", "seed", "parameters", "EM"] and len(frame) == 6
    head, base = frame[frame.variant == "head"], frame[frame.variant == "base"]
    assert (head.parameters.to_numpy() < base.parameters.to_numpy()).all()
    assert "base" in str(table) and "±" in str(table)
    assert json.loads(json.dumps(table.to_json()))["rows"][0]["variant"] == "base"


def test_the_same_call_trains_nothing_and_gives_the_same_tables(done: tuple[Path, lamina.StudyTable]) -> None:
    folder, table = done
    files = ("table.json", "table.csv", "times.json")
    before = [(folder / "out" / name).read_bytes() for name in files]
    seen: list[Status] = []
    again = study(folder / "study.toml", size="smoke", out=folder / "out", watch=seen.append)
    assert str(again) == str(table)
    assert [(folder / "out" / name).read_bytes() for name in files] == before
    assert all(not status.running for status in seen)


def test_inference_is_measured_apart_and_repeated(done: tuple[Path, lamina.StudyTable]) -> None:
    folder, _ = done
    times = json.loads((folder / "out" / "times.json").read_text())
    assert len(times) == 2, "the first seed of both trained variants"
    assert all(len(one["seconds"]) == 2 and min(one["seconds"]) > 0 for one in times.values())


def test_the_report_has_the_tables_and_the_pictures(done: tuple[Path, lamina.StudyTable]) -> None:
    folder, _ = done
    files = report([folder / "out"], folder / "report")
    page = files[0].read_text()
    assert "A tiny study" in page and "<svg" in page and "not distinguishable from base" in page
    assert "With 2 seeds and 20 questions" in page
    assert not any(text in page for text in ('src="http', 'href="http', "url(http", "https://", "<script", "@import"))
    assert {"report.html", "report.md", "out-pareto.svg", "out-pareto.png", "out-all-variants.csv"} <= {
        file.name for file in files
    }
    assert "| head |" in (folder / "report" / "report.md").read_text()


def test_the_power_of_a_study_is_printed(done: tuple[Path, lamina.StudyTable]) -> None:
    folder, table = done
    words = [sys.executable, str(ROOT / "scripts/study_power.py"), str(folder / "out"), "--seeds", "1", "4"]
    first, one, four = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    scores = [row.scores["F1"] for row in table.rows if row.variant == "base"]
    assert f"a standard deviation of {stdev(scores):.2f} over 2 seeds" in first
    visible = [float(re.findall(r"difference of ([\d.]+)", line)[0]) for line in (one, four)]
    questions = float(re.findall(r"a standard error of ([\d.]+) from 20 questions", first)[0])
    expected = [2.80 * (questions**2 + 2 * stdev(scores) ** 2 / seeds) ** 0.5 for seeds in (1, 4)]
    assert visible == pytest.approx(expected, abs=0.11)


def test_a_failed_run_stops_nobody_and_is_tried_again(tmp_path: Path) -> None:
    broken = '[variants.missing]\nset = ["data.train=nowhere"]\n[variants.after]\nencoder = "missing"\n'
    file = write(tmp_path, "0.2", broken)
    arguments = ["study", file, "--size", "smoke", "--out", tmp_path / "out", "--seed", "0"]
    result = command(*arguments, "--only", "base", "--only", "missing", "--only", "after")
    assert result.code == 1
    assert "base" in result.out and "missing-seed0" in result.err and "nowhere" in result.err
    assert "it needs missing-seed0" in result.err
    failed = json.loads((tmp_path / "out" / "failed.json").read_text())
    assert len(failed) == 2
    fixed = broken.replace("nowhere", "fables/dev")
    write(tmp_path, "0.2", fixed)
    assert command(*arguments, "--only", "base", "--only", "after").code == 0
    assert json.loads((tmp_path / "out" / "failed.json").read_text()) == {}


def test_the_live_table_counts_the_seeds_of_each_variant(done: tuple[Path, lamina.StudyTable]) -> None:
    folder, _ = done
    plan = make_plan(folder / "study.toml", "smoke", folder / "out")
    base, other = (one.job for one in plan.results_of("base"))
    status = Status(plan, done={base}, failed={plan.results_of("head")[0].job: "why"}, running={other: Doing("training", 0.25)})
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(status_table(status))
    title, _, head, *lines = console.export_text().splitlines()
    assert "1 of 6 jobs finished, 4 left" in title
    assert [cell.strip() for cell in head.split("┃")[1:-1]] == ["variant", "done", "running", "left", "failed"]
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines]
    found = {row[0]: row[1:] for row in rows if row}
    assert found["base"] == ["1", "training 25%", "1", ""]
    assert found["head"] == ["0", "", "1", "1"]
    assert found["both"] == ["0", "", "2", ""]


def test_stored_states_of_the_study_s_own_runs_are_removed_after_their_last_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    twins = '[variants.other]\nencoder = "base"\nset = ["tune.layers=0"]\n'
    twins += '[variants.frozen]\nset = ["tune.layers=0"]\n'
    file = write(tmp_path, "0.2", twins)
    seen = []

    def watch(status: Status) -> None:
        if status.line.startswith(("head", "other")) and "finished" in status.line:
            seen.append({store.model for store in list_stores()})

    table = study(file, size="smoke", out=tmp_path / "out", seeds=[0], only=["frozen", "head", "other"], watch=watch)
    assert table.failed == {}
    (own,) = (str(path) for path in (tmp_path / "out" / "runs").glob("base-*"))
    assert seen == [{own}, set()], "after the first head, the second reads the same states"
    assert {store.model for store in list_stores()} == {"tiny"}, "stores of other encoders stay"


def test_a_folder_of_something_else_is_kept(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(LaminaError, match="is not the folder of a study"):
        study(write(tmp_path), size="smoke", out=tmp_path)


@pytest.mark.slow
def test_a_killed_study_continues_to_the_same_tables(tmp_path: Path) -> None:
    whole = study(write(tmp_path, "3"), size="smoke", out=tmp_path / "whole", seeds=[0], only=["base", "head"])
    arguments = [str(tmp_path / "study.toml"), "--size", "smoke", "--out", str(tmp_path / "killed"), "--seed", "0"]
    words = [sys.executable, "-m", "lamina", "study", *arguments, "--only", "base", "--only", "head"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run = started(tmp_path / "killed" / "runs", "head", process)
    process.kill()
    process.wait()
    assert not run.finished
    until = time.monotonic() + 60
    while (left := with_open_files(tmp_path)) and time.monotonic() < until:
        time.sleep(0.1)
    assert left == [], "no process goes on training for a study that was killed"
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for name in ("table.json", "table.csv"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert len(whole.rows) == 2


def started(folder: Path, name: str, process: subprocess.Popen[bytes]) -> Run:
    """Wait until the run of that name has a checkpoint, and return it."""
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        found = [Run(path.parent) for path in folder.glob(f"{name}-seed0-*/checkpoint.pt")]
        if found:
            return found[0]
        time.sleep(0.01)
    raise AssertionError(f"{name} did not start; exit code {process.poll()}")


def test_the_time_limit_saves_the_running_job_and_the_next_call_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, late = write(tmp_path, "500"), [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + late[0])
    monkeypatch.setattr("lamina.experiments.studies.run_study.time", clock)

    def watch(status: Status) -> None:
        if any(doing.stage == "training" and doing.share > 0 for doing in status.running.values()):
            late[0] = 3600.0  # an hour passes as soon as the first step is done

    first = study(file, size="smoke", out=tmp_path / "out", only=["base"], seeds=[0], minutes=30, watch=watch)
    assert (first.left, first.failed) == (1, {})
    (run,) = [Run(path) for path in (tmp_path / "out" / "runs").glob("base-*")]
    assert run.checkpoint.is_file() and not run.finished
    result = command(
        "study", file, "--size", "smoke", "--out", tmp_path / "out", "--seed", "0", "--only", "base", "--minutes", "0"
    )
    assert result.code == 0
    assert "1 job is left. To continue, run the command again" in result.err


def test_the_plan_is_shown_with_its_costs(tmp_path: Path) -> None:
    result = command("study", write(tmp_path), "--size", "smoke", "--out", tmp_path / "out", "--plan")
    assert result.code == 0, result.err
    assert "6 jobs for 3 variants" in result.out and "minutes of training here" in result.out
    assert not (tmp_path / "out").exists()
    as_json = command("study", tmp_path / "study.toml", "--size", "smoke", "--out", tmp_path / "out", "--plan", "--json")
    costs = json.loads(as_json.out)
    assert [one["done"] for one in costs] == [False] * 6
    assert all(one["minutes"] is not None for one in costs)


def with_open_files(folder: Path) -> list[int]:
    """Return the other processes that have a file open in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            opened = [str(one.readlink()) for one in (process / "fd").iterdir()]
        except OSError:
            continue
        if int(process.name) != os.getpid() and any(str(folder) in one for one in opened):
            found.append(int(process.name))
    return found
