"""The run folder: a training that describes itself. This module knows files, not models."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypedDict

from lamina.errors import LaminaError
from lamina.utils.files import read_json

FORMAT = 2  # of run.json; format 1 is read too
_FITTED = ("threshold", "calibration", "question_threshold")  # fields of a decision in format 1
# The kinds of format 1 by objective; all others are sentences. Frozen: new heads were never written in format 1.
_KINDS = {"span": "spans", "answerability": "answerability"}


class EncoderInfo(TypedDict, total=False):
    name: str
    sha256: str | None
    folder: str  # of the encoder's files, seen from the run folder


class RunInfo(TypedDict, total=False):
    """The content of run.json. Before the end of training, what is known only then is missing."""

    format: int
    versions: dict[str, str]
    seed: int
    encoder: EncoderInfo
    synonyms: list[str]  # checksums of the files
    windows: list[str]  # fingerprints of the training splits, then of the held-out splits
    device: str
    threads: int
    parameters: Mapping[str, object]
    steps: int
    tasks: dict[str, dict[str, Any]]  # the decision of each task
    score: float | None  # on the held-out splits
    chosen_step: int
    stopped_early: bool
    costs: dict[str, float]
    average: AverageInfo  # of runs whose weights were averaged
    finished: bool


class AverageInfo(TypedDict, total=False):
    members: list[dict[str, Any]]
    seeds: list[int]
    fitted_on: str | None


class TrainingFolder:
    """A folder that a training writes. The file `info` is there once it has begun, and says when it has finished."""

    info: Path

    @property
    def exists(self) -> bool:
        return self.info.is_file()

    @property
    def finished(self) -> bool:
        return self.exists and read_object(self.info).get("finished") is True


class Run(TrainingFolder):
    """The paths of a run folder.

    ``run.json``            format, versions, seed, base encoder and its sha256, the decision of each task (`tasks`), best score
                            on the held-out split, costs
    ``recipe.json``         the whole recipe, defaults included; `lamina train` accepts it
    ``encoder.json``        the encoder's shape
    ``tokenizer.json``      the tokenizer
    ``data/``               the training data and dev set, if they were given as rows in memory
    ``model.safetensors``   trained parameters and buffers
    ``metrics.jsonl``       one line a step and one an evaluation; holds no times, so equal runs have equal files
    ``scores.json``         scores on the dev set at threshold 0, the tuned and the best
    ``predictions.json``, ``null_odds.json``, ``nbest.json``, ``outputs.safetensors``  what the dev set's scores were made from
    ``questions.json``      the answer to each question over all of its contexts, by the question's id
    ``windows.safetensors`` which tokens the outputs are of: with them the dev set is decoded again without a model
    ``tasks/NAME/``         of several tasks: predictions.json and the like of each; scores.json is of all
    ``curves.png``          with train.curves: scores of the training split and the dev set after each epoch
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
        self.data = path / "data"

    def task(self, name: str) -> Run:
        """The folder of one of several tasks: its predictions and outputs."""
        return Run(self.path / "tasks" / name)

    def read_info(self) -> RunInfo:
        """The content of run.json, in the present format."""
        info = read_object(self.info)
        if self._format() == FORMAT:
            current: RunInfo = info  # type: ignore[assignment]  # readers check the fields that they use
            return current
        tasks = read_object(self.recipe).get("tasks")
        if not isinstance(tasks, dict):
            raise LaminaError(f"{self.recipe}: not the recipe of a run (it has no tasks): copy or train the run again")
        return _upgraded(info, tasks)

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
        run._format()
        return run

    def _format(self) -> int:
        """The format of run.json; LaminaError if this version does not know it."""
        written = read_object(self.info).get("format")
        if type(written) is not int or written not in (1, FORMAT):
            raise LaminaError(f"{self.path}: run format {written!r}, this version of Lamina reads formats 1 and {FORMAT}")
        return written


def _upgraded(info: Mapping[str, Any], options: Mapping[str, Mapping[str, Any]]) -> RunInfo:
    """Format 1 as format 2: decisions always stand under `tasks`, each with its type. `options` are those of the tasks."""
    flat = {field: info[field] for field in _FITTED if field in info}
    fitted = info.get("tasks") or dict.fromkeys(options, flat)
    types = {name: str(task.get("objective", {}).get("type", "span")) for name, task in options.items()}
    tasks = {name: {"type": _KINDS.get(types[name], "sentences"), **fitted[name]} for name in options if name in fitted}
    kept: RunInfo = {key: value for key, value in info.items() if key not in _FITTED}  # type: ignore[assignment]
    kept["format"], kept["tasks"] = FORMAT, tasks
    return kept


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file of a training's folder."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise LaminaError(f"{path}: expected a JSON object, found {type(found).__name__}: copy or train the run again")
    return found


def versions() -> dict[str, str]:
    """What the run was made with."""
    found = {"python": platform.python_version(), "platform": sys.platform}
    for package in ("lamina-qa", "torch", "tokenizers", "safetensors", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found
