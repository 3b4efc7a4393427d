"""The run folder: a training that describes itself. This module knows files, not models."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lamina.errors import LaminaError

FORMAT = 1


class Run:
    """Paths of a run folder and atomic reading and writing of its JSON files.

    ``run.json``            format, versions, seed, base encoder and its sha256, threshold, costs
    ``recipe.json``         the whole recipe, defaults included; `lamina train` accepts it
    ``encoder.json``        the encoder's shape
    ``tokenizer.json``      the tokenizer
    ``model.safetensors``   trained parameters and buffers
    ``metrics.jsonl``       one line a step and one an evaluation; holds no times, so equal runs have equal files
    ``scores.json``         scores on the dev set at threshold 0, the tuned and the best
    ``predictions.json``, ``null_odds.json``, ``outputs.safetensors``  what the dev set's scores were made from
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
        self.outputs = path / "outputs.safetensors"
        self.checkpoint = path / "checkpoint.pt"

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
            raise LaminaError(f"{path}: this run has not finished: continue it with `lamina train --resume --out {path}`")
        written = read_json(run.info).get("format")
        if written != FORMAT:
            raise LaminaError(f"{path}: run format {written}, this version of Lamina reads format {FORMAT}")
        return run


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise LaminaError(f"{path}: no such file") from None
    except ValueError as error:
        raise LaminaError(f"{path}: not valid JSON ({error})") from None


def write_json(path: Path, value: object) -> None:
    write_atomically(path, (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode())


def write_atomically(path: Path, content: bytes) -> None:
    """Either the old file or the whole new one is there, whatever happens."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


class replacing:  # noqa: N801 - reads as a verb where it is used
    """``with replacing(path) as temporary``: what is written to `temporary` takes the place of `path`, all or nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")

    def __enter__(self) -> Path:
        return self._temporary

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._temporary.unlink(missing_ok=True)
            return
        with self._temporary.open("rb") as file:
            os.fsync(file.fileno())
        self._temporary.replace(self._path)


def versions() -> dict[str, str]:
    """What the run was made with."""
    found = {"python": platform.python_version(), "platform": sys.platform}
    for package in ("lamina-qa", "torch", "tokenizers", "safetensors", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found
