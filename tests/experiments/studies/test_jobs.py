"""A step is a process of its own: it can save its state when it is stopped, and it ends with the study."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from lamina.experiments.studies.processes import Processes

WAIT = 120.0
SCRIPT = """
import os, pathlib, sys, time
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
try:
    time.sleep(600)
except KeyboardInterrupt:
    time.sleep(1)  # longer than subprocess.run waits
    pathlib.Path(sys.argv[2]).write_text("saved")
    sys.exit(130)
"""


def start(jobs: Processes, folder: Path) -> int:
    """Start a step and return its process, once it runs."""
    script, marker = folder / "step.py", folder / "marker"
    script.write_text(SCRIPT)
    words = ["python", str(script), str(marker), "{out}"]
    jobs.start("step", {"kind": "step", "path": str(folder / "out"), "command": words})
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        with suppress(OSError, ValueError):
            return int(marker.read_text())
        time.sleep(0.01)
    raise AssertionError((folder / "logs" / "step.log").read_text())


def test_a_stopped_step_saves_its_state(tmp_path: Path) -> None:
    with Processes(tmp_path / "logs", 1) as jobs:
        start(jobs, tmp_path)
        jobs.stop()
        until, messages = time.monotonic() + WAIT, []
        while jobs.running and time.monotonic() < until:
            messages.append(jobs.next_message(1.0))
    assert {"key": "step", "ended": 130} in messages
    assert (tmp_path / "draft-out").read_text() == "saved"


@pytest.mark.parametrize("killed", ["study", "server"])
def test_a_step_ends_with_the_study(tmp_path: Path, killed: str) -> None:
    jobs = Processes(tmp_path / "logs", 1)
    with jobs, suppress(OSError):  # the end of the server is noticed
        process = start(jobs, tmp_path)
        assert jobs._server is not None and jobs._server.stdin is not None
        if killed == "study":
            jobs._server.stdin.close()  # as the system does when the main process is killed
        else:
            jobs._server.kill()
        until = time.monotonic() + WAIT
        while running(process) and time.monotonic() < until:
            time.sleep(0.05)
        assert not running(process)
        jobs.running.clear()


def running(process: int) -> bool:
    """Return whether a process is there, and not only its exit code."""
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
