"""Train in several processes that belong together, without `torchrun`: `python -m tests.together FOLDER` is one of them.

``FOLDER/jobs.json`` has the trainings, which all processes do one after the other. Each writes what happened in its own file.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lamina.config.parse import parse_recipe
from lamina.errors import LaminaError
from lamina.model.weights import copy_weights
from lamina.training import trainer
from lamina.training.checkpoint import State
from lamina.training.loop import Optimisation, fit
from lamina.training.processes import joined

PATIENCE = 900  # seconds
Job = dict[str, Any]  # its recipe, the run folder, and: `resume`, `stop` after a step


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("localhost", 0))
        port: int = server.getsockname()[1]
        return port


def trained_together(folder: Path, jobs: Mapping[str, Job], size: int = 2) -> dict[str, list[str]]:
    """Train the jobs in `size` processes. Return what each process reports of each job: an error, or a checksum of weights."""
    (folder / "jobs.json").write_text(json.dumps(jobs))
    variables = {"WORLD_SIZE": str(size), "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.together", str(folder)],
            env=os.environ | variables | {"RANK": str(number)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(size)
    ]
    errors = [process.communicate(timeout=PATIENCE)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * size, "\n".join(errors)
    return {name: [(folder / f"{name}-{number}.txt").read_text() for number in range(size)] for name in jobs}


def _train(job: Job, out: Path) -> str:
    """Train, and return a checksum of the weights after the last step."""
    sums: list[str] = []

    def fitted(optimisation: Optimisation, *more: Any) -> State:
        state = fit(optimisation, *more)
        values = copy_weights(optimisation.model)
        sums.append(hashlib.sha256(b"".join(values[name].numpy().tobytes() for name in sorted(values))).hexdigest())
        return state

    def watched(entry: dict[str, Any]) -> None:
        if entry["step"] == job.get("stop"):
            os.kill(os.getpid(), signal.SIGTERM)

    with patch.object(trainer, "fit", fitted):
        trainer.train(parse_recipe(job["recipe"]), out, resume=job.get("resume", False), on_metrics=watched)
    return sums[0]


def main(folder: Path) -> None:
    with joined() as group:
        for name, job in json.loads((folder / "jobs.json").read_text()).items():
            try:
                report = _train(job, folder / job["out"])
            except KeyboardInterrupt as stop:
                report = repr(stop)
            except LaminaError as error:
                report = str(error)
            (folder / f"{name}-{group.number}.txt").write_text(report)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
