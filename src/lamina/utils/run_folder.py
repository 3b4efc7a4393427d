"""The layout of a run folder and the format of run.json. This module reads files only, no models."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, SkipValidation, ValidatorFunctionWrapHandler, WrapValidator, with_config
from typing_extensions import TypedDict  # pydantic checks only this one in Python 3.11

from lamina.errors import LaminaError
from lamina.utils.checksums import crc32_of, crc32_of_json
from lamina.utils.files import is_file, read_json, shortened, write_json
from lamina.utils.options import STORED, stored

FORMAT = 2  # of run.json; this version reads format 1 too
_COPY_OR_TRAIN = "copy the run folder again, or train the run again"
_FITTED = ("threshold", "calibration", "question_threshold")  # fields of a decision in format 1
# The kind of task by objective in format 1; all others are sentences. Do not add to it: format 1 has no newer heads.
_KINDS = {"span": "spans", "answerability": "answerability"}
_CHECKED = ("model.safetensors", "tokenizer.json", "encoder.json")  # files with a checksum in run.json

_COSTS = ("train_seconds", "read_seconds", "store_seconds", "evaluate_seconds", "tokens", "padded_tokens")

_OWN = "run:"  # before the path of a data file from the run folder, in recipe.json


def _as_it_was(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    check(value)
    return value


Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0), WrapValidator(_as_it_was)]  # a whole number stays one


class EncoderInfo(TypedDict, total=False):
    name: str
    sha256: str | None
    folder: str  # of the encoder's files, relative to the run folder


class HeadInfo(TypedDict, total=False):
    """The run that a head started from."""

    run: str
    task: str  # in that run
    sha256: str  # of its weights
    new_mixer: str  # why the mixer is not that of the run; missing if it is


class TeacherInfo(TypedDict):
    """A teacher of a task."""

    run: str  # as in terms.teacher.runs
    task: str  # in that run
    sha256: str  # of its weights and options


@with_config(STORED)
class RunInfo(TypedDict, total=False):
    """The content of run.json. Fields that are known only after training are missing before."""

    format: int
    versions: dict[str, str]
    seed: int
    encoder: EncoderInfo
    heads: dict[str, HeadInfo]  # by task; only those with head.start
    teachers: dict[str, list[TeacherInfo]]  # by task; only those with terms.teacher
    synonyms: list[str]  # checksums of the files
    windows: list[str]  # fingerprints of the training splits, then of the held-out splits
    language: str | None  # of the training texts of questions; None if unclear, missing in runs of older versions
    device: str
    threads: Count
    processes: Count  # that trained together; only if there were several
    parameters: Mapping[str, object]
    steps: Count
    tasks: SkipValidation[dict[str, dict[str, Any]]]  # the decision of each task, which its own type checks
    score: float | None  # on the held-out splits
    sources: dict[str, list[dict[str, Any]]]  # held-out scores of each training set by task; only with several sets
    chosen_step: Count
    stopped_early: bool
    costs: dict[str, Amount]
    checksums: dict[str, str]  # by file name; runs of older versions have none
    average: AverageInfo  # only in a run made by averaging the weights of others
    weights: str  # only in a saved model: "float32", or "int8" if they were rounded to 8 bits
    finished: bool


class AverageInfo(TypedDict, total=False):
    members: list[dict[str, Any]]
    seeds: list[int]
    fitted_on: str | None


@with_config(STORED)
class _FittedTasks(TypedDict, total=False):
    """The part of run.json in format 1 that differs from the current format."""

    tasks: dict[str, dict[str, Any]] | None


class TrainingFolder:
    """A folder that a run writes. The file `info` exists once training has started, and records whether it has finished."""

    info: Path

    @property
    def exists(self) -> bool:
        """Whether the run has begun: its info file exists."""
        return is_file(self.info)

    @property
    def finished(self) -> bool:
        """Whether training has finished."""
        return self.exists and read_object(self.info).get("finished") is True


class Run(TrainingFolder):
    """The paths of a run folder, which `lamina train` writes.

    - ``run.json``: format, versions, seed, base encoder and its sha256, the decision of each task (`tasks`), best score on the
      held-out split, costs. It also holds checksums of the model's files and, with several training sets, the scores of each on
      the held-out split (`sources`)
    - ``recipe.json``: the whole recipe with the defaults; `lamina train` accepts it. Files of ``data/`` are named by their
      path from the run folder, as in ``run:data/train.jsonl``, so that the folder can be moved
    - ``encoder.json``: the encoder's shape
    - ``tokenizer.json``: the tokenizer
    - ``data/``: the training data and the dev set, if they were given as rows in memory
    - ``model.safetensors``: trained parameters and buffers
    - ``metrics.jsonl``: one line for each step and each evaluation, without times, so that equal runs have equal files
    - ``scores.json``: scores on the dev set at threshold 0, at the tuned and at the best threshold
    - ``predictions.json``, ``null_odds.json``, ``nbest.json``, ``outputs.safetensors``: predictions and logits of the dev set
    - ``questions.json``: the answer to each question over all of its contexts, by the question's id
    - ``windows.safetensors``: the windows of the outputs, to decode the dev set again without a model
    - ``tasks/NAME/``: with several tasks, predictions.json and so on of each; scores.json has all tasks
    - ``curves.png``: with train.curves, losses and scores of the training split and the dev set over the epochs
    - ``checkpoints/0.3``: with train.checkpoints, the model after 0.3 epochs, a run folder too, with scores and outputs
    - ``tensorboard/``: with `--track tensorboard`, the metrics for that dashboard
    - ``checkpoint.pt``: only while training, the state that `--resume` needs

    Making a `Run` reads nothing: the folder need not exist. `Run.open` checks that the run has finished.

    Args:
        path: The run folder.

    Attributes:
        path: The run folder.
        recipe, info, encoder, tokenizer, model, metrics, scores, predictions, null_odds, nbest, questions, outputs,
            windows, curves, checkpoint, data: The paths above; a file may be missing. `info` is run.json.
        exists: Whether run.json exists.
        finished: Whether training has finished.
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

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def task(self, name: str) -> Run:
        """Return the folder of one task of several, with its predictions and outputs.

        Args:
            name: The task's name in the recipe.

        Returns:
            The folder ``tasks/NAME``, which need not exist.
        """
        return Run(self.path / "tasks" / name)

    def read_info(self) -> RunInfo:
        """Read run.json, and convert format 1 to the current format.

        Returns:
            The content in the current format.

        Raises:
            LaminaError: A file is missing or no JSON object, its format is unknown, or a field has a wrong value.
        """
        info = read_object(self.info)
        if self._format() != FORMAT:
            tasks = read_object(self.recipe).get("tasks")
            if not isinstance(tasks, dict):
                raise LaminaError(f"{self.recipe}: not the recipe of a run (it has no tasks). Fix: {_COPY_OR_TRAIN}")
            options = stored(dict[str, dict[str, Any]], tasks, str(self.recipe), _COPY_OR_TRAIN)
            stored(_FittedTasks, info, str(self.info), _COPY_OR_TRAIN)
            info = dict(_upgraded(info, options))
        return stored(RunInfo, info, str(self.info), _COPY_OR_TRAIN)

    def read_recipe(self) -> Any:
        """Read recipe.json, with the whole paths of the data files in the run folder.

        Returns:
            The values of the recipe, not checked.

        Raises:
            LaminaError: The file is missing or no JSON.
        """
        return with_own_data(read_json(self.recipe), self.path)

    def write_recipe(self, values: Any) -> None:
        """Write recipe.json. Data files in the run folder are named by their path from there.

        Args:
            values: The values of a whole recipe, with a table `tasks`. They are changed.
        """
        here = self.path.resolve()
        owner = here.parent.parent if here.parent.name == "checkpoints" else here  # a checkpoint uses the data of its run
        for table in _data_tables(values):
            _rename_data(table, lambda name: _from_run(name, owner / "data", here))
        write_json(self.recipe, values)

    def finish(self, info: RunInfo) -> None:
        """Write run.json, which marks the run as finished. Call it last: it has the checksums of the other files.

        Args:
            info: The content of run.json. The fields `checksums` and `finished` are replaced.
        """
        content: dict[str, Any] = {**info, "checksums": {}, "finished": True}
        names = (*_CHECKED, self.recipe.name, self.info.name)
        checksums = {name: self._checksum(name, content) for name in names}
        write_json(self.info, {**content, "checksums": {name: one for name, one in checksums.items() if one is not None}})

    def _checksum(self, name: str, info: Mapping[str, Any]) -> str | None:
        """Return the checksum of a file as `finish` stores it, or None if there is no such file.

        That of run.json leaves out the checksums, and the costs, which differ between equal runs. That of recipe.json leaves
        out where data and encoders are, because these may move.
        """
        if name == self.info.name:
            return crc32_of_json({name: value for name, value in info.items() if name not in ("checksums", "costs")})
        if not is_file(self.path / name):
            return None
        return (
            crc32_of_json(_without_places(read_json(self.recipe))) if name == self.recipe.name else crc32_of(self.path / name)
        )

    def check_files(self) -> None:
        """Compare the files that predictions need with their checksums in run.json, and run.json with its own.

        A damaged file would often load without an error and give wrong answers. Runs of older versions have no checksums, or
        only those of some files.

        Raises:
            LaminaError: A file differs from its checksum.
        """
        info = read_object(self.info)
        recorded = info.get("checksums", {})
        if not isinstance(recorded, dict):
            raise LaminaError(f"{self.info}: checksums is not a table. Fix: {_COPY_OR_TRAIN}")
        for name in (*_CHECKED, self.recipe.name, self.info.name):
            wanted = recorded.get(name)
            if wanted is not None and (found := self._checksum(name, info)) not in (None, wanted):
                raise LaminaError(
                    f"{self.path / name}: has the checksum {found}, but run.json has {shortened(str(wanted))}, so the file "
                    f"changed after the run. Fix: {_COPY_OR_TRAIN}; if you changed it on purpose, remove its checksum from "
                    "run.json"
                )

    @classmethod
    def open(cls, path: Path) -> Run:
        """Return a finished run.

        Args:
            path: The run folder.

        Returns:
            The paths of the run folder.

        Raises:
            LaminaError: The folder is no run, the run has not finished, or its format is unknown.
        """
        run = cls(path)
        if not run.exists:
            raise LaminaError(f"{path}: not a run folder (it has no run.json). Fix: name a folder that `lamina train` wrote")
        if not run.finished:
            raise LaminaError(
                f"{path}: this run has not finished. Fix: continue it with `lamina train {run.recipe} --resume --out {path}`"
            )
        run._format()
        return run

    def _format(self) -> int:
        """Return the format of run.json, or raise LaminaError if this version cannot read it."""
        written = read_object(self.info).get("format")
        if type(written) is not int or written not in (1, FORMAT):
            raise LaminaError(
                f"{self.path}: run format {written!r}, this version of Lamina reads formats 1 and {FORMAT}. "
                "Fix: use the version of Lamina that wrote the run"
            )
        return written


