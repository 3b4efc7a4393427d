"""Reads tables: CSV, TSV and JSONL, plain, .gz or .xz, row by row, with the line of each.

What separates the cells is read off the header line: many files named .csv hold tabs. Quotes are taken for CSV's where cells
are separated by commas or semicolons. Between tabs they are so only where the file shows that it was written that way (quoted
cells with doubled quotes in them, or no quote out of place); else a quote is a letter like any other.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lamina.errors import LaminaError
from lamina.utils.files import read_text

FORMATS: Final = (".jsonl", ".csv", ".tsv")
PACKINGS: Final = ("", ".gz", ".xz")
ENDINGS: Final = tuple(kind + packing for kind in FORMATS for packing in PACKINGS)

_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')


class Broken(Exception):  # noqa: N818 - a value as much as an error
    """What is wrong with a row."""


Row = Mapping[str, Any] | Broken


@dataclass(frozen=True, slots=True)
class Table:
    """A header, and the rows with the lines on which they start."""

    header: Sequence[str]
    rows: Iterable[tuple[int, Row]]


def kind_of(path: Path) -> str:
    """``.jsonl``, ``.csv`` or ``.tsv``: what the ending says, whatever the packing."""
    name = path.name.lower()
    for kind in FORMATS:
        if name.endswith(tuple(kind + packing for packing in PACKINGS)):
            return kind
    if name.endswith(tuple(".json" + packing for packing in PACKINGS)):
        raise LaminaError(
            f"{path}: is JSON, the format of questions to contexts, which the span heads read: "
            "heads of sentences read .csv, .tsv and .jsonl"
        )
    raise LaminaError(f"{path}: unknown ending: expected .csv, .tsv or .jsonl, alone or with .gz or .xz after it")


def read_table(path: Path) -> Table:
    text = read_text(path)
    if kind_of(path) == ".jsonl":
        return _jsonl(path, text)
    if text.lstrip().startswith(("{", "[")):
        raise LaminaError(f"{path}: not a table: it starts like JSON: name it .jsonl if each line is an object")
    line = text.split("\n", 1)[0].rstrip("\r")
    delimiter = "\t" if "\t" in line else max(",;", key=line.count)
    if delimiter == "\t" and not _writes_quotes(text):
        split = ((number, content.rstrip("\r").split("\t")) for number, content in enumerate(text.split("\n"), 1))
        cells: Iterator[tuple[int, list[str] | Broken]] = ((number, row) for number, row in split if any(row))
    else:
        cells = iter(_quoted_cells(text, delimiter))
    _, header = next(cells, (1, [""]))
    if isinstance(header, Broken) or not any(name.strip() for name in header):
        raise LaminaError(f"{path}: line 1: no header: the first line names the columns")
    names = [name.strip() for name in header]
    return Table(names, ((number, _named(names, row)) for number, row in cells))


def _named(header: Sequence[str], cells: list[str] | Broken) -> Row:
    if isinstance(cells, Broken):
        return cells
    if len(cells) != len(header):
        return Broken(f"the header has {len(header)} cells, but this row {len(cells)}")
    return dict(zip(header, cells, strict=True))


def _writes_quotes(text: str) -> bool:
    """Whether quotes between tabs are CSV's: no cell breaks CSV's rules, or fewer do than double the quotes in them."""
    opened = [
        cell for line in text.split("\n") if '"' in line for cell in line.rstrip("\r").split("\t") if cell.startswith('"')
    ]
    kept = [cell for cell in opened if _QUOTED.fullmatch(cell)]
    doubled = sum('""' in cell[1:-1] for cell in kept)
    return len(kept) == len(opened) or doubled > len(opened) - len(kept) or _is_strict_csv(text)


def _is_strict_csv(text: str) -> bool:
    """Whether the whole text is CSV between tabs, each row as wide as the first; cells may hold tabs and ends of lines."""
    widths = {None if isinstance(row, Broken) else len(row) for _, row in _quoted_cells(text, "\t")}
    return len(widths) == 1 and None not in widths


def _quoted_cells(text: str, delimiter: str) -> list[tuple[int, list[str] | Broken]]:
    """The rows of CSV, each with the line on which it starts.

    A row with a quote out of place is broken, and reading goes on with the next line; so it does where a row of several
    lines has not as many cells as the header: there a quote was never closed. The limit on a cell's size is the
    process's, so it is put back.
    """
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    rows: list[tuple[int, list[str] | Broken]] = []
    first, width = 0, 0
    limit = csv.field_size_limit(sys.maxsize)
    try:
        while first < len(lines):
            base, reader = first, csv.reader(lines[first:], delimiter=delimiter, strict=True)
            try:
                for cells in reader:
                    end, width = base + reader.line_num, width or len(cells)
                    if end > first + 1 and len(cells) != width:
                        raise csv.Error("a quote is opened and never closed")
                    if any(cells):
                        rows.append((first + 1, cells))
                    first = end
            except csv.Error as error:
                rows.append((first + 1, Broken(f"not CSV: {error}")))
                first += 1
    finally:
        csv.field_size_limit(limit)
    return rows


def _jsonl(path: Path, text: str) -> Table:
    rows: list[tuple[int, Row]] = []
    header: dict[str, None] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            rows.append((number, row if isinstance(row, dict) else Broken("not a JSON object")))
            header.update(dict.fromkeys(row if isinstance(row, dict) else ()))
    if not header:
        raise LaminaError(f"{path}: not JSONL: expected one JSON object a line")
    return Table(list(header), rows)


def text_in(row: Mapping[str, Any], column: str) -> str:
    """The text of a cell; none is what is wrong with the row."""
    value = row.get(column, "")
    if not isinstance(value, str):
        raise Broken(f"{column} is {json.dumps(value)[:40]}, not a text")
    text = value.strip()
    if not text:
        raise Broken(f"{column} is empty")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Broken(f"{column} holds half a character (a lone surrogate)") from None
    return text


def plain(value: object) -> str:
    """A label or an id as text: JSON's numbers and truth values as JSON writes them."""
    if value is None:
        return ""
    return value.strip() if isinstance(value, str) else json.dumps(value)
