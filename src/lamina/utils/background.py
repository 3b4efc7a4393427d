"""A function call in another process, while this one goes on.

The process is started without `multiprocessing`, whose processes import the running program: a plain script that trains would
start to train again in each of them.
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

_MODULE = "lamina.utils.background"
_NICE = 10  # training comes first


class BackgroundCall(Generic[T]):
    """The result of `call`, which must be picklable. The process ends with its work, with this object or with the program,
    whichever is first."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._results: list[bytes] = []
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a failure there is repeated and raised here
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C goes to the leading process only
        )
        arguments = self._process, pickle.dumps(call), self._results  # not this object, which could not end otherwise
        self._thread = threading.Thread(target=_communicate, args=arguments, daemon=True)
        self._thread.start()
        weakref.finalize(self, self._process.kill)

    def result(self) -> T:
        """Waits for the result. Where the process died, the function is called here."""
        self._thread.join()
        return cast(T, pickle.loads(self._results[0])) if self._results else self._call()


def _communicate(process: subprocess.Popen[bytes], call: bytes, results: list[bytes]) -> None:
    output, _ = process.communicate(call)
    if process.returncode == 0:
        results.append(output)


def _serve() -> None:
    """What the process does: reads a pickled function, writes its pickled result."""
    if hasattr(os, "nice"):  # not on Windows
        os.nice(_NICE)
    warnings.simplefilter("ignore")
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # nothing else may be printed there
    call: Callable[[], Any] = pickle.load(sys.stdin.buffer)
    pickle.dump(call(), out)
    out.flush()


if __name__ == "__main__":
    _serve()
