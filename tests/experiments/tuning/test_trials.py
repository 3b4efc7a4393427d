"""The database of trials: how it chooses settings, stops trials and stores them. Nothing is trained."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import Trial as Running

from lamina.experiments.tuning import trials as module
from lamina.experiments.tuning.space import Space, parse_space
from lamina.experiments.tuning.trials import FileStorage, Trial, TrialDatabase

RANGES = {
    "train.lr": {"low": 1e-5, "high": 1e-3, "log": True},
    "train.warmup": {"low": 0.0, "high": 0.2, "step": 0.1},
    "tune.layers": {"low": 1, "high": 4},
    "train.schedule": ["linear", "cosine"],
}


def space(fields: dict[str, Any], **search: Any) -> Space:
    return parse_space({"search": search, "space": fields})


def by_layers(trial: Trial) -> float:
    return float(trial.settings["tune.layers"]) - 100 * float(trial.settings["train.lr"])


def run_all(path: Path, wanted: Space, score: Callable[[Trial], float], *, sessions: int = 1) -> list[Trial]:
    """Run a whole search; with several sessions, the database is opened again as often."""
    for session in range(sessions):
        with closing(TrialDatabase(FileStorage(path), wanted)) as database:
            for _ in range(-(-wanted.trials // sessions) if session < sessions - 1 else wanted.trials):
                if (trial := database.begin()) is None:
                    break
                database.tell(trial.number, score(trial), 1.0)
            trials = database.trials()
    return trials


@pytest.mark.parametrize("method", ["random", "tpe"])
def test_settings_are_within_their_ranges(tmp_path: Path, method: str) -> None:
    trials = run_all(tmp_path / "study.db", space(RANGES, method=method, trials=25), by_layers)
    assert len(trials) == 25
    for trial in trials:
        assert 1e-5 <= trial.settings["train.lr"] <= 1e-3
        assert round(trial.settings["train.warmup"], 9) in (0.0, 0.1, 0.2)
        assert trial.settings["tune.layers"] in (1, 2, 3, 4) and isinstance(trial.settings["tune.layers"], int)
        assert trial.settings["train.schedule"] in ("linear", "cosine")
    assert len({trial.settings["train.lr"] for trial in trials}) == 25


def test_tpe_prefers_settings_with_high_scores(tmp_path: Path) -> None:
    trials = run_all(tmp_path / "study.db", space(RANGES, method="tpe", trials=40, seed=3), by_layers)
    early, late = (sum(map(by_layers, part)) / len(part) for part in (trials[:10], trials[-15:]))
    assert late > early + 0.5


@pytest.mark.parametrize("method", ["random", "tpe"])
def test_reopened_database_chooses_the_same_settings(tmp_path: Path, method: str) -> None:
    wanted = space(RANGES, method=method, trials=16, seed=5)
    whole = run_all(tmp_path / "whole.db", wanted, by_layers)
    assert run_all(tmp_path / "parts.db", wanted, by_layers, sessions=3) == whole
    other = run_all(tmp_path / "other.db", space(RANGES, method=method, trials=3, seed=6), by_layers)
    assert other != whole[:3]


@pytest.mark.parametrize("method", ["random", "tpe", "grid"])
def test_database_killed_while_choosing_settings_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    fields = {"train.lr": [0.1, 0.2, 0.3], "tune.layers": [1, 2], "train.schedule": ["linear", "cosine"]}
    wanted = space(fields, method=method, trials=12)
    whole = run_all(tmp_path / "whole.db", wanted, by_layers)
    suggest = module._suggest

    def killed(trial: Running, field: str, values: Any) -> None:
        if (trial.number, field) == (11, "tune.layers"):
            raise InterruptedError
        suggest(trial, field, values)

    monkeypatch.setattr(module, "_suggest", killed)
    with pytest.raises(InterruptedError):
        run_all(tmp_path / "killed.db", wanted, by_layers)
    monkeypatch.undo()
    with closing(TrialDatabase(FileStorage(tmp_path / "killed.db"), wanted)) as database:
        assert [trial.settings for trial in database.trials()] == [trial.settings for trial in whole]
        assert database.trials()[11].state == "unfinished"
        assert database.begin() is None


def test_twin_has_the_same_settings(tmp_path: Path) -> None:
    with closing(
        TrialDatabase(FileStorage(tmp_path / "study.db"), space({"train.lr": [0.1]}, method="random", trials=3))
    ) as database:
        first, second = database.begin(), database.begin()
        assert first and second and database.twin(second) is None
        database.tell(0, 50.0, 1.0)
        assert database.twin(second) == database.trials()[0]


def test_grid_is_in_order_and_can_grow(tmp_path: Path) -> None:
    fields = {"train.lr": [0.1, 0.2], "tune.layers": ["all", 1, 2]}
    first = space(fields, trials=2)
    assert len(run_all(tmp_path / "study.db", first, lambda trial: 0.0)) == 2
    trials = run_all(tmp_path / "study.db", space(fields), lambda trial: 0.0)
    assert [trial.settings for trial in trials] == space(fields).grid()
    assert [trial.number for trial in trials] == list(range(6))


def test_halving_stops_the_worse_half_at_each_rung(tmp_path: Path) -> None:
    wanted = space({"train.lr": [0.1, 0.2, 0.3, 0.4, 0.5]}, halving=True)
    path = tmp_path / "study.db"
    with closing(TrialDatabase(FileStorage(path), wanted)) as database:
        for _ in range(5):
            assert database.begin() is not None
        assert not database.should_stop(0, 0.1, 90.0), "not yet at a rung"
        assert not database.should_stop(0, 0.125, 50.0), "there is no other score"
        assert database.should_stop(1, 0.125, 40.0)
        assert not database.should_stop(2, 0.125, 95.0)
        assert not database.should_stop(0, 0.25, 10.0), "the best score so far counts"
        assert database.should_stop(3, 0.5, 60.0), "a late report is compared at the first rung"
        assert not database.should_stop(4, 1.0, 1.0), "a finished trial is not stopped"
        assert database.tell(1, 40.0, 1.0).state == "pruned"
        assert database.tell(0, 95.0, 1.0).state == "done"
    with closing(TrialDatabase(FileStorage(path), wanted)) as database:
        assert [trial.state for trial in database.trials()] == ["done", "pruned", "unfinished", "unfinished", "unfinished"]
        assert database.trials()[1].score == 40.0
        assert not database.should_stop(3, 0.25, 99.0), "before the step of the decision"
        assert database.should_stop(3, 0.5, 99.0), "the decision stays"
        assert database.tell(3, 60.0, 1.0).state == "pruned"


def test_without_halving_nothing_is_stopped(tmp_path: Path) -> None:
    with closing(TrialDatabase(FileStorage(tmp_path / "study.db"), space({"train.lr": [0.1, 0.2]}))) as database:
        assert database.begin() and database.begin()
        assert not database.should_stop(0, 0.5, 90.0)
        assert not database.should_stop(1, 0.5, 10.0)
        assert database.tell(1, 10.0, 1.0).state == "done"
        failed = database.fail(0, "the loss is nan")
        assert (failed.state, failed.problem, failed.score) == ("failed", "the loss is nan", None)


@pytest.mark.parametrize("names", [("q?1", "q?2"), ("%41", "A"), ("a#1", "a#2"), ("{x}", "{y}"), ("s p", "s+p")])
def test_folders_with_special_characters_have_their_own_studies(tmp_path: Path, names: tuple[str, str]) -> None:
    """Use characters that have a meaning in a URL or in Optuna's template of one."""
    wanted = space({"train.lr": [0.1, 0.2]})
    for name, score in zip(names, (1.0, 2.0), strict=True):
        path = tmp_path / name / "study.db"
        path.parent.mkdir()
        trials = run_all(path, wanted, lambda trial, score=score: score)  # type: ignore[misc]
        assert path.is_file()
        assert [trial.score for trial in trials] == [score, score]
        with closing(TrialDatabase(FileStorage(path), wanted)) as reopened:
            assert reopened.trials() == trials
            assert reopened.begin() is None
