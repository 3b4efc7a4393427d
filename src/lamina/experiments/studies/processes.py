"""Start the processes of a study, exchange messages with them and stop them. The main process uses it."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from lamina.utils.files import make_folder

PATIENCE = 60.0  # seconds that a run has to save its state
Message = dict[str, Any]


class Starter(Protocol):
    """Runs jobs by their keys, and passes on their messages. They end with its ``with`` block."""

    @property
    def size(self) -> int:
        """The most jobs to start at once."""
        ...

    @property
    def running(self) -> set[str]:
        """The keys of the jobs that were started and have not ended."""
        ...

    def log(self, key: str) -> Path: ...
    def start(self, key: str, job: object) -> None: ...
    def stop(self) -> None: ...
    def next_message(self, seconds: float) -> Message | None: ...


class Processes:
    """``with Processes(logs, 2) as processes``: at most two jobs at once, each in its own process. They end with the block."""

    def __init__(self, logs: Path, size: int) -> None:
        self._logs, self.size = logs, size
        cores = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
        self._threads = max(1, cores // size)
        self.running: set[str] = set()
        self._asked: set[str] = set()  # to stop
        self._messages: queue.Queue[Message | None] = queue.Queue()
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Processes:
        make_folder(self._logs)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        """Ask the running jobs to save their state and stop."""
        if self._server is None:
            return
        self.stop()
        until = time.monotonic() + PATIENCE
        with suppress(OSError):
            while self.running and time.monotonic() < until:
                self.next_message(1.0)
        assert self._server.stdin is not None
        with suppress(OSError):
            self._server.stdin.close()  # the server ends what is left
        self._server.wait()

    def log(self, key: str) -> Path:
        """Return the file with the output of a job."""
        return self._logs / f"{key}.log"

    def start(self, key: str, job: object) -> None:
        """Start a job in a process of its own."""
        if self._server is None:
            self._server = self._serve()
        self.running.add(key)
        self._asked.discard(key)
        self._send(key=key, log=str(self.log(key).resolve()), threads=self._threads, job=job)

    def stop(self) -> None:
        """Ask all running jobs to save their state and end. Each is asked once: a second time would end it at once."""
        for key in self.running - self._asked:
            self._asked.add(key)
            with suppress(OSError):
                self._send(stop=key)

    def next_message(self, seconds: float) -> Message | None:
        """Return the next message of a job, or None if there is none within that time."""
        try:
            message = self._messages.get(timeout=seconds)
        except queue.Empty:
            return None
        if message is None:  # the server has ended, for example because the system killed it
            raise OSError("the process that starts the runs has ended")
        if "ended" in message:
            self.running.discard(message["key"])
        return message

    def _serve(self) -> subprocess.Popen[bytes]:
        with (self._logs / "server.log").open("ab") as log:
            server = subprocess.Popen(
                [sys.executable, "-P", "-m", "lamina.experiments.studies.process_server"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                process_group=0,  # only the main process gets Ctrl-C
            )
        threading.Thread(target=self._listen, args=(server,), daemon=True).start()
        return server

    def _send(self, **message: object) -> None:
        assert self._server is not None and self._server.stdin is not None
        self._server.stdin.write((json.dumps(message) + "\n").encode())
        self._server.stdin.flush()

    def _listen(self, server: subprocess.Popen[bytes]) -> None:
        assert server.stdout is not None
        with server.stdout as lines:
            for line in lines:
                self._messages.put(json.loads(line))
        self._messages.put(None)
