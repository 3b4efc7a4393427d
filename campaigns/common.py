"""What the campaigns share: options, numbered cases with a seed, a log line for each failure, and the summary."""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from lamina.errors import LaminaError

HANG = 10.0  # processor seconds of a case
ASLEEP = 120.0  # seconds of a case on the clock, for one that waits


class HangError(BaseException):
    """A case took too long. No `except Exception` of the tested code catches it."""


@dataclass(frozen=True)
class Failure:
    """A case that broke a promise."""

    case: int
    what: str  # the subject of the case, such as "csv"
    kind: str  # "traceback", "hang", "wrong", "left over" …
    detail: str


class Campaign:
    """The cases of a campaign. Each has a number, from which its random choices follow.

    Args:
        name: The name of the campaign.
        seed: Fixes the random choices, with the number of a case.
        size: The number of cases.
        log: The file to which each failure adds a line of JSON; None for standard error only.
        minutes: End after so many minutes, with the cases that were run until then; None to run all.
    """

    def __init__(self, name: str, seed: int, size: int, log: Path | None = None, minutes: float | None = None) -> None:
        self.name, self.seed, self.size, self.log = name, seed, size, log
        self.outcomes: dict[str, Counter[str]] = {}
        self.failures: list[Failure] = []
        self.notes: list[str] = []
        self._began = time.monotonic()
        self._end = None if minutes is None else self._began + 60 * minutes

    @property
    def over(self) -> bool:
        """Whether the time is over. Then the notes say so."""
        if self._end is None or time.monotonic() < self._end:
            return False
        self.notes.append("ended by its limit of time, before all cases of its size were run")
        return True

    def draw(self, case: int) -> random.Random:
        """Return the random choices of a case."""
        return random.Random(f"{self.name} {self.seed} {case}")

    def count(self, what: str, outcome: str) -> None:
        """Count the outcome of a case."""
        self.outcomes.setdefault(what, Counter())[outcome] += 1

    def fail(self, failure: Failure) -> None:
        """Count a failure, and write its line to the log."""
        failure = replace(failure, detail=_without_places(failure.detail))
        self.failures.append(failure)
        self.count(failure.what, failure.kind)
        line = json.dumps({"campaign": self.name, "seed": self.seed, **vars(failure)}, ensure_ascii=True)
        print(f"{failure.what} {failure.case}: {failure.kind}: {failure.detail[-300:]!r}", file=sys.stderr, flush=True)
        if self.log is not None:
            with self.log.open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    def summary(self) -> dict[str, Any]:
        """Return the counts, the failures and the machine."""
        return {
            "campaign": self.name,
            "seed": self.seed,
            "size": self.size,
            "cases": sum(sum(one.values()) for one in self.outcomes.values()),
            "outcomes": {what: dict(sorted(counts.items())) for what, counts in sorted(self.outcomes.items())},
            "failures": [vars(one) for one in self.failures],
            "notes": self.notes,
            "seconds": round(time.monotonic() - self._began),
            "machine": {"processors": os.cpu_count(), "python": platform.python_version(), "system": platform.system()},
        }

    def finish(self, out: Path | None) -> int:
        """Print the summary, write it if a file is named, and return the exit code: 1 after a failure."""
        found = self.summary()
        print(json.dumps(found, indent=1))
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return 1 if self.failures else 0


def _without_places(text: str) -> str:
    """Return a text whose paths do not tell where this machine keeps the project, Python and temporary files."""
    for place in (Path(__file__).resolve().parents[1], tempfile.gettempdir(), sys.base_prefix):
        text = text.replace(f"{place}/", "")
    return text


def parser(text: str, size: int) -> argparse.ArgumentParser:
    """Return the options that every campaign has."""
    found = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--seed", type=int, default=0, help="fixes the random choices (default %(default)s)")
    found.add_argument("--size", type=int, default=size, help="number of cases (default %(default)s)")
    found.add_argument("--at-most", type=float, metavar="MINUTES", help="end after so many minutes, with fewer cases")
    found.add_argument("--log", type=Path, help="file that gets a line of JSON for each failure")
    found.add_argument("--out", type=Path, help="file of the summary, in results/hardening")
    return found


