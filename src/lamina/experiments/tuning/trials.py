"""Store the trials of a search in a SQLite file, with Optuna. Only the main process opens it.

The settings of trial N depend only on the search's seed, on N and on the scores of earlier trials. So a search that was
killed continues with the same settings.

Halving is Optuna's asynchronous successive halving with a factor of 2 and rungs after 1/8, 1/4 and 1/2 of a run. A trial
continues after a rung if its best score so far is in the better half of all scores at that rung. No trial waits for others,
so with several workers their speed decides which trials are stopped.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from optuna import create_study, logging
from optuna.exceptions import OptunaError
from optuna.pruners import SuccessiveHalvingPruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from optuna.trial import Trial as Running
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool

from lamina.errors import LaminaError
from lamina.experiments.tuning.space import Range, Settings, Space, as_text

_DAMAGED = "free disk space and use --resume; if the file is damaged, search again with another --out"
STEPS = 1000  # the length of a run in Optuna's steps
FIRST_RUNG = STEPS // 8
Outcome = Literal["unfinished", "done", "pruned", "failed"]
OUTCOMES: dict[TrialState, Outcome] = {
    TrialState.RUNNING: "unfinished",
    TrialState.COMPLETE: "done",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


@dataclass(frozen=True)
class Trial:
    """A trial and its result. `score` is its best score on the held-out split."""

    number: int
    settings: Settings
    state: Outcome
    score: float | None = None
    minutes: float | None = None
    problem: str | None = None  # of a trial that failed


@contextmanager
def opened_database(path: Path, space: Space) -> Iterator[TrialDatabase]:
    """Yield the trials in a file. A damaged file, or a disk that cannot hold it, raises LaminaError."""
    try:
        database = TrialDatabase(path, space)
    except LaminaError:
        raise
    except Exception as error:  # a damaged file gives errors of SQLite, SQLAlchemy, Alembic or Optuna
        raise LaminaError(f"{path}: the trials cannot be opened ({_reason(error)}). Fix: {_DAMAGED}") from error
    try:
        yield database
    except (SQLAlchemyError, sqlite3.Error, OptunaError) as error:
        raise LaminaError(f"{path}: the trials cannot be read or written ({_reason(error)}). Fix: {_DAMAGED}") from error
    finally:
        with suppress(SQLAlchemyError, sqlite3.Error):
            database.close()


def _reason(error: BaseException) -> str:
    """Return the first line of the first error behind an error, such as "database or disk is full"."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).splitlines() or [type(error).__name__])[0]


