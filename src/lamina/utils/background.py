"""Something that is made in a process of its own while this one goes on.

The process is started by hand: those of `multiprocessing` import the program that runs, and a plain script that trains
would begin to train once more in each of them.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")

_HERE = "lamina.utils.background"
_NICE = 10  # what is needed later waits for what trains now


class Ahead(Generic[T]):
    """What `make` returns, which must be a function that can be pickled. The process ends with its work, with this object or
    with the program, whichever is first."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._answer: list[bytes] = []
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _HERE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what goes wrong there goes wrong here once more, and is told here
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is for the leading process to hear
        )
        arguments = self._process, pickle.dumps(make), self._answer  # not this object, which could not end otherwise
        self._thread = threading.Thread(target=_talk, args=arguments, daemon=True)
        self._thread.start()
        weakref.finalize(self, self._process.kill)

    def result(self) -> T:
        """Waits for it. Where the process died, it is made here."""
        self._thread.join()
        return cast(T, pickle.loads(self._answer[0])) if self._answer else self._make()


def _talk(process: subprocess.Popen[bytes], question: bytes, answer: list[bytes]) -> None:
    said, _ = process.communicate(question)
    if process.returncode == 0:
        answer.append(said)


def _serve() -> None:
    """What the process does: a pickled function comes in, its pickled result goes out."""
    os.nice(_NICE)
    warnings.simplefilter("ignore")
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # nothing else may be said there
    make: Callable[[], Any] = pickle.load(sys.stdin.buffer)
    pickle.dump(make(), out)
    out.flush()


if __name__ == "__main__":
    _serve()
