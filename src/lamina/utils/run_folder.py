"""The run folder: a training that describes itself. This module knows files, not models."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lamina.errors import LaminaError
from lamina.utils.files import read_json

FORMAT = 1


class Run:
    """The paths of a run folder.

    ``run.json``            format, versions, seed, base encoder and its sha256, threshold, best score held out, costs
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
        if written != FORMAT:
            raise LaminaError(f"{path}: run format {written}, this version of Lamina reads format {FORMAT}")
        return run


def versions() -> dict[str, str]:
    """What the run was made with."""
    found = {"python": platform.python_version(), "platform": sys.platform}
    for package in ("lamina-qa", "torch", "tokenizers", "safetensors", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found
