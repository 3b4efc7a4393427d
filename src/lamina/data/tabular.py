"""Reads tables: CSV, TSV and JSONL, plain, ``.gz`` or ``.xz``, row by row, with the line of each.

All readers of data share this module: it knows endings, delimiters, quotes and broken rows. What a column means is the
reader's business (`lamina.data.question_records`, `lamina.data.sentences`). Whole JSON documents are no tables.

A broken row costs only itself: reading continues with the next line. The header line decides what separates the cells,
because many files named .csv hold tabs. Quotes have their CSV meaning between commas or semicolons. Between tabs they have
it only where the file was written so: quoted cells hold doubled quotes, or no quote is out of place. Otherwise a quote is
an ordinary character.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final

from lamina.data.problems import Fault, describe_value, text_fault
from lamina.errors import LaminaError
from lamina.utils.files import read_text

PACKINGS: Final = ("", ".gz", ".xz")
TABLE_FORMATS: Final = (".csv", ".tsv", ".jsonl")

_LONGEST_CELL: Final = 2**31 - 1  # the largest limit that every platform's csv module takes
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')

TableRow = Mapping[str, object] | Fault
NumberedRow = tuple[int, TableRow]  # the line on which the row starts, and the row
Cells = list[str] | Fault


@dataclass(frozen=True, slots=True)
class Table:
    """A header, and the rows with the lines on which they start."""

    header: Sequence[str]
    rows: Iterable[NumberedRow]


def format_of(path: Path, formats: Sequence[str]) -> str:
    """The format that a file's ending names, packed or not. Any other than `formats` raises LaminaError.

    >>> format_of(Path("B.JSONL.gz"), (".csv", ".jsonl"))
    '.jsonl'
    """
    name = path.name.lower()
    for ending in formats:
        if name.endswith(tuple(ending + packing for packing in PACKINGS)):
            return ending
    expected = ", ".join(formats[:-1]) + f" or {formats[-1]}"
    raise LaminaError(f"{path}: unknown ending: expected {expected}, alone or with .gz or .xz after it")


def read_table(path: Path) -> Table:
    """The table in a .csv, .tsv or .jsonl file."""
    text = read_text(path)
    if path.name.lower().endswith(tuple(".json" + packing for packing in PACKINGS)):
        raise LaminaError(
            f"{path}: is JSON, the format of questions to contexts, which the span heads read: "
            "heads of sentences read .csv, .tsv and .jsonl"
        )
    if format_of(path, TABLE_FORMATS) != ".jsonl":
        return delimited_table(text, str(path))
    rows = list(jsonl_rows(text, str(path)))
    header = dict.fromkeys(key for _, row in rows if not isinstance(row, Fault) for key in row)
    if not header:
        raise LaminaError(_not_jsonl(text, str(path)))
    return Table(list(header), rows)


# JSONL


def jsonl_rows(text: str, file: str) -> Iterator[NumberedRow]:
    """The objects of JSONL, one a line; `file` stands for the text in messages."""
    first = _first_line(text)
    lines = text.split("\n")
    if first == "{" and text.strip() != "{" and not any(isinstance(_jsonl_row(line), dict) for line in lines):
        raise LaminaError(f"{file}: not JSONL: its first line is only '{{': a JSON document is named .json")
    if not first.startswith("{") and not any(isinstance(_jsonl_row(line), dict) for line in lines):
        raise LaminaError(_not_jsonl(text, file))
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, _jsonl_row(line)


def _jsonl_row(line: str) -> TableRow:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        detail = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
        return Fault(f"not JSON ({detail})", "expected one whole JSON object a line")
    return row if isinstance(row, dict) else Fault(f"expected a JSON object, found {describe_value(row)}")


def _not_jsonl(text: str, file: str) -> str:
    return f"{file}: not JSONL: expected one JSON object a line: it starts with {_first_line(text)!r}"


def _first_line(text: str) -> str:
    return text.lstrip()[:40].split("\n")[0].strip()


# CSV and TSV


def delimited_table(text: str, file: str) -> Table:
    """The table in a text of CSV or TSV; `file` stands for it in messages."""
    if text.lstrip().startswith(("{", "[")):
        raise LaminaError(f"{file}: not CSV: it starts like JSON: name it .jsonl if each line is an object, else .json")
    delimiter = _delimiter_of(text.split("\n", 1)[0])
    quoted = delimiter != "\t" or _writes_quotes(text)
    cells = iter(_quoted_cells(text, delimiter)) if quoted else _unquoted_cells(text)
    _, first = next(cells, (1, [""]))
    if isinstance(first, Fault) or not any(name.strip() for name in first):
        raise LaminaError(f"{file}: line 1: no header: the first line names the columns")
    header = [name.strip() for name in first]
    return Table(header, ((number, _named(header, row)) for number, row in cells))


def _delimiter_of(header: str) -> str:
    """What separates the cells: a tab if there is any, else the more frequent of comma and semicolon."""
    return "\t" if "\t" in header else max(",;", key=header.count)


def _named(header: Sequence[str], cells: Cells) -> TableRow:
    if isinstance(cells, Fault):
        return cells
    if len(cells) != len(header):
        return Fault(f"the header has {len(header)} cells, but this row {len(cells)}", "quote texts with delimiters")
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
    widths = {None if isinstance(row, Fault) else len(row) for _, row in _quoted_cells(text, "\t")}
    return len(widths) == 1 and None not in widths


def _unquoted_cells(text: str) -> Iterator[tuple[int, Cells]]:
    """The rows of TSV in which quotes are ordinary characters, each with its line."""
    for number, line in enumerate(text.split("\n"), 1):
        cells = line.rstrip("\r").split("\t")
        if any(cells):
            yield number, cells


def _quoted_cells(text: str, delimiter: str) -> list[tuple[int, Cells]]:
    """The rows of CSV, each with the line on which it starts. Rows of empty cells are left out.

    A row with a quote out of place is broken, and reading continues with the next line. A row of several lines is broken
    where it is not as wide as the header: there a quote was never closed. The csv module's limit on the size of a cell
    belongs to the process, so the old one is restored.
    """
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    numbers = list(accumulate((1 + _returns_inside(line) for line in lines), initial=1))
    rows: list[tuple[int, Cells]] = []
    first, width = 0, 0
    limit = csv.field_size_limit(_LONGEST_CELL)
    try:
        while first < len(lines):
            left = (lines[number] for number in range(first, len(lines)))  # a copy of all lines after each fault would be slow
            base, reader = first, csv.reader(left, delimiter=delimiter, strict=True)
            try:
                for cells in reader:
                    end, width = base + reader.line_num, width or len(cells)
                    if end > first + 1 and len(cells) != width:
                        raise csv.Error("a quote is opened and never closed")
                    if any(cells):
                        rows.append((numbers[first], cells))
                    first = end
            except csv.Error as error:
                rows.append((numbers[first], Fault(f"not CSV: {error}", 'quote texts with "…" and double the quotes in them')))
                first += 1
    finally:
        csv.field_size_limit(limit)
    return rows


def _returns_inside(line: str) -> int:
    """How many carriage returns end a line of their own: those that no line feed follows."""
    return line.count("\r") - line.endswith("\r\n")


# Cells


def text_in(row: Mapping[str, object], column: str) -> str:
    """The text of a cell without white space around it. A cell without text raises Fault."""
    value = row.get(column, "")
    if what := text_fault(value, column):
        raise Fault(what)
    return str(value).strip()


def cell_text(value: object) -> str:
    """A label or an id as text: JSON's numbers and truth values as JSON writes them."""
    if value is None:
        return ""
    return value.strip() if isinstance(value, str) else json.dumps(value)
