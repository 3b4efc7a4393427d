"""The trials of a search that several processes share, on any machines. None of them is special.

Every process follows the same rules, so that none needs to be asked:

- The first `search.trials` trials of the storage, by their numbers in it, are the trials of the search. A process that began
  one more ends it at once. The place of a trial decides its settings in a grid, and the seed of its random choices.
- A process changes the attribute `beat` of its trials all the time. A trial whose beat has not changed for `lost_after`
  seconds, on the clock of the one who looks, has lost its process. Clocks of machines are never compared.
- Whoever sees that ends the lost trial in Optuna, which is possible once only, and queues the same settings again. If two
  processes queue them, the first in the storage counts. After `TRIES` attempts the trial has failed.

All attempts of a trial use one run folder. On a disk that the machines share, an attempt continues at the last checkpoint.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.exceptions import OptunaError, UpdateFinishedTrialError
from optuna.samplers import BaseSampler, RandomSampler
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from lamina.errors import LaminaError
from lamina.experiments.tuning.space import Space, as_text
from lamina.experiments.tuning.trials import FileStorage, Storage, Trial, TrialDatabase, opened

TRIES: Final = 3  # attempts of a trial
SECONDS: Final = 60.0  # that an access to a SQLite file waits for other processes
_OF, _ATTEMPT, _BEAT = "of", "attempt", "beat"  # attributes of a trial
_SEARCHED: Final = "searched"  # attribute of the study
_TAKEN: Final = "another process has taken it"
_FIX: Final = "check the URL and that the storage can be reached, then run the command again"


@dataclass(frozen=True)
class Shared:
    """A search in a storage that processes share.

    Attributes:
        url: ``sqlite:///FILE``, ``journal:FILE``, or the URL of a database that SQLAlchemy knows.
        lost_after: Seconds after which a silent process is lost.
    """

    url: str
    lost_after: float = 120.0

    @contextmanager
    def joined(self, space: Space, searched: str) -> Iterator[TrialDatabase]:
        """Yield the trials. `searched` is the text of the recipe and the space, which all processes must share."""
        with opened(self.url, lambda: self._open(space, searched), _FIX) as database:
            yield database

    def _open(self, space: Space, searched: str) -> SharedTrials:
        """Open the storage. Two processes that make its tables at once disturb each other: then try again."""
        for pause in (0.5, 1.0, 2.0, 4.0):
            try:
                return SharedTrials(storage_of(self.url), space, searched, self)
            except (SQLAlchemyError, OptunaError):
                time.sleep(pause)
        return SharedTrials(storage_of(self.url), space, searched, self)


@dataclass(frozen=True)
class _OtherStorage:
    optuna: BaseStorage

    def close(self) -> None:
        if isinstance(self.optuna, RDBStorage):
            self.optuna.remove_session()
            self.optuna.engine.dispose()


def storage_of(url: str) -> Storage:
    """Return the storage that a URL names."""
    kind, _, place = url.partition(":")
    file = Path(place.removeprefix("//").removeprefix("/") if kind == "sqlite" else place).expanduser()
    if kind in ("sqlite", "journal"):
        if not place.strip("/"):
            raise LaminaError(f"--storage {url}: names no file. Fix: write {kind}:{'///' if kind == 'sqlite' else ''}FILE")
        if not file.absolute().parent.is_dir():
            raise LaminaError(f"--storage {url}: the folder {file.parent} does not exist. Fix: create it first")
        if kind == "sqlite":
            return FileStorage(file, SECONDS)
        return _OtherStorage(JournalStorage(JournalFileBackend(str(file))))
    if "://" not in url:
        raise LaminaError(f"--storage {url}: is no URL. Fix: write sqlite:///FILE, journal:FILE or the URL of a database")
    return _OtherStorage(RDBStorage(url, engine_kwargs={"pool_pre_ping": True}))


class SharedTrials(TrialDatabase):
    """The trials of a search, by their places in it, from 0. Each has one attempt or several."""

    def __init__(self, storage: Storage, space: Space, searched: str, shared: Shared) -> None:
        self._shared, self._searched = shared, searched
        self._mine: dict[int, int] = {}  # place -> number in the storage, of the trials that this process trains
        self._beats: dict[int, tuple[object, float]] = {}  # number -> its last beat, and when this process first saw it
        self._ended = threading.Event()
        super().__init__(storage, space)
        threading.Thread(target=self._beat, daemon=True).start()

    def _prepare(self) -> None:
        """Check that the storage holds this search."""
        if _SEARCHED not in self._study.user_attrs:
            self._study.set_user_attr(_SEARCHED, self._searched)
        if self._study.user_attrs[_SEARCHED] != self._searched:
            what = "holds a search of another recipe or space"
            raise LaminaError(f"--storage {self._shared.url}: {what}. Fix: give the same ones, or use another storage")

    def close(self) -> None:
        """End the trials that this process did not finish, so that another takes them at once."""
        self._ended.set()
        with suppress(SQLAlchemyError, OptunaError):
            for number in self._mine.values():
                self._end(number)
        super().close()

    def interrupted(self) -> list[Trial]:
        return []  # `begin` takes those whose process is lost

    def wait(self) -> bool:
        """Wait a moment for the trials of other processes; return False if all trials of the search have ended."""
        attempts = self._attempts()
        if len(attempts) == self._space.trials and all(_is_over(own) for own in attempts):
            return False
        time.sleep(min(2.0, self._shared.lost_after / 6))
        return True

    def trials(self) -> list[Trial]:
        """Return all trials that have begun and whose settings are chosen."""
        attempts = enumerate(self._attempts())
        return [self._trial(place, own[-1]) for place, own in attempts if self._space.space.keys() <= own[-1].params.keys()]

    def begin(self) -> Trial | None:
        """Begin a trial whose process is lost, or else the next one; None if there is none now."""
        self._queue_lost()
        while True:
            attempts = self._attempts()
            if len(attempts) == self._space.trials and all(own[-1].state != TrialState.WAITING for own in attempts):
                return None
            self._study.sampler = self._sampler(len(attempts))
            number = self._study.ask().number
            place = next((place for place, own in enumerate(self._attempts()) if own[-1].number == number), None)
            if place is None:  # another process was faster
                self._end(number)
                continue
            self._mine[place] = number
            self._choose(place)
            self._continue(place)
            return self._trial(place, self._frozen(place))

    def should_stop(self, number: int, share: float, score: float) -> bool:
        return self._is_taken(number) or super().should_stop(number, share, score)

    def tell(self, number: int, score: float, minutes: float) -> Trial:
        return self._result(number, lambda: super(SharedTrials, self).tell(number, score, minutes))

    def fail(self, number: int, problem: str) -> Trial:
        return self._result(number, lambda: super(SharedTrials, self).fail(number, problem))

    def _result(self, place: int, record: Callable[[], Trial]) -> Trial:
        """Record the result of a trial of this process, unless another process has taken the trial."""
        ended = replace(self._trial(place, self._frozen(place)), problem=_TAKEN)
        with suppress(ValueError, UpdateFinishedTrialError):  # taken
            ended = record()
        del self._mine[place]
        return ended

    def lost(self, number: int) -> bool:
        """End a trial of this process, so that the next process takes it again, which may be this one."""
        self._end(self._mine.pop(number))
        return True

    def _attempts(self) -> list[list[FrozenTrial]]:
        """Return the attempts of each trial of the search, by its place. The last attempt counts."""
        found = self._study.get_trials(deepcopy=False)
        firsts = [one for one in found if _OF not in one.user_attrs][: self._space.trials]
        attempts = {one.number: [one] for one in firsts}
        for one in found:
            own = attempts.get(one.user_attrs.get(_OF, -1))
            if own is not None and one.user_attrs[_ATTEMPT] == len(own):  # the first that was queued
                own.append(one)
        return list(attempts.values())

    def _queue_lost(self) -> None:
        """End the trials whose process is lost, and queue their settings again."""
        for place, own in enumerate(self._attempts()):
            last = own[-1]
            if last.state == TrialState.RUNNING and place not in self._mine and self._is_silent(last):
                self._end(last.number)
            elif not _is_lost(last):
                continue
            if len(own) < TRIES:
                attributes = {_OF: own[0].number, _ATTEMPT: len(own)}
                self._study.enqueue_trial(last.params, user_attrs=attributes)

    def _is_silent(self, trial: FrozenTrial) -> bool:
        """Return whether the beat of a trial has not changed for too long."""
        now, beat = time.monotonic(), trial.user_attrs.get(_BEAT)
        known, since = self._beats.get(trial.number, (self, now))
        if known != beat:
            self._beats[trial.number] = beat, now
            return False
        return now - since > self._shared.lost_after

    def _end(self, number: int) -> None:
        """End a trial without a result, unless another process has done so."""
        with suppress(ValueError, RuntimeError, OptunaError):  # it has ended already
            self._study.tell(number, state=TrialState.FAIL)

    def _is_taken(self, place: int) -> bool:
        """Return whether another process has ended a trial of this process."""
        return self._frozen(place).state != TrialState.RUNNING

    def _continue(self, place: int) -> None:
        """Repeat what was recorded of earlier attempts, so that halving decides as if there were one."""
        trial = self._running(place)
        for earlier in self._attempts()[place][:-1]:
            for step, score in earlier.intermediate_values.items():
                trial.report(score, step)
            if "pruned" in earlier.user_attrs:
                trial.set_user_attr("pruned", earlier.user_attrs["pruned"])

    def _beat(self) -> None:
        """Show that this process lives, until it ends."""
        beats = 0
        while not self._ended.wait(self._shared.lost_after / 6):
            beats += 1
            for place in list(self._mine):
                with suppress(SQLAlchemyError, OptunaError, OSError, KeyError, RuntimeError):  # try again with the next beat
                    self._running(place).set_user_attr(_BEAT, beats)

    def _frozen(self, number: int) -> FrozenTrial:
        if number in self._mine:
            return self._study.get_trials(deepcopy=False)[self._mine[number]]
        return self._attempts()[number][-1]

    def _trial(self, number: int, found: FrozenTrial) -> Trial:
        trial = super()._trial(number, found)
        return replace(trial, problem=f"its process was lost {TRIES} times") if _is_lost(found) else trial

    def _sampler(self, *place: int) -> BaseSampler:
        if self._space.search.method != "grid":
            return super()._sampler(*place)
        grid = self._space.grid()
        settings = grid[place[0]] if place[0] < len(grid) else {}
        return _Chosen({field: as_text(value) for field, value in settings.items()})


class _Chosen(RandomSampler):
    """A sampler that returns values which are chosen already, by their fields."""

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__()
        self._values = values

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._values[param_name]


def _is_lost(trial: FrozenTrial) -> bool:
    """Return whether a trial was ended because its process was lost."""
    return trial.state == TrialState.FAIL and "problem" not in trial.user_attrs


def _is_over(attempts: list[FrozenTrial]) -> bool:
    last = attempts[-1]
    return last.state.is_finished() and not (_is_lost(last) and len(attempts) < TRIES)
