"""One search by several real processes: each trial counts once, also if a process is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from lamina.data.squad import to_squad
from lamina.errors import LaminaError
from lamina.experiments.tuning.shared_trials import TRIES, Shared, SharedTrials
from lamina.experiments.tuning.space import Space, parse_space
from lamina.experiments.tuning.trials import Trial
from lamina.utils.files import read_json
from tests import tiny
from tests.command import lamina

RATES = [1e-4, 1e-3, 3e-3, 1e-2]
PATIENCE = 900.0  # seconds after which a search is considered stuck


@pytest.fixture(params=["sqlite:///{}/study.db", "journal:{}/study.log"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found: str = request.param.format(tmp_path)
    return found


def space(**search: object) -> Space:
    return parse_space({"search": {"method": "grid", **search}, "space": {"train.lr": RATES}})


class Joined(ExitStack):
    """Processes of a search, as objects in this process."""

    def one(self, url: str, wanted: Space, lost_after: float = 1e6) -> SharedTrials:
        found = self.enter_context(Shared(url, lost_after).joined(wanted, "the recipe"))
        assert isinstance(found, SharedTrials)
        return found


def begun(database: SharedTrials) -> Trial:
    trial = database.begin()
    assert trial is not None
    return trial


def test_processes_share_the_trials_of_a_grid(url: str) -> None:
    with Joined() as joined:
        both = [joined.one(url, space()) for _ in range(2)]
        trials = [begun(both[number % 2]) for number in range(4)]
        assert [trial.settings["train.lr"] for trial in trials] == RATES
        assert [trial.number for trial in trials] == [0, 1, 2, 3]
        assert both[0].begin() is None is both[1].begin() and both[0].wait()
        for number in range(4):
            both[number % 2].tell(number, float(number), 1.0)
        assert [trial.score for trial in both[0].trials()] == [0.0, 1.0, 2.0, 3.0] == [t.score for t in both[1].trials()]
        assert not both[0].wait() and not both[1].wait()


def test_a_silent_trial_is_taken_once_and_its_first_process_learns_it(url: str) -> None:
    with Joined() as joined:
        silent = joined.one(url, space(trials=1))  # it beats only every six days
        others = [joined.one(url, space(trials=1), lost_after=0.3) for _ in range(2)]
        first = begun(silent)
        assert not silent.should_stop(0, 0.25, 50.0)
        for other in others:
            assert other.begin() is None, "it has just been seen for the first time"
        time.sleep(0.5)
        taken = begun(others[0])
        assert others[1].begin() is None
        assert (taken.number, taken.settings) == (first.number, first.settings)
        assert silent.should_stop(0, 0.5, 60.0), "it has been taken"
        late = silent.tell(0, 60.0, 1.0)
        assert late.problem == "another process has taken it"
        assert others[0].tell(0, 70.0, 1.0).score == 70.0
        (trial,) = others[1].trials()
        assert (trial.state, trial.score) == ("done", 70.0) and not others[1].wait()


def test_two_processes_that_queue_a_lost_trial_make_one_attempt(url: str) -> None:
    with Joined() as joined:
        first, second = (joined.one(url, space(trials=1)) for _ in range(2))
        begun(first)
        first.lost(0)
        second._queue_lost()
        first._queue_lost()
        first._study.enqueue_trial({"train.lr": 1.0}, user_attrs={"of": 0, "attempt": 1})  # as a process that was as fast
        assert begun(second).settings["train.lr"] == RATES[0]
        assert first.begin() is None, "the second copy does not count"
        second.tell(0, 1.0, 1.0)
        assert len(first.trials()) == 1 and not first.wait()


def test_a_trial_that_kills_each_process_fails_at_last(url: str) -> None:
    with Joined() as joined:
        database = joined.one(url, space(trials=1))
        for _ in range(TRIES):
            begun(database)
            database.lost(0)
        assert database.begin() is None and not database.wait()
        assert database.trials()[0].problem == f"its process was lost {TRIES} times"


def test_a_process_that_leaves_frees_its_trials(url: str) -> None:
    with Joined() as joined:
        stays = joined.one(url, space(trials=1))
        with Joined() as other:
            begun(other.one(url, space(trials=1)))
            assert stays.begin() is None
        assert begun(stays).number == 0


def test_other_searches_and_odd_urls_are_refused(url: str, tmp_path: Path) -> None:
    with Joined() as joined:
        joined.one(url, space())
        with pytest.raises(LaminaError, match="holds a search of another recipe or space"), Shared(url).joined(space(), "x"):
            pass
    for odd, message in (("study.db", "is no URL"), ("sqlite:///", "names no file"), ("journal:no/where/x", "does not exist")):
        with pytest.raises(LaminaError, match=message), Shared(odd).joined(space(), "x"):
            pass
    words = ("tune", "quickstart", "--space", "rates", "--out", tmp_path / "out")
    assert "--worker: needs --storage URL" in lamina(*words, "--worker").err
    assert "--storage: needs --worker" in lamina(*words, "--storage", url).err


@pytest.mark.slow
@pytest.mark.xdist_group("tuning")
def test_a_killed_process_loses_no_trial(tmp_path: Path) -> None:
    (tmp_path / "train.json").write_text(json.dumps(to_squad(tiny.corpus(12))))
    recipe = tiny.SMALL_RECIPE.format(folder=tmp_path) + "checkpoint_minutes = 0\nevaluate_every = 0.25\n"
    (tmp_path / "recipe.toml").write_text(recipe.replace("epochs = 2", "epochs = 4"))
    (tmp_path / "space.toml").write_text(f"[space]\ntrain.lr = {RATES[:3]}\n")
    words = ["tune", tmp_path / "recipe.toml", "--space", tmp_path / "space.toml", "--out", tmp_path / "out"]
    shared = ["--storage", f"sqlite:///{tmp_path}/study.db", "--worker", "--lost-after", "6"]
    command = [sys.executable, "-P", "-m", "lamina", *map(str, [*words, *shared])]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    killed = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    until = time.monotonic() + PATIENCE
    while not list(tmp_path.glob("out/trials/*/metrics.jsonl")) and time.monotonic() < until:
        time.sleep(0.02)
    other = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    _, errors = other.communicate(timeout=PATIENCE)
    assert other.returncode == 0, errors
    found = read_json(tmp_path / "out" / "trials.json")
    assert sorted(trial["number"] for trial in found) == [0, 1, 2]
    assert sorted(trial["settings"]["train.lr"] for trial in found) == RATES[:3]
    assert {trial["state"] for trial in found} == {"done"}
    assert sorted(path.name for path in (tmp_path / "out" / "trials").glob("[0-9]*")) == ["000", "001", "002"]
    again = lamina(*words, *shared, "--json")
    assert again.code == 0 and json.loads(again.out)["trials"] == found
