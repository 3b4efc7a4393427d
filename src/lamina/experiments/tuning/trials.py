"""Store the trials of a search in a SQLite file, with Optuna. Only the main process opens it; `shared_trials` is for several.

The settings of trial N depend only on the search's seed, on N and on the scores of earlier trials. So a search that was
killed continues with the same settings.

Halving is Optuna's asynchronous successive halving with a factor of 2 and rungs after 1/8, 1/4 and 1/2 of a run. A trial
continues after a rung if its best score so far is in the better half of all scores at that rung. No trial waits for others,
so with several workers their speed decides which trials are stopped.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from optuna import create_study, logging
from optuna.exceptions import OptunaError
from optuna.pruners import SuccessiveHalvingPruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages import BaseStorage, RDBStorage
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

D = TypeVar("D", bound="TrialDatabase")


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
    with opened(str(path), lambda: TrialDatabase(FileStorage(path), space), _DAMAGED) as database:
        yield database


@contextmanager
def opened(name: str, open_: Callable[[], D], fix: str) -> Iterator[D]:
    """Yield the trials that `open_` opens, and close them. Errors of the storage become LaminaError; `name` names it."""
    try:
        database = open_()
    except LaminaError:
        raise
    except Exception as error:  # a damaged file gives errors of SQLite, SQLAlchemy, Alembic or Optuna
        raise LaminaError(f"{name}: the trials cannot be opened ({_reason(error)}). Fix: {fix}") from error
    try:
        yield database
    except (SQLAlchemyError, sqlite3.Error, OptunaError) as error:
        raise LaminaError(f"{name}: the trials cannot be read or written ({_reason(error)}). Fix: {fix}") from error
    finally:
        with suppress(SQLAlchemyError, sqlite3.Error, OptunaError):
            database.close()


def _reason(error: BaseException) -> str:
    """Return the first line of the first error behind an error, such as "database or disk is full"."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).splitlines() or [type(error).__name__])[0]


class FileStorage:
    """Optuna's storage in a SQLite file."""

    def __init__(self, path: Path, seconds: float = 5.0) -> None:
        """Open the file. Each access waits so many seconds for other processes."""
        self._path, self._seconds = path, seconds
        self._connections: list[sqlite3.Connection] = []
        try:
            # A path in the URL would need escapes (`?`, `%`, `{`) that depend on the version of SQLAlchemy.
            self.optuna = RDBStorage("sqlite://", engine_kwargs={"creator": self._connect, "poolclass": QueuePool})
        except BaseException:
            self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        self._connections.append(sqlite3.connect(self._path, check_same_thread=False, timeout=self._seconds))
        return self._connections[-1]

    def close(self) -> None:
        if hasattr(self, "optuna"):
            self.optuna.remove_session()
            self.optuna.engine.dispose()
        for connection in self._connections:  # also of a storage that could not be opened
            connection.close()


class Storage(Protocol):
    """Where Optuna stores trials."""

    @property
    def optuna(self) -> BaseStorage: ...
    def close(self) -> None: ...


class TrialDatabase:
    """The trials of one search, which Optuna reads and writes."""

    def __init__(self, storage: Storage, space: Space) -> None:
        logging.set_verbosity(logging.WARNING)
        self._space, self._storage = space, storage
        try:
            self._study = create_study(
                storage=storage.optuna,
                study_name="lamina",
                direction="maximize",
                pruner=SuccessiveHalvingPruner(min_resource=FIRST_RUNG, reduction_factor=2),
                load_if_exists=True,
            )
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        """Choose the settings of the trials that a killed process began, and of a grid."""
        space = self._space
        for found in self._study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
            self._choose(found.number)  # the process may have been killed before all settings were chosen
        if space.search.method == "grid":
            begun = len(self._study.get_trials(deepcopy=False))
            for settings in space.grid()[begun : space.trials]:
                self._study.enqueue_trial({field: as_text(value) for field, value in settings.items()})

    def close(self) -> None:
        self._storage.close()

    def interrupted(self) -> list[Trial]:
        """Return the trials that were begun before and are for this process to continue."""
        return [trial for trial in self.trials() if trial.state == "unfinished"]

    def lost(self, number: int) -> bool:
        """Note that the process of a trial was killed; return whether the search goes on without it."""
        return False

    def wait(self) -> bool:
        """Wait for the trials of other processes; return False if there are none."""
        return False

    def trials(self) -> list[Trial]:
        """Return all trials that have begun, in the order of their numbers."""
        found = self._study.get_trials(deepcopy=False)
        return [self._trial(one.number, one) for one in found if one.state != TrialState.WAITING]

    def begin(self) -> Trial | None:
        """Begin the next trial and return it; None if there is no other."""
        number = len(self.trials())
        if number >= self._space.trials:
            return None
        self._study.sampler = self._sampler(number)
        self._study.ask()
        self._choose(number)
        return self._trial(number, self._frozen(number))

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
        state = TrialState.PRUNED if pruned else TrialState.COMPLETE
        return self._trial(number, self._study.tell(trial.number, None if pruned else score, state))

    def fail(self, number: int, problem: str) -> Trial:
        trial = self._running(number)
        trial.set_user_attr("problem", problem)
        return self._trial(number, self._study.tell(trial.number, state=TrialState.FAIL))

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

    def _trial(self, number: int, found: FrozenTrial) -> Trial:
        settings = {}
        for field, values in self._space.space.items():
            if field not in found.params:
                raise LaminaError(f"trial {number}: the stored trial has no {field}. Fix: {_DAMAGED}")
            value = found.params[field]
            settings[field] = value if isinstance(values, Range) else json.loads(value)
        stored = found.user_attrs
        results = stored.get("score"), stored.get("minutes"), stored.get("problem")
        return Trial(number, settings, OUTCOMES[found.state], *results)

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
