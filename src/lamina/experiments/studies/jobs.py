"""Run one job of a study in this process, and report its progress and its result."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch

from lamina.config.parse import parse_recipe
from lamina.errors import LaminaError
from lamina.experiments.ensemble import ensemble
from lamina.experiments.studies.inference_time import inference_seconds, mean_layer_weights
from lamina.training.trainer import train
from lamina.utils.files import make_folder
from lamina.utils.locks import Lock
from lamina.utils.run_folder import Run

EVERY = 0.5  # seconds between two reports of progress
LONGEST = 1500  # characters of a reason: a message must fit into a pipe's buffer


class Report(Protocol):
    """Sends a message to the main process."""

    def __call__(self, **values: object) -> None: ...


class Reported:
    """Progress that is sent to the main process; lines go to the log."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._label, self._total, self._done = "", 1, 0
        self._last = 0.0

    def start(self, label: str, total: int, done: int = 0) -> None:
        self._label, self._total, self._done = label, total, done
        self._last = 0.0
        self.advance(0)

    def advance(self, amount: int, note: str = "") -> None:
        self._done += amount
        if time.monotonic() - self._last >= EVERY:
            self._last = time.monotonic()
            self._report(stage=self._label[:60], share=self._done / max(1, self._total))

    def say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


def run_job(job: Mapping[str, Any], threads: int, report: Report) -> int:
    """Run a job and report ``done`` or ``failed`` with the reason. Return the exit code of its process."""
    torch.set_num_threads(threads)
    begun = time.monotonic()
    try:
        found = _KINDS[job["kind"]](job, Reported(report))
        report(done=True, seconds=time.monotonic() - begun, **found)
    except KeyboardInterrupt:  # the loop has saved its state
        return 130
    except LaminaError as error:
        report(failed=str(error)[:LONGEST])
        return 2
    except BaseException as error:
        traceback.print_exc()
        report(failed=f"{type(error).__name__}: {str(error)[:LONGEST]}")
        return 1
    return 0


def _train(job: Mapping[str, Any], progress: Reported) -> dict[str, object]:
    run = Run(Path(job["path"]))
    make_folder(run.path.parent)
    file = run.path.with_name(f".{run.path.name}.lock")
    lock = Lock(file)  # a process of a killed study may still be running
    try:
        train(parse_recipe(job["recipe"], name=str(run.recipe)), run.path, resume=True, progress=progress)
    finally:
        file.unlink(missing_ok=True)
        lock.close()
    return {}


def _ensemble(job: Mapping[str, Any], progress: Reported) -> dict[str, object]:
    out = Path(job["path"])
    shutil.rmtree(out, ignore_errors=True)  # of a killed process
    make_folder(out.parent)
    draft = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(draft, ignore_errors=True)
    ensemble([Path(member) for member in job["members"]], draft, progress=progress)
    draft.rename(out)
    return {}


def _step(job: Mapping[str, Any], progress: Reported) -> dict[str, object]:
    out, words = Path(job["path"]), [os.path.expandvars(word) for word in job["command"]]
    make_folder(out.parent)
    resumes = words[0] == "pretrain"  # it continues in its own folder; other commands write a draft
    draft = out if resumes else out.with_name(f"draft-{out.name}")
    if draft.is_file():
        draft.unlink()  # of a killed process
    command = _command(words, draft, resume=resumes and out.exists())
    progress.say(" ".join(command))
    code, errors = _called(command)
    print(errors, file=sys.stderr, flush=True)
    if code:
        lines = [line for line in errors.splitlines() if line.startswith("lamina: ")]
        last = lines[-1].removeprefix("lamina: ") if lines else f"ended with code {code}"
        raise LaminaError(f"{words[0]}: {last}")
    if draft != out:
        draft.rename(out)
    return {}


def _called(command: list[str]) -> tuple[int, str]:
    """Run a command, and return its exit code and errors. An interrupt is passed on to it, so that it saves its state."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            errors = process.communicate()[1]
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            print(process.communicate()[1], file=sys.stderr, flush=True)
            raise
    return process.returncode, errors


def _command(words: list[str], out: Path, *, resume: bool) -> list[str]:
    """Return the words that start a step: a command of Lamina, or a script of the checkout after "python"."""
    written = [word.replace("{out}", str(out)) for word in words]
    written = written if written != words else [*words, "--out", str(out)]
    if words[0] == "python":
        return [sys.executable, *written[1:]]
    return [sys.executable, "-P", "-m", "lamina", *written, *(["--resume"] if resume else [])]


def _time(job: Mapping[str, Any], progress: Reported) -> dict[str, object]:
    path, examples = Path(job["path"]), job["examples"]
    times = inference_seconds(path, examples=examples, repeats=job["repeats"])
    return {"times": times, "layers": mean_layer_weights(path, examples=examples)}


_KINDS: Mapping[str, Callable[[Mapping[str, Any], Reported], dict[str, object]]] = {
    "train": _train,
    "ensemble": _ensemble,
    "step": _step,
    "time": _time,
}
