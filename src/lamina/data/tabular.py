"""The types of tables, the names of files, and the cells of rows. Formats and readers of tables share them.

`lamina.data.table_formats` lists the formats. What a column means is decided by `lamina.data.question_columns` and
`lamina.data.sentences`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lamina.data.plain_values import is_plain, json_text
from lamina.data.problems import Fault, describe_value, text_fault
from lamina.errors import LaminaError
from lamina.utils.files import holds

PACKINGS: Final = ("", ".gz", ".xz")

TableRow = Mapping[str, object] | Fault
NumberedRow = tuple[int, TableRow]  # the number of the line or row, counted from 1, and its cells


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of a table and its numbered rows. A broken row is a Fault; the rows after it are still read."""

    header: Sequence[str]
    rows: Iterable[NumberedRow]
    unit: str = "line"  # what the numbers count: "line" or "row"
    cells_are_texts: bool = False  # as in CSV, where numbers and lists must be parsed from texts

    def place(self, number: int) -> str:
        """Return the place of a row for messages, such as "line 12"."""
        return f"{self.unit} {number}"


def format_of(path: Path, formats: Sequence[str]) -> str:
    """Return the one of `formats` that a file's ending names, with or without .gz or .xz.

    Raises LaminaError for any other ending.

    >>> format_of(Path("B.JSONL.gz"), (".csv", ".jsonl"))
    '.jsonl'
    """
    name = path.name.lower()
    for ending in formats:
        if name.endswith(tuple(ending + packing for packing in PACKINGS)):
            return ending
    raise LaminaError(f"{path}: unknown ending. Fix: name it {listed(formats, 'or')}, alone or with .gz or .xz after it")


def listed(words: Sequence[str], last: str) -> str:
    """Return words as a sentence lists them.

    >>> listed([".json", ".csv", ".tsv"], "or")
    '.json, .csv or .tsv'
    """
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else words[0]


def files_of(path: Path) -> list[Path]:
    """Return the files that a path names: itself, or all files that match its name, in the order of their names.

    In the name, `*` matches any characters and `?` matches one. A path without matches is returned as it is.
    """
    if not {"*", "?"} & set(path.name) or holds(path.exists):
        return [path]
    pattern = re.compile(re.escape(path.name).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)
    try:
        found = sorted(file for file in path.parent.iterdir() if pattern.fullmatch(file.name) and file.is_file())
    except OSError:
        found = []
    return found or [path]


def text_in(row: Mapping[str, object], column: str) -> str:
    """Return the text of a cell without white space around it. A cell without text raises Fault."""
    value = row.get(column, "")
    if what := text_fault(value, column):
        raise Fault(what)
    return str(value).strip()


def label_in(row: Mapping[str, object], column: str) -> str:
    """Return a label or an id as text, "" if it is missing. Bytes and half characters raise Fault."""
    value = row.get(column)
    if not is_plain(value):
        raise Fault(f"{column} is {describe_value(value)}, not a text or a number")
    text = cell_text(value)
    if text and (what := text_fault(text, column)):
        raise Fault(what)
    return text


def cell_text(value: object) -> str:
    """Return a cell as text. Numbers, booleans and lists become JSON; None becomes ""."""
    if value is None:
        return ""
    return value.strip() if isinstance(value, str) else json_text(value)
