"""Run jobs in processes of their own, which start fast: a server imports torch once, and forks a process for each job.

``python -m lamina.experiments.studies.process_server`` reads messages, one JSON object a line, from standard input:
``{"key", "log", "threads", "job"}`` starts a job, ``{"stop": key}`` asks a job to save its state and end. It writes messages
to standard output: those of the jobs (`jobs.py`), and ``{"key", "ended": code}`` when the process of a job has ended.

The server itself never computes, so that no thread exists when it forks. If standard input ends, because the main process
ended or was killed, the server ends all jobs. If the server is killed, each job notices that and ends. A job is a group of
processes, so those that it started end with it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch._dynamo  # noqa: F401 - every optimiser imports it, which takes longer than a small run

from lamina.experiments.studies.jobs import run_job

PAUSE = 0.05  # seconds between two looks at the processes


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    alive, guard = os.pipe()  # only the server holds `guard`, so `alive` ends with the server
    running: dict[int, str] = {}  # keys of jobs by process
    received = b""
    while True:
        ready, _, _ = select.select([0], [], [], PAUSE)
        if ready:
            piece = os.read(0, 1 << 16)
            if not piece:
                for process in running:
                    with suppress(ProcessLookupError):  # a job that has just been forked has no group yet; it notices the end
                        os.killpg(process, signal.SIGKILL)
                os._exit(0)
            *lines, received = (received + piece).split(b"\n")
            for line in lines:
                _obey(json.loads(line), running, alive, guard)
        _bury(running)


def _obey(message: dict[str, Any], running: dict[int, str], alive: int, guard: int) -> None:
    """Start a job or ask one to stop."""
    if "stop" in message:
        for process, key in running.items():
            if key == message["stop"]:
                os.kill(process, signal.SIGINT)
        return
    process = os.fork()
    if process:
        running[process] = message["key"]
        return
    code = 1
    try:
        os.close(guard)
        code = _child(message, alive)
    finally:
        os._exit(code)  # the normal end of an interpreter with torch takes longer than some runs


def _bury(running: dict[int, str]) -> None:
    """Report the processes that have ended."""
    for process in list(running):
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            _send(1, key=running.pop(process), ended=os.waitstatus_to_exitcode(status))


def _child(message: dict[str, Any], alive: int) -> int:
    """Run a job in this process, with its output in a log. Return the exit code."""
    os.setpgid(0, 0)  # so that the processes that it starts end with it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    out = os.dup(1)
    Path(message["log"]).parent.mkdir(parents=True, exist_ok=True)
    with Path(message["log"]).open("ab") as log, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    threading.Thread(target=_end_with_server, args=(alive,), daemon=True).start()

    def report(**values: object) -> None:
        _send(out, key=message["key"], **values)

    code = run_job(message["job"], int(message["threads"]), report)
    sys.stderr.flush()
    return code


def _end_with_server(alive: int) -> None:
    os.read(alive, 1)  # nothing is ever written: this returns when the server has ended
    os.killpg(os.getpid(), signal.SIGKILL)


def _send(out: int, **values: object) -> None:
    """Write a message in one piece: lines shorter than a pipe's buffer never mix."""
    os.write(out, (json.dumps(values) + "\n").encode())


if __name__ == "__main__":
    main()
