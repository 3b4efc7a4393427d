"""Reads labelled sentences and pairs of them from tables: CSV, TSV and JSONL, plain, .gz or .xz.

What separates the cells is read off the header line: many files named .csv hold tabs. Quotes are taken for CSV's where cells
are separated by commas or semicolons. Between tabs they are so only where the file shows that it was written that way (quoted
cells with doubled quotes in them, or no quote out of place); else a quote is a letter like any other.
"""

from __future__ import annotations

import csv
import json
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from lamina.data.examples import Sentence
from lamina.data.labels import as_score
from lamina.errors import LaminaError, LaminaWarning
from lamina.files import read_text

FORMATS: Final = (".jsonl", ".csv", ".tsv")
PACKINGS: Final = ("", ".gz", ".xz")
ENDINGS: Final = tuple(kind + packing for kind in FORMATS for packing in PACKINGS)

USUAL: Final = {
    "first": ("sentence1", "question1", "text1", "first", "premise", "sentence", "text", "review", "question"),
    "second": ("sentence2", "question2", "text2", "second", "hypothesis"),
    "label": ("label", "sentiment", "is_duplicate", "similarity", "score", "class", "rating"),
    "id": ("id",),
}
RARE: Final = 100  # where one label in so many, or fewer, is no number, it is a slip and no class
SHOWN: Final = 5  # line numbers that a warning gives

_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')


class ColumnOptions(BaseModel):
    """The columns of a table (keys of JSONL) that hold what is read. What is not named is guessed from usual names; once a
    text is named, no other text is guessed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    first: str | None = None
    second: str | None = None
    label: str | None = None
    id: str | None = None


def read_sentences(
    path: Path,
    columns: ColumnOptions | None = None,
    *,
    skip_broken: bool = False,
    labelled: bool = True,
    known_labels: bool = False,
) -> list[Sentence]:
    """The sentences of a file, each id made unique. Without `labelled`, labels may be missing. Unless the labels are known,
    a row with a label that is no number, as nearly all others are, counts as broken.

    A broken row is an error; with `skip_broken` all of them are passed over with one warning.
    """
    rows = _rows(path, read_text(path))
    chosen = _choose(columns or ColumnOptions(), rows.header, path, labelled=labelled)
    whole: dict[int, Sentence] = {}
    broken: dict[int, str] = {}
    for line, row in rows.rows:
        try:
            whole[line] = _sentence(row, chosen, len(whole) + len(broken) + 1, labelled=labelled)
        except _Broken as fault:
            broken[line] = str(fault)
    for line in _odd_labels(whole) if labelled and not known_labels else ():
        broken[line] = f"the label {whole.pop(line).label!r} is no number, as the others are"
    if broken:
        _complain(path, dict(sorted(broken.items())), len(whole), skip=skip_broken)
    if not whole:
        raise LaminaError(f"{path}: holds a header but no rows")
    return _with_unique_ids(whole.values())


def holds_sentences(path: Path) -> bool:
    """Whether a file seems to be of labelled sentences, by its ending and its header."""
    try:
        _choose(ColumnOptions(), _rows(path, read_text(path)).header, path, labelled=True)
    except LaminaError:
        return False
    return True


# Columns


@dataclass(frozen=True, slots=True)
class _Columns:
    first: str
    second: str | None
    label: str | None
    id: str | None


def _choose(options: ColumnOptions, header: Sequence[str], path: Path, *, labelled: bool) -> _Columns:
    """The columns to read, by name or by guess."""
    lower = {name.lower(): name for name in reversed(header)}
    if {"question", "context"} <= set(lower):
        raise LaminaError(
            f"{path}: is a file of questions to contexts, which the span heads read: "
            f"heads of sentences need columns such as sentence and label, not {', '.join(header)}"
        )
    named = options.model_dump(exclude_none=True)
    if not labelled and named.get("label") not in header:
        named.pop("label", None)
    for role, name in named.items():
        if name not in header:
            raise LaminaError(f"{path}: no column {name!r} (data.columns.{role}): {_has(header, name)}")
    roles = ["label", "id"] + ([] if "first" in named else ["first"]) + ([] if {"first", "second"} & set(named) else ["second"])
    for role in roles:
        free = [lower[name] for name in USUAL[role] if name in lower and lower[name] not in named.values()]
        if role not in named and free:
            named[role] = free[0]
    for role in ("first", "label") if labelled else ("first",):
        if role not in named:
            what = "text" if role == "first" else "label"
            raise LaminaError(f"{path}: which column is the {what}? Name it with data.columns.{role}: {_has(header)}")
    return _Columns(named["first"], named.get("second"), named.get("label"), named.get("id"))


def _has(header: Sequence[str], name: str = "") -> str:
    close = get_close_matches(name, header, n=1) if name else []
    hint = f": did you mean {close[0]!r}?" if close else ""
    return f"it has {', '.join(filter(None, header)) or 'none'}{hint}"


# Rows


class _Broken(Exception):  # noqa: N818  (it never leaves this module)
    """What is wrong with a row."""


Row = Mapping[str, Any] | _Broken


@dataclass(frozen=True, slots=True)
class _Table:
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


def _rows(path: Path, text: str) -> _Table:
    if kind_of(path) == ".jsonl":
        return _jsonl(path, text)
    if text.lstrip().startswith(("{", "[")):
        raise LaminaError(f"{path}: not a table: it starts like JSON: name it .jsonl if each line is an object")
    line = text.split("\n", 1)[0].rstrip("\r")
    delimiter = "\t" if "\t" in line else max(",;", key=line.count)
    if delimiter == "\t" and not _writes_quotes(text):
        split = ((number, content.rstrip("\r").split("\t")) for number, content in enumerate(text.split("\n"), 1))
        cells: Iterator[tuple[int, list[str] | _Broken]] = ((number, row) for number, row in split if any(row))
    else:
        cells = iter(_quoted_cells(text, delimiter))
    _, header = next(cells, (1, [""]))
    if isinstance(header, _Broken) or not any(name.strip() for name in header):
        raise LaminaError(f"{path}: line 1: no header: the first line names the columns")
    names = [name.strip() for name in header]
    return _Table(names, ((number, _named(names, row)) for number, row in cells))


def _named(header: Sequence[str], cells: list[str] | _Broken) -> Row:
    if isinstance(cells, _Broken):
        return cells
    if len(cells) != len(header):
        return _Broken(f"the header has {len(header)} cells, but this row {len(cells)}")
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
    widths = {None if isinstance(row, _Broken) else len(row) for _, row in _quoted_cells(text, "\t")}
    return len(widths) == 1 and None not in widths


def _quoted_cells(text: str, delimiter: str) -> list[tuple[int, list[str] | _Broken]]:
    """The rows of CSV, each with the line on which it starts.

    A row with a quote out of place is broken, and reading goes on with the next line; so it does where a row of several
    lines has not as many cells as the header: there a quote was never closed. The limit on a cell's size is the
    process's, so it is put back.
    """
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    rows: list[tuple[int, list[str] | _Broken]] = []
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
                rows.append((first + 1, _Broken(f"not CSV: {error}")))
                first += 1
    finally:
        csv.field_size_limit(limit)
    return rows


def _jsonl(path: Path, text: str) -> _Table:
    rows: list[tuple[int, Row]] = []
    header: dict[str, None] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            rows.append((number, row if isinstance(row, dict) else _Broken("not a JSON object")))
            header.update(dict.fromkeys(row if isinstance(row, dict) else ()))
    if not header:
        raise LaminaError(f"{path}: not JSONL: expected one JSON object a line")
    return _Table(list(header), rows)


# Sentences


def _sentence(row: Row, columns: _Columns, number: int, *, labelled: bool) -> Sentence:
    if isinstance(row, _Broken):
        raise row
    second = None if columns.second is None else _text(row, columns.second)
    label = None if columns.label is None else _plain(row.get(columns.label))
    if labelled and not label:
        raise _Broken(f"{columns.label} is empty")
    own_id = _plain(row.get(columns.id)) if columns.id is not None else ""
    return Sentence(own_id or str(number), _text(row, columns.first), second, label or None)


def _text(row: Mapping[str, Any], column: str) -> str:
    value = row.get(column, "")
    if not isinstance(value, str):
        raise _Broken(f"{column} is {json.dumps(value)[:40]}, not a text")
    text = value.strip()
    if not text:
        raise _Broken(f"{column} is empty")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _Broken(f"{column} holds half a character (a lone surrogate)") from None
    return text


def _plain(value: object) -> str:
    """A label or an id as text: JSON's numbers and truth values as JSON writes them."""
    if value is None:
        return ""
    return value.strip() if isinstance(value, str) else json.dumps(value)


