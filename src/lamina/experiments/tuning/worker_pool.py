"""Start the workers of a search, exchange messages with them and stop them. The main process uses it."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypedDict

from lamina.config.recipe import Recipe
from lamina.utils.files import make_folder

PATIENCE = 60.0  # seconds that a worker has to save its state


class TrialReport(TypedDict, total=False):
    """A worker's report: `share`, `score` after an evaluation; at the end `score`, `minutes` or `problem`, `trained`."""

    share: float  # of the steps done
    score: float
    minutes: float
    problem: str
    trained: bool  # whether a step was done before the problem


class Message(NamedTuple):
    """A message from the worker of a trial. Without a report, its process has ended."""

    number: int
    report: TrialReport | None


class _Worker(NamedTuple):
    process: subprocess.Popen[str]
    listener: threading.Thread


class WorkerPool:
    """``with WorkerPool(folder, 2) as pool``: processes that train trials in ``folder/trials``. They end with the block."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        self._size = size
        self._workers: dict[int, _Worker] = {}
        self._messages: queue.Queue[Message] = queue.Queue()

    def __enter__(self) -> WorkerPool:
        make_folder(self._folder / "trials")
        make_folder(self._folder / "logs")
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        """Ask the running workers to save their state and stop."""
        for number, worker in self._workers.items():
            worker.process.send_signal(signal.SIGINT)
            self.reply(number, False)  # it may be waiting for a reply
        try:
            for worker in self._workers.values():
                with suppress(subprocess.TimeoutExpired):
                    worker.process.wait(PATIENCE)
        finally:
            for number, worker in list(self._workers.items()):
                worker.process.kill()
                self.close(number)

    @property
    def busy(self) -> bool:
        return bool(self._workers)

    @property
    def full(self) -> bool:
        return len(self._workers) >= self._size

    def run_folder(self, number: int) -> Path:
        return self._folder / "trials" / f"{number:03d}"

    def log(self, number: int) -> Path:
        return self._folder / "logs" / f"{number:03d}.log"

    def start(self, number: int, recipe: Recipe) -> None:
        threads = str(max(1, (os.cpu_count() or 1) // self._size))  # all workers together use every core once
        with self.log(number).open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "lamina.experiments.tuning.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={"OMP_NUM_THREADS": threads} | os.environ,
                process_group=0,  # only the main process gets Ctrl-C
            )
        self._workers[number] = _Worker(process, threading.Thread(target=self._listen, args=(number, process), daemon=True))
        self._workers[number].listener.start()
        self.reply(number, {"run": str(self.run_folder(number)), "recipe": recipe.model_dump(mode="json")})

    def reply(self, number: int, value: object) -> None:
        pipe = self._workers[number].process.stdin
        assert pipe is not None
        with suppress(BrokenPipeError):  # the worker has ended: its last message reports that
            pipe.write(json.dumps(value) + "\n")
            pipe.flush()

    def next_message(self) -> Message:
        """Wait for the next message and return it."""
        return self._messages.get()

    def close(self, number: int) -> int:
        """Wait for a worker that has closed its pipe or was killed, and return its exit code."""
        process, listener = self._workers.pop(number)
        listener.join()
        code = process.wait()
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        return code

    def _listen(self, number: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self._messages.put(Message(number, json.loads(line)))
        self._messages.put(Message(number, None))
