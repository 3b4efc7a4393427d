"""Data that `lamina.train` is given in memory -> files in the run folder, and a recipe that names them.

The rows become ordinary data files, so a run on them is resumed, inspected and compared like any other run.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lamina.config.parse import parse_recipe
from lamina.config.recipe import Recipe
from lamina.data.convert import question_rows
from lamina.data.examples import Example, Sentence
from lamina.data.in_memory import read_twice
from lamina.data.json_tables import jsonl_bytes
from lamina.data.plain_values import is_plain, json_text
from lamina.data.sentences import ColumnOptions
from lamina.errors import LaminaError, LaminaWarning
from lamina.tasks.checks import of_task
from lamina.tasks.kind import DataLike
from lamina.tasks.registry import kind_of
from lamina.utils.files import is_file, make_folder, read_bytes, write_atomically
from lamina.utils.run_folder import Run

Given = DataLike | Mapping[str, DataLike]
Split = Literal["train", "dev"]


@dataclass(frozen=True)
class GivenData:
    """A recipe that names its data, and the content of the files that the run folder must hold for it."""

    recipe: Recipe
    files: Mapping[Path, bytes]

    @contextmanager
    def stored(self, run: Run) -> Iterator[None]:
        """Write the files for the time of a run, whose folder must be locked. If the run does not begin, remove them."""
        if is_file(run.recipe):
            self._check_same()
            yield
            return
        try:
            for path, content in self.files.items():
                make_folder(path.parent)
                write_atomically(path, content)
            yield
        finally:
            if self.files and not is_file(run.recipe):
                shutil.rmtree(run.data, ignore_errors=True)

    def _check_same(self) -> None:
        """Raise LaminaError if a run is resumed with other rows."""
        for path, content in self.files.items():
            if not is_file(path) or read_bytes(path) != content:
                raise LaminaError(
                    f"{path}: the rows have changed since this run began. Fix: give the same rows, or use another folder"
                )


def with_data(recipe: Recipe, run: Run, data: Given | None, dev: Given | bool, *, keep_held_out: bool = False) -> GivenData:
    """Return the recipe with the data of the caller. Rows are checked, but nothing is written yet.

    With training data of the caller, the dev set and the held-out set of the recipe are left out: they are about other texts.
    `keep_held_out` keeps the held-out set, because the caller named it.
    """
    if data is None and isinstance(dev, bool):
        return GivenData(recipe, {})
    values = recipe.model_dump(mode="json")
    files: dict[Path, bytes] = {}
    splits: tuple[tuple[Split, Given | bool | None], ...] = (("train", data), ("dev", dev))
    for split, given in splits:
        if given is None or isinstance(given, bool):
            continue
        for task, source in _by_task(recipe, split, given).items():
            values["tasks"][task]["data"][split] = _name_of(recipe, run, task, split, source, files)
    for options in values["tasks"].values():
        if data is not None and isinstance(dev, bool):
            options["data"]["dev"] = None
        if data is not None and not keep_held_out:
            options["data"]["held_out"] = None
        if not isinstance(dev, bool):
            options["data"]["dev_every"] = None
    return GivenData(parse_recipe(values), files)


def _by_task(recipe: Recipe, split: Split, given: Given) -> dict[str, DataLike]:
    """Return the data of each task."""
    argument = "data" if split == "train" else "dev"
    if isinstance(given, Mapping) and given and set(given) <= set(recipe.tasks):
        if missing := [task for task in recipe.tasks if task not in given and split == "train"]:
            raise LaminaError(f"{argument}: the task {missing[0]!r} has no data. Fix: add {missing[0]!r} to the mapping")
        return dict(given)
    if len(recipe.tasks) > 1:
        names = ", ".join(recipe.tasks)
        raise LaminaError(f"{argument}: the recipe has the tasks {names}. Fix: give a mapping from each task to its data")
    return {next(iter(recipe.tasks)): given}


def _name_of(recipe: Recipe, run: Run, task: str, split: Split, source: DataLike, files: dict[Path, bytes]) -> str:
    """Return the name of data for the recipe; add the content of its file if it is in memory."""
    if isinstance(source, str | Path):
        return str(source)
    checked = read_twice(source)
    try:
        kind_of(recipe.tasks[task]).read(recipe.tasks[task], checked)
    except LaminaError as error:
        where = "" if split == "train" else "dev: "
        raise LaminaError(of_task(task, f"{where}{error}")) from None
    ending, content = _content(checked, recipe.tasks[task].data.columns)
    stem = split if len(recipe.tasks) == 1 else f"{task}-{split}"
    path = run.data.resolve() / f"{stem}{ending}"
    files[path] = content
    return str(path)


def _content(checked: Any, columns: ColumnOptions) -> tuple[str, bytes]:
    """Return the ending and the content of the file for data of `read_twice` that was read without a problem."""
    if isinstance(checked, Mapping):
        return ".json", json_text(checked).encode(errors="replace")
    if isinstance(checked[0], Example):
        return ".jsonl", _jsonl(question_rows(checked, texts=False))
    if isinstance(checked[0], Sentence):
        return ".jsonl", _jsonl([_sentence_row(sentence, columns) for sentence in checked])
    return ".jsonl", _jsonl(_without_bytes(checked))


def _without_bytes(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return rows without the columns that JSON cannot hold, with a warning. No column that is read is among them."""
    binary = dict.fromkeys(name for row in rows for name, value in row.items() if not is_plain(value))
    if binary:
        names = ", ".join(map(repr, binary))
        warnings.warn(f"data: not stored in the run folder, because JSON cannot hold it: {names}", LaminaWarning, stacklevel=2)
    return [{name: value for name, value in row.items() if name not in binary} for row in rows]


def _jsonl(rows: Sequence[dict[str, object]]) -> bytes:
    return jsonl_bytes([], rows)  # every row names its own columns


def _sentence_row(sentence: Sentence, columns: ColumnOptions) -> dict[str, object]:
    """Return a sentence as a row, under the names of the columns that the recipe reads."""
    pair = sentence.second is not None
    row: dict[str, object] = {
        columns.id or "id": sentence.id,
        columns.first or ("sentence1" if pair else "sentence"): sentence.first,
        columns.label or "label": sentence.label,
    }
    return row | {columns.second or "sentence2": sentence.second} if pair else row
