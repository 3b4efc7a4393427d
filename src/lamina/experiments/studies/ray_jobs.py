"""Run the jobs of a study as tasks of a Ray cluster. The main process uses it as it uses `Processes`.

The folder of the study, its data and its models must be on a disk that all nodes share, under one path. Results are the files
of the run folders: only the end of a job goes through Ray. A job whose worker or node was lost is begun again on another
node, and a training continues at its last checkpoint. Stores of hidden states are in the cache folder of each node.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from lamina.errors import LaminaError
from lamina.experiments.studies.processes import PATIENCE, Message
from lamina.utils.files import make_folder, write_atomically
from lamina.utils.spreading import TRIES, connected

_OURS = ("LAMINA_", "HF_", "OMP_")  # environment variables of this process that a job gets


@dataclass(frozen=True)
class OnRay:
    """A cluster, and what each job takes of it.

    Attributes:
        address: As for `lamina.utils.spreading.Workers`.
        processors: The processors of each job.
        gigabytes: The memory that Ray reserves for each job; None reserves none.
    """

    address: str | None = None
    processors: int = 1
    gigabytes: float | None = None

    def jobs(self, logs: Path) -> RayJobs:
        return RayJobs(logs, self)


class RayJobs:
    """``with RayJobs(logs, where) as jobs``: as many jobs at once as the cluster has room for. They end with the block."""

    size = sys.maxsize  # Ray decides which of the started jobs run

    def __init__(self, logs: Path, where: OnRay) -> None:
        self._logs, self._where = logs, where
        self.running: set[str] = set()
        self._tasks: dict[Any, str] = {}  # keys by the reference of a task
        self._asked: set[str] = set()  # to stop
        self._messages: deque[Message] = deque()
        self._seen: dict[str, str] = {}  # the last progress by key
        self._stack = ExitStack()

    def __enter__(self) -> RayJobs:
        make_folder(self._logs)
        self._ray = self._stack.enter_context(connected(self._where.address))
        gigabytes = self._where.gigabytes
        memory = {} if gigabytes is None else {"memory": gigabytes * 1e9}
        options = {"num_cpus": self._where.processors, "max_retries": TRIES - 1, "max_calls": 1, **memory}
        self._call = self._ray.remote(**options)(_run)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        """Ask the running jobs to save their state and stop."""
        self.stop()
        until = time.monotonic() + PATIENCE
        while self.running and time.monotonic() < until:
            self.next_message(1.0)
        self._stack.close()

    def log(self, key: str) -> Path:
        """Return the file with the output of a job."""
        return self._logs / f"{key}.log"

    def start(self, key: str, job: object) -> None:
        """Queue a job as a task of the cluster."""
        make_folder(self.log(key).parent)  # a key may have folders
        environment = {name: value for name, value in os.environ.items() if name.startswith(_OURS)}
        task = self._call.remote(job, self._where.processors, str(self.log(key).resolve()), str(Path.cwd()), environment)
        self._tasks[task] = key
        self.running.add(key)
        self._asked.discard(key)

    def stop(self) -> None:
        """Ask all jobs to save their state and end. Each is asked once: a second time would end it at once."""
        for task, key in self._tasks.items():
            if key not in self._asked:
                self._asked.add(key)
                self._ray.cancel(task)  # interrupts a training as Ctrl-C does

    def next_message(self, seconds: float) -> Message | None:
        """Return the next message of a job, or None if there is none within that time."""
        if not self._messages:
            self._messages.extend(self._news())
            ended = self._ray.wait(list(self._tasks), timeout=seconds)[0] if self._tasks else []
            for task in ended:
                self._messages.extend({"key": self._tasks[task], **message} for message in self._result(task))
                del self._tasks[task]
        if not self._messages:
            return None
        message = self._messages.popleft()
        if "ended" in message:
            self.running.discard(message["key"])
        return message

    def _result(self, task: Any) -> list[Message]:
        """Return the messages of a task that has ended."""
        errors = self._ray.exceptions
        try:
            found: list[Message] = self._ray.get(task)
            return found
        except (errors.TaskCancelledError, KeyboardInterrupt):
            return [{"ended": 130}]
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError) as error:
            reason = f"its worker was lost {TRIES} times ({str(error).splitlines()[0][:200]}). Fix: give it more --memory"
            return [{"failed": reason}, {"ended": 1}]
        except errors.RayTaskError as error:
            return [{"failed": str(error.cause)}, {"ended": 1}]

    def _news(self) -> list[Message]:
        """Return the progress of jobs, from the files that they write beside their logs."""
        found = []
        for key in self.running:
            with suppress(OSError, ValueError):
                text = _progress(self.log(key)).read_text(encoding="utf-8")
                if self._seen.get(key) != text:
                    self._seen[key] = text
                    found.append({"key": key, **json.loads(text)})
        return found


def _progress(log: Path) -> Path:
    return log.with_suffix(".progress")


def _run(job: Mapping[str, Any], threads: int, log: str, folder: str, environment: Mapping[str, str]) -> list[Message]:
    """Run a job in a worker of Ray, which runs no other job. Return its last messages."""
    from lamina.experiments.studies.jobs import run_job

    os.environ.update(environment)
    if not Path(folder).is_dir() or not Path(log).parent.is_dir():
        missing = folder if not Path(folder).is_dir() else str(Path(log).parent)
        raise LaminaError(f"{missing}: not on node {os.uname().nodename}. Fix: use a disk that all nodes share")
    os.chdir(folder)
    with Path(log).open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    last: list[Message] = []

    def report(**values: object) -> None:
        if "stage" in values:
            write_atomically(_progress(Path(log)), json.dumps(values).encode())
        else:
            last.append(values)

    code = run_job(job, threads, report)
    _progress(Path(log)).unlink(missing_ok=True)
    return [*last, {"ended": code}]