class TrialDatabase:
    """The trials of one search, in a SQLite file that Optuna reads and writes."""

    def __init__(self, path: Path, space: Space) -> None:
        logging.set_verbosity(logging.WARNING)
        self._space = space
        self._connections: list[sqlite3.Connection] = []
        try:
            self._open(path)
        except BaseException:
            self.close()
            raise

    def _open(self, path: Path) -> None:
        space = self._space
        # A path in the URL would need escapes (`?`, `%`, `{`) that depend on the version of SQLAlchemy.
        connect = partial(self._connect, path)
        self._storage = RDBStorage("sqlite://", engine_kwargs={"creator": connect, "poolclass": QueuePool})
        self._study = create_study(
            storage=self._storage,
            study_name="lamina",
            direction="maximize",
            pruner=SuccessiveHalvingPruner(min_resource=FIRST_RUNG, reduction_factor=2),
            load_if_exists=True,
        )
        for found in self._study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
            self._choose(found.number)  # the process may have been killed before all settings were chosen
        if space.search.method == "grid":
            begun = len(self._study.get_trials(deepcopy=False))
            for settings in space.grid()[begun : space.trials]:
                self._study.enqueue_trial({field: as_text(value) for field, value in settings.items()})

    def _connect(self, path: Path) -> sqlite3.Connection:
        self._connections.append(sqlite3.connect(path, check_same_thread=False))
        return self._connections[-1]

    def close(self) -> None:
        if hasattr(self, "_storage"):
            self._storage.remove_session()
            self._storage.engine.dispose()
        for connection in self._connections:  # also of a storage that could not be opened
            connection.close()

    def trials(self) -> list[Trial]:
        """Return all trials that have begun, in the order of their numbers."""
        return [self._trial(found) for found in self._study.get_trials(deepcopy=False) if found.state != TrialState.WAITING]

    def begin(self) -> Trial | None:
        """Begin the next trial and return it; None if there is no other."""
        number = len(self.trials())
        if number >= self._space.trials:
            return None
        self._study.sampler = self._sampler(number)
        self._study.ask()
        self._choose(number)
        return self._trial(self._frozen(number))

    def twin(self, trial: Trial) -> Trial | None:
        """Return an earlier finished trial with the same settings: training again would give the same score."""
        return next((old for old in self.trials() if old.state == "done" and old.settings == trial.settings), None)

    def should_stop(self, number: int, share: float, score: float) -> bool:
        """Record a trial's score after a share of its steps, and return whether halving stops it there."""
        step = round(STEPS * share)
        trial = self._running(number)
        if "pruned" in trial.user_attrs:  # decided before the search was killed
            return step >= int(trial.user_attrs["pruned"])
        scores = self._frozen(number).intermediate_values
        if step in scores:
            return False
        trial.report(max([score, *scores.values()]), step)
        if not self._space.search.halving or step >= STEPS or not trial.should_prune():
            return False
        trial.set_user_attr("pruned", step)
        return True

    def tell(self, number: int, score: float, minutes: float) -> Trial:
        """Record the score of a trial that ended, and return the trial."""
        trial = self._running(number)
        trial.set_user_attr("score", score)
        trial.set_user_attr("minutes", minutes)
        pruned = "pruned" in trial.user_attrs
        ended = self._study.tell(number, None if pruned else score, TrialState.PRUNED if pruned else TrialState.COMPLETE)
        return self._trial(ended)

    def fail(self, number: int, problem: str) -> Trial:
        trial = self._running(number)
        trial.set_user_attr("problem", problem)
        return self._trial(self._study.tell(number, state=TrialState.FAIL))

    def _choose(self, number: int) -> None:
        """Choose the settings that the trial does not have yet.

        TPE chooses all fields together; random search chooses each with its own seed.
        """
        self._study.sampler = self._sampler(number)
        trial = self._running(number)
        for place, (field, values) in enumerate(self._space.space.items()):
            self._study.sampler = self._sampler(number, place)
            _suggest(trial, field, values)

    def _running(self, number: int) -> Running:
        """Return a trial that can be changed, also if another process began it."""
        return Running(self._study, self._frozen(number)._trial_id)

    def _frozen(self, number: int) -> FrozenTrial:
        return self._study.get_trials(deepcopy=False)[number]

    def _trial(self, found: FrozenTrial) -> Trial:
        settings = {}
        for field, values in self._space.space.items():
            if field not in found.params:
                raise LaminaError(f"trial {found.number}: the stored trial has no {field}. Fix: {_DAMAGED}")
            value = found.params[field]
            settings[field] = value if isinstance(values, Range) else json.loads(value)
        stored = found.user_attrs
        results = stored.get("score"), stored.get("minutes"), stored.get("problem")
        return Trial(found.number, settings, OUTCOMES[found.state], *results)

    def _sampler(self, *place: int) -> BaseSampler:
        seed = int(np.random.SeedSequence((self._space.search.seed, *place)).generate_state(1)[0])
        if self._space.search.method == "tpe":
            return TPESampler(seed=seed)
        return RandomSampler(seed=seed)


def _suggest(trial: Running, field: str, values: Range | tuple[Any, ...]) -> None:
    if not isinstance(values, Range):
        trial.suggest_categorical(field, [as_text(value) for value in values])
    elif values.whole:
        trial.suggest_int(field, int(values.low), int(values.high), log=values.log, step=int(values.step or 1))
    else:
        trial.suggest_float(field, values.low, values.high, log=values.log, step=values.step)
