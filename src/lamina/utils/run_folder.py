"""The run folder: a training that describes itself. This module knows files, not models."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lamina.errors import LaminaError
from lamina.utils.files import read_json

FORMAT = 2  # of run.json; format 1 is read too
_FITTED = ("threshold", "calibration", "question_threshold")  # fields of a decision in format 1
_KINDS = {"span": "spans", "answerability": "answerability"}  # by objective in format 1; all others are sentences


class Run:
    """The paths of a run folder.

    ``run.json``            format, versions, seed, base encoder and its sha256, the decision of each task (`tasks`), best score
                            on the held-out split, costs
    ``recipe.json``         the whole recipe, defaults included; `lamina train` accepts it
    ``encoder.json``        the encoder's shape
    ``tokenizer.json``      the tokenizer
    ``model.safetensors``   trained parameters and buffers
    ``metrics.jsonl``       one line a step and one an evaluation; holds no times, so equal runs have equal files
    ``scores.json``         scores on the dev set at threshold 0, the tuned and the best
    ``predictions.json``, ``null_odds.json``, ``nbest.json``, ``outputs.safetensors``  what the dev set's scores were made from
    ``questions.json``      where a question has several contexts: its answer over all of them, by the question's id
    ``windows.safetensors`` which tokens the outputs are of: with them the dev set is decoded again without a model
    ``tasks/NAME/``         of several tasks: predictions.json and the like of each; scores.json is of all
    ``curves.png``          with train.curves: scores of the training part and the dev set after each epoch
    ``checkpoints/0.3``     with train.checkpoints: the model after 0.3 epochs, a run of its own
    ``checkpoint.pt``       only while training: everything that `--resume` needs
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipe = path / "recipe.json"
        self.info = path / "run.json"
        self.encoder = path / "encoder.json"
        self.tokenizer = path / "tokenizer.json"
        self.model = path / "model.safetensors"
        self.metrics = path / "metrics.jsonl"
        self.scores = path / "scores.json"
        self.predictions = path / "predictions.json"
        self.null_odds = path / "null_odds.json"
        self.nbest = path / "nbest.json"
        self.questions = path / "questions.json"
        self.outputs = path / "outputs.safetensors"
        self.windows = path / "windows.safetensors"
        self.curves = path / "curves.png"
        self.checkpoint = path / "checkpoint.pt"

    def task(self, name: str) -> Run:
        """Of several tasks, where what was said of this one's dev set is."""
        return Run(self.path / "tasks" / name)

    @property
    def exists(self) -> bool:
        return self.info.is_file()

    @property
    def finished(self) -> bool:
        return self.exists and read_json(self.info).get("finished") is True

    def read_info(self) -> dict[str, Any]:
        """What run.json says, in the present format."""
        info: dict[str, Any] = read_json(self.info)
        return _upgraded(info, read_json(self.recipe)) if info.get("format") == 1 else info

    @classmethod
    def open(cls, path: Path) -> Run:
        """A finished run."""
        run = cls(path)
        if not run.exists:
            raise LaminaError(f"{path}: not a run folder (it has no run.json); `lamina train` writes one")
        if not run.finished:
            raise LaminaError(
                f"{path}: this run has not finished: continue it with `lamina train {run.recipe} --resume --out {path}`"
            )
        written = read_json(run.info).get("format")
        if written not in (1, FORMAT):
            raise LaminaError(f"{path}: run format {written}, this version of Lamina reads formats 1 and {FORMAT}")
        return run


def _upgraded(info: dict[str, Any], recipe: dict[str, Any]) -> dict[str, Any]:
    """Format 1 as format 2: decisions always stand under `tasks`, each with its type."""
    options: dict[str, dict[str, Any]] = recipe["tasks"]
    flat = {field: info[field] for field in _FITTED if field in info}
    fitted: dict[str, dict[str, Any]] = info.get("tasks") or dict.fromkeys(options, flat)
    kept = {key: value for key, value in info.items() if key not in _FITTED}
    types = {name: str(task.get("objective", {}).get("type", "span")) for name, task in options.items()}
    tasks = {name: {"type": _KINDS.get(types[name], "sentences"), **fitted[name]} for name in options if name in fitted}
    return kept | {"format": FORMAT, "tasks": tasks}


def versions() -> dict[str, str]:
    """What the run was made with."""
    found = {"python": platform.python_version(), "platform": sys.platform}
    for package in ("lamina-qa", "torch", "tokenizers", "safetensors", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found
