"""Show progress on standard error: a bar on a terminal, and a line every 10 seconds in a log or a pipe."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Protocol

LINE_EVERY = 10.0  # seconds between lines when there is no terminal


class Progress(Protocol):
    """What reports progress: `start` a stage of `total` units, `advance` it, and `say` a line."""

    def start(self, label: str, total: int, done: int = 0) -> None: ...
    def advance(self, amount: int, note: str = "") -> None: ...
    def say(self, line: str) -> None: ...


class Silent:
    """Show nothing: for library calls and tests."""

    def start(self, label: str, total: int, done: int = 0) -> None: ...
    def advance(self, amount: int, note: str = "") -> None: ...
    def say(self, line: str) -> None: ...


class Lines:
    """Print lines, for logs and pipes."""

    def __init__(self) -> None:
        self._label, self._total, self._done = "", 0, 0
        self._began = self._last = time.monotonic()
        self._first = 0

    def start(self, label: str, total: int, done: int = 0) -> None:
        self._label, self._total, self._done, self._first = label, total, done, done
        self._began = time.monotonic()

    def advance(self, amount: int, note: str = "") -> None:
        self._done += amount
        now = time.monotonic()
        if now - self._last >= LINE_EVERY:
            self._last = now
            rate = (self._done - self._first) / (now - self._began)
            left = (self._total - self._done) / rate if rate else 0.0
            share = 100 * self._done / max(1, self._total)
            self.say(f"{self._label}: {share:.0f}%, {_clock(left)} left{', ' + note if note else ''}")

    def say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class Bar:
    """Show a bar on a terminal (by rich)."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._progress = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: TaskID | None = None

    def start(self, label: str, total: int, done: int = 0) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(label, total=total, completed=done, note="")
        self._progress.start()

    def advance(self, amount: int, note: str = "") -> None:
        if self._task is not None:
            self._progress.update(self._task, advance=amount, note=note)

    def say(self, line: str) -> None:
        self._progress.console.print(line, highlight=False, markup=False)

    def close(self) -> None:
        self._progress.stop()


class shown:  # noqa: N801 - reads as a verb: ``with shown() as progress``
    """A context manager that yields a `Bar` on a terminal, `Lines` elsewhere, and `Silent` with `quiet`."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._progress: Progress = Silent() if quiet else Bar() if sys.stderr.isatty() else Lines()

    def __enter__(self) -> Progress:
        return self._progress

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if isinstance(self._progress, Bar):
            self._progress.close()


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02d}"