def with_own_data(values: Any, folder: Path) -> Any:
    """Return the values of a recipe with whole paths of the data files in its run folder. The values are changed."""
    for table in _data_tables(values):
        _rename_data(table, lambda name: _whole_path(name, folder.resolve()))
    return values


def _from_run(name: str, data: Path, run: Path) -> str:
    """Return the name of data as recipe.json has it: files in the folder `data` by their path from the run folder."""
    inside = name and Path(name).parent == data
    return _OWN + Path(os.path.relpath(name, run)).as_posix() if inside else name


def _whole_path(name: str, run: Path) -> str:
    return os.path.normpath(run / name.removeprefix(_OWN)) if name.startswith(_OWN) else name


def _rename_data(table: dict[str, Any], renamed: Callable[[str], str]) -> None:
    """Rename the data in a table `data`; `train` may be a list of sets. Values of other types are not changed."""
    for split in ("train", "dev", "held_out"):
        named = table.get(split)
        if isinstance(named, str):
            table[split] = renamed(named)
        elif isinstance(named, list):
            table[split] = [_renamed_set(one, renamed) for one in named]


def _renamed_set(one: Any, renamed: Callable[[str], str]) -> Any:
    if isinstance(one, str):
        return renamed(one)
    return {**one, "name": renamed(one["name"])} if isinstance(one, dict) and isinstance(one.get("name"), str) else one


