"""The process that fits a model to corrections. It prints its progress and its result as lines of JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import warnings
from typing import Final

from lamina.errors import LaminaError

_NICE: Final = 10  # answers have priority
_EVERY: Final = 0.2  # seconds between lines of the same stage
_OUT: Final = sys.stdout


def tell(kind: str, **values: object) -> None:
    """Print one event."""
    print(json.dumps({"kind": kind, **values}), file=_OUT, flush=True)


class Told:
    """Progress that prints events."""

    def __init__(self) -> None:
        self._done = 0
        self._last = 0.0

    def start(self, label: str, total: int, done: int = 0) -> None:
        self._done = done
        tell("stage", label=label, total=total, done=done)

    def advance(self, amount: int, note: str = "") -> None:
        self._done += amount
        if time.monotonic() - self._last >= _EVERY:
            self._last = time.monotonic()
            tell("advance", done=self._done)

    def say(self, line: str) -> None:
        tell("say", line=line)


def main(data: str, source: str, out: str, minutes: str) -> None:
    """Fit, and print the result or the error."""
    from lamina.fitting.fit import fit

    try:
        fitted = fit(data, out, start=source, minutes=float(minutes), progress=Told())
        tell("done", result=fitted.to_json())
    except LaminaError as error:
        tell("failed", message=str(error))


def _end_with_the_service() -> None:
    """End this process as Ctrl-C does when standard input ends: the service has gone."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    sys.stdout = sys.stderr  # other output must not mix with the events
    warnings.simplefilter("ignore")
    if hasattr(os, "nice"):  # not on Windows
        os.nice(_NICE)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `fit` then removes its folder
    threading.Thread(target=_end_with_the_service, daemon=True).start()
    main(*sys.argv[1:])