@contextmanager
def limited(processor: float = HANG, clock: float = ASLEEP) -> Iterator[None]:
    """Raise HangError in the block after so many processor seconds, or so many seconds on the clock."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise HangError(f"more than {processor if number == signal.SIGPROF else clock:g} s")

    before = {number: signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, processor)
    signal.setitimer(signal.ITIMER_REAL, clock)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def one_line(error: LaminaError) -> str | None:
    """Return what is wrong with the message of an error, or None if it is one line with a place and a fix."""
    text = str(error)
    if len(text.splitlines()) != 1:
        return f"not one line: {text[:300]!r}"
    if text.count("Fix: ") != 1:
        return f"{text.count('Fix: ')} fixes: {text[:300]!r}"
    return None if len(text) < 2000 else f"{len(text)} characters: {text[:100]!r}"


# ---- commands in processes that share the imports of this one


@dataclass(frozen=True)
class Ended:
    """How a command ended: the exit code, or the negative number of a signal, and its output."""

    code: int
    out: str
    err: str


class Command:
    """A command of Lamina in a fork of this process, so that it need not import everything again.

    It leads a session of its own, by which `survivors` finds the processes that it leaves behind.

    Args:
        words: The command without the program's name.
        folder: A folder of this command for its output; it is made.
        variables: The environment variables to set; None as a value removes one.
        before: Called in the new process before the command.
        cwd: The working folder.
    """

    def __init__(
        self,
        words: Sequence[object],
        folder: Path,
        variables: Mapping[str, str | None] | None = None,
        before: Callable[[], None] = lambda: None,
        cwd: Path | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._out, self._err = folder / "stdout", folder / "stderr"
        self._code: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._run([str(word) for word in words], variables or {}, before, cwd)

    def _run(self, words: list[str], variables: Mapping[str, str | None], before: Callable[[], None], cwd: Path | None) -> None:
        """Run the command in the new process, and end it."""
        code = 70
        try:
            os.setsid()
            _die_with_parent()
            for descriptor, path in ((1, self._out), (2, self._err)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), descriptor)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))  # noqa: SIM115
            for name, value in variables.items():
                os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
            if cwd is not None:
                os.chdir(cwd)
            for number in (signal.SIGPROF, signal.SIGALRM, signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            sys.argv = ["lamina", *words]
            before()
            from lamina import cli

            cli.main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        except BaseException:
            import traceback

            code = 1
            with suppress(BaseException):
                traceback.print_exc()
        finally:
            with suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def running(self) -> bool:
        """Return whether the command runs."""
        if self._code is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code is None

    def wait(self, seconds: float) -> Ended:
        """Return how the command ended. After so many seconds on the clock, kill it and raise HangError."""
        until = time.monotonic() + seconds
        while self.running():
            if time.monotonic() > until:
                self.kill()
                raise HangError(f"more than {seconds:g} s on the clock: {self.ended().err[-300:]!r}")
            time.sleep(0.01)
        return self.ended()

    def kill(self) -> None:
        """End the command as `kill -9` does."""
        if self.running():
            os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
            self._code = os.waitstatus_to_exitcode(status)

    def ended(self) -> Ended:
        """Return how the command ended."""
        assert self._code is not None
        out, err = (path.read_bytes().decode(errors="replace") if path.exists() else "" for path in (self._out, self._err))
        return Ended(self._code, out, err)

    def survivors(self, seconds: float = 30) -> list[str]:
        """Return the processes of the command's session that still run after so many seconds, and kill them."""
        until = time.monotonic() + seconds
        while (found := list(_session(self.pid))) and time.monotonic() < until:
            time.sleep(0.05)
        for number, _ in found:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        return [f"{number}: {line}" for number, line in found]


def _die_with_parent() -> None:
    """Let the system end this process when its parent ends, so that a stopped campaign leaves nothing behind."""
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _session(leader: int) -> Iterator[tuple[int, str]]:
    """Yield the number and the command line of each process in a session, without zombies."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(session) == leader and state not in "ZX":
                    words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    yield int(folder.name), words[:200]


def bad_end(ended: Ended) -> str | None:
    """Return what is wrong with how a command ended; None if it worked, or ended with one clear line."""
    if "Traceback (most recent call last)" in ended.err:
        return f"traceback: {ended.err[-1500:]}"
    if ended.code == 0:
        return None
    lines = ended.err.splitlines()
    if ended.code != 2:
        return f"exit code {ended.code}: {ended.err[-500:]}"
    if not lines or not lines[-1].startswith("lamina: ") or lines[-1].count("Fix: ") != 1:
        return f"no clear line: {ended.err[-500:]}"
    return None


def preload() -> None:
    """Import what the commands need, so that their processes start at once. No threads may start here."""
    import importlib
    import pkgutil

    import torch

    import lamina

    torch.set_num_threads(1)
    for module in pkgutil.walk_packages(lamina.__path__, "lamina."):
        if not module.name.endswith("__main__") and ".serving" not in module.name:
            with suppress(ImportError):
                importlib.import_module(module.name)