def _without_places(values: Any) -> Any:
    """Return the values of a recipe without the names of its data and of its encoder. The values are changed."""
    for table in _data_tables(values):
        _rename_data(table, lambda name: "")
    encoder = values.get("encoder") if isinstance(values, dict) else None
    if isinstance(encoder, dict):
        encoder.pop("model", None)
    return values


def _data_tables(values: Any) -> Iterator[dict[str, Any]]:
    """Yield the table `data` of each task; values that are no tables are left out."""
    tasks = values.get("tasks") if isinstance(values, dict) else None
    for task in tasks.values() if isinstance(tasks, dict) else ():
        if isinstance(task, dict) and isinstance(task.get("data"), dict):
            yield task["data"]


def _upgraded(info: Mapping[str, Any], options: Mapping[str, Mapping[str, Any]]) -> RunInfo:
    """Return format 1 as format 2, where `tasks` holds every decision with its type. `options` are the recipe's tasks."""
    flat = {field: info[field] for field in _FITTED if field in info}
    fitted = info.get("tasks") or dict.fromkeys(options, flat)
    objectives = {name: task.get("objective") for name, task in options.items()}
    types = {name: str(one.get("type", "span")) if isinstance(one, dict) else "span" for name, one in objectives.items()}
    tasks = {name: {"type": _KINDS.get(types[name], "sentences"), **fitted[name]} for name in options if name in fitted}
    current: RunInfo = {key: value for key, value in info.items() if key not in _FITTED}  # type: ignore[assignment]
    current["format"], current["tasks"] = FORMAT, tasks
    return current


def read_object(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file of a run folder."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise LaminaError(f"{path}: expected a JSON object, found {type(found).__name__}. Fix: {_COPY_OR_TRAIN}")
    return found


def complete_costs(costs: Mapping[str, float]) -> dict[str, float]:
    """Return the costs of a run with 0 for those that its folder does not have."""
    return dict.fromkeys(_COSTS, 0) | dict(costs)


def versions() -> dict[str, str]:
    """Return the versions of Python, the platform and the packages that a run depends on."""
    found = {"python": platform.python_version(), "platform": sys.platform}
    for package in ("lamina-qa", "torch", "tokenizers", "safetensors", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found
