"""Call a function in another process while this one continues.

This module does not use `multiprocessing`, because its processes import the running program. A script without a main guard
would start training again in each of them.
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
_NICE = 10  # training has priority


class BackgroundCall(Generic[T]):
    """A call of `call` in another process. `call` and its result must be picklable.

    The process ends when the call returns, when this object is deleted or when the program ends.
    """

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._results: list[bytes] = []
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # after a failure, `result` repeats the call and raises here
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            process_group=0,  # Ctrl-C stops the main process only; a new session would lose its low priority
        )
        arguments = self._process, pickle.dumps(call), self._results  # a reference to this object would keep it alive
        self._thread = threading.Thread(target=_communicate, args=arguments, daemon=True)
        self._thread.start()
        weakref.finalize(self, self._process.kill)

    def result(self) -> T:
        """Wait for the result and return it. If the process failed, call the function in this process."""
        self._thread.join()
        return cast(T, pickle.loads(self._results[0])) if self._results else self._call()


def _communicate(process: subprocess.Popen[bytes], call: bytes, results: list[bytes]) -> None:
    output, _ = process.communicate(call)
    if process.returncode == 0:
        results.append(output)


def _serve() -> None:
    """Read a pickled function from standard input, call it, and write its pickled result to standard output."""
    if hasattr(os, "nice"):  # not on Windows
        os.nice(_NICE)
    warnings.simplefilter("ignore")
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # output of the call must not mix with the result
    call: Callable[[], Any] = pickle.load(sys.stdin.buffer)
    pickle.dump(call(), out)
    out.flush()


if __name__ == "__main__":
    _serve()