def _odd_labels(sentences: Mapping[int, Sentence]) -> list[int]:
    """The lines whose label is no number, where the others are scores or where hardly any is not a number."""
    known = {line: as_score(sentence.label) for line, sentence in sentences.items() if sentence.label is not None}
    odd = [line for line, number in known.items() if number is None]
    scores = any(number is not None and number % 1 for number in known.values())
    mostly = len(odd) * RARE <= len(known) or (scores and 2 * len(odd) < len(known))
    return odd if mostly else []


def _complain(path: Path, broken: Mapping[int, str], whole: int, *, skip: bool) -> None:
    first, why = next(iter(broken.items()))
    count = f"{len(broken)} of {whole + len(broken)} rows {'is' if len(broken) == 1 else 'are'} broken"
    if not skip:
        raise LaminaError(f"{path}: line {first}: {why}: {count}: mend them or set data.skip_broken=true")
    if not whole:
        raise LaminaError(f"{path}: line {first}: {why}: all {len(broken)} rows are broken")
    lines = ", ".join(map(str, list(broken)[:SHOWN])) + (" …" if len(broken) > SHOWN else "")
    warnings.warn(f"{path}: {count} and skipped, at line {lines}; the first: {why}", LaminaWarning, stacklevel=3)


def _with_unique_ids(sentences: Iterable[Sentence]) -> list[Sentence]:
    """Every id that came before gets a number: x, x#2, x#3."""
    times: dict[str, int] = {}
    unique = []
    for sentence in sentences:
        name = sentence.id
        while name in times:
            times[sentence.id] += 1
            name = f"{sentence.id}#{times[sentence.id]}"
        times[name] = 1
        unique.append(sentence if name == sentence.id else replace(sentence, id=name))
    return unique
