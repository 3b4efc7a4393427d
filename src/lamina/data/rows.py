"""Files of questions -> JSON, or the rows of a table, each with its line: JSONL and CSV; plain, ``.gz`` or ``.xz``."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from lamina.data.problems import Fault, described, short
from lamina.errors import LaminaError

FORMATS: Final = (".json", ".jsonl", ".csv")
PACKINGS: Final = ("", ".gz", ".xz")
ENDINGS: Final = tuple(kind + packing for kind in FORMATS for packing in PACKINGS)


def kind_of(path: Path) -> str:
    """``.json``, ``.jsonl`` or ``.csv``: what the ending says, whatever the packing."""
    name = path.name.lower()
    for kind in FORMATS:
        if name.endswith(tuple(kind + packing for packing in PACKINGS)):
            return kind
    raise LaminaError(f"{path}: unknown ending: expected .json, .jsonl or .csv, alone or with .gz or .xz after it")


def check_apart(original: Path, out: Path) -> None:
    """Nothing is written over the data that it is made from."""
    if same_file(original, out):
        raise LaminaError(f"{out}: is the original, which is never overwritten: name another file")


def same_file(one: Path, other: Path) -> bool:
    """Also through symbolic and hard links."""
    try:
        return one.samefile(other)
    except OSError:
        return one.resolve() == other.resolve()


def parse_json(text: str, file: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LaminaError(f"{file}: {_json_complaint(text, error)}") from None


def _json_complaint(text: str, error: ValueError | RecursionError) -> str:
    """One line on why a text is not JSON, with the usual causes by name."""
    if not isinstance(error, json.JSONDecodeError):
        return "the JSON is nested too deeply" if isinstance(error, RecursionError) else str(error)
    whole = text.strip()
    place = f"line {error.lineno} column {error.colno}"
    if not whole.startswith(("{", "[")):
        return f"not JSON: it starts with {short(whole)!r}: a table is named .csv"
    if error.msg == "Extra data":
        return f"{place}: the JSON ends, but more follows: one object a line is named .jsonl"
    if whole[-1] not in "}]" or error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated"):
        return f"{place}: the JSON ends in the middle (truncated): get the whole file again"
    return f"{place}: not JSON: {error.msg}"


def jsonl_rows(text: str, file: str) -> Iterator[tuple[int, dict[str, Any] | Fault]]:
    first = text.lstrip()[:40].split("\n")[0].strip()
    if not first.startswith("{"):
        raise LaminaError(f"{file}: not JSONL: it starts with {first!r}: expected one JSON object a line")
    if first == "{":
        raise LaminaError(f"{file}: not JSONL: its first line is only '{{': a JSON document is named .json")
    for line, content in enumerate(text.split("\n"), 1):
        if content.strip():
            row = _jsonl_row(content)
            if isinstance(row, dict) and isinstance(row.get("data"), list):
                raise LaminaError(f"{file}: line {line}: this is SQuAD JSON: name it .json")
            yield line, row


def _jsonl_row(content: str) -> dict[str, Any] | Fault:
    try:
        row = json.loads(content)
    except (ValueError, RecursionError) as error:
        detail = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
        return Fault(f"not JSON ({detail})", "expected one whole JSON object a line")
    return row if isinstance(row, dict) else Fault(f"expected a JSON object, found {described(row)}")


def csv_rows(text: str, file: str) -> Iterator[tuple[int, dict[str, Any] | Fault]]:
    if text.lstrip().startswith(("{", "[")):
        raise LaminaError(f"{file}: not CSV: it starts like JSON: name it .json, or .jsonl for one object a line")
    columns, delimiter = _csv_header(text, file)
    for line, cells in _csv_cells(text, delimiter):
        if isinstance(cells, Fault):
            yield line, cells
        elif line > 1 and len(cells) != len(columns):
            yield line, Fault(f"{len(cells)} columns, but the header has {len(columns)}", "quote texts with commas")
        elif line > 1:
            yield line, _csv_row(dict(zip(columns, cells, strict=True)))


def _csv_header(text: str, file: str) -> tuple[list[str], str]:
    """The columns and what separates them: a comma, a tab or a semicolon."""
    line = text.split("\n", 1)[0].strip("\r")
    for delimiter in ",\t;":
        columns = [name.strip().strip('"').lower() for name in line.split(delimiter)]
        if {"question", "context"} <= set(columns) and {"answer", "answers"} & set(columns):
            return columns, delimiter
    raise LaminaError(
        f"{file}: line 1: the header needs the columns question, context, answer (or answers): found {short(line)!r}"
    )


def _csv_cells(text: str, delimiter: str) -> list[tuple[int, list[str] | Fault]]:
    """Each row with the line on which it starts. The limit on a cell's size is the process's, so it is put back."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[tuple[int, list[str] | Fault]] = []
    limit = csv.field_size_limit(sys.maxsize)
    line = 1
    try:
        for cells in reader:
            if cells:
                rows.append((line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        rows.append((line, Fault(f"not CSV: {error}", 'quote texts with "…" and double the quotes in them')))
    finally:
        csv.field_size_limit(limit)
    return rows


def _csv_row(cells: dict[str, str]) -> dict[str, Any]:
    """Cells as the values that JSONL would have."""
    row: dict[str, Any] = dict(cells)
    row["answer_start"] = _csv_value(cells.get("answer_start", ""), _csv_start)
    row["is_impossible"] = _csv_value(cells.get("is_impossible", ""), _csv_truth)
    if cells.get("answers", "").startswith(("[", "{")):
        row["answers"] = _csv_value(cells["answers"], json.loads)
    return row


def _csv_value(cell: str, convert: Callable[[str], Any]) -> Any:
    """The cell's value; None for an empty cell; a cell that cannot be converted stays text, for the walker to judge."""
    try:
        return convert(cell) if cell.strip() else None
    except ValueError:
        return cell


def _csv_start(cell: str) -> Any:
    if cell.strip().startswith("["):
        return json.loads(cell)
    number = float(cell)
    return int(number) if number.is_integer() else cell


def _csv_truth(cell: str) -> Any:
    return {"true": True, "1": True, "false": False, "0": False}.get(cell.strip().lower(), cell)
