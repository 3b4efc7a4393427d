"""CSV and TSV <-> tables.

A broken row costs only itself: reading continues with the next line. The header line decides what separates the cells,
because many files named .csv hold tabs. A line `sep=;` before the header decides it too, as in Excel.

Quotes have their CSV meaning between commas or semicolons. Between tabs they have it only if the file was written so:
quoted cells hold doubled quotes, or no quote is out of place. Otherwise a quote is an ordinary character.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from types import SimpleNamespace
from typing import Final

from lamina.data.problems import Fault
from lamina.data.tabular import Table, TableRow, cell_text
from lamina.errors import LaminaError
from lamina.utils.files import decode_text

_LONGEST_CELL: Final = 2**31 - 1  # the largest limit that every platform's csv module takes
_EXCEL: Final = re.compile(r'"?sep=(?P<delimiter>[^\w\s"]|\t)"?\r?(?=\n)', re.IGNORECASE)  # a first line only for Excel
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')

Cells = list[str] | Fault


def delimited_table(data: bytes, file: str) -> Table:
    """Return the table in the bytes of a CSV or TSV file; `file` is its name in messages."""
    text = decode_text(file, data)
    if text.lstrip().startswith(("{", "[")):
        raise LaminaError(f"{file}: not CSV: it starts like JSON. Fix: name it .jsonl if each line is an object, else .json")
    named = _EXCEL.match(text)
    if named:
        text = text[named.end() :]  # from the line end on, so that lines keep their numbers
    delimiter = named["delimiter"] if named else _delimiter_of(text.split("\n", 1)[0])
    quoted = delimiter != "\t" or _writes_quotes(text)
    cells = iter(_quoted_cells(text, delimiter)) if quoted else _unquoted_cells(text)
    _, first = next(cells, (1, [""]))
    if isinstance(first, Fault) or not any(name.strip() for name in first):
        raise LaminaError(f"{file}, line 1: no header. Fix: name the columns in the first line")
    header = [name.strip() for name in first]
    places = {name: place for place, name in reversed([*enumerate(header)])}  # of the first column of each name
    rows = ((number, _named(places, len(header), row)) for number, row in cells)
    return Table(header, rows, cells_are_texts=True)


def csv_bytes(header: Sequence[str], rows: Iterable[Mapping[str, object]]) -> bytes:
    """Return rows as a CSV file. A cell that is no text is written as JSON, and a missing one is empty."""
    return _delimited_bytes(header, rows, ",")


def tsv_bytes(header: Sequence[str], rows: Iterable[Mapping[str, object]]) -> bytes:
    """Return rows as a TSV file, with the quotes of CSV around cells that hold tabs, quotes or line ends."""
    return _delimited_bytes(header, rows, "\t")


def _delimited_bytes(header: Sequence[str], rows: Iterable[Mapping[str, object]], delimiter: str) -> bytes:
    lines: list[str] = []
    # the csv module quotes a carriage return only if it is part of the line end, so that is taken off afterwards
    writer = csv.writer(SimpleNamespace(write=lines.append), delimiter=delimiter, lineterminator="\r\n")
    writer.writerow(header)
    for row in rows:
        values = [row.get(name) for name in header]
        writer.writerow([value if isinstance(value, str) else cell_text(value) for value in values])
    return "".join(line.removesuffix("\r\n") + "\n" for line in lines).encode(errors="replace")


def _delimiter_of(header: str) -> str:
    """Return what separates the cells: a tab if there is any, else the more frequent of comma and semicolon."""
    return "\t" if "\t" in header else max(",;", key=header.count)


def _named(places: Mapping[str, int], width: int, cells: Cells) -> TableRow:
    if isinstance(cells, Fault):
        return cells
    if len(cells) != width:
        return Fault(f"the header has {width} cells, but this row {len(cells)}", "quote texts that hold delimiters")
    return {name: cells[place] for name, place in places.items()}


def _writes_quotes(text: str) -> bool:
    """Return whether quotes between tabs have their CSV meaning.

    They have it if no cell breaks the rules of CSV, or if more cells double their quotes than break the rules.
    """
    opened = [
        cell for line in text.split("\n") if '"' in line for cell in line.rstrip("\r").split("\t") if cell.startswith('"')
    ]
    correct = [cell for cell in opened if _QUOTED.fullmatch(cell)]
    doubled = sum('""' in cell[1:-1] for cell in correct)
    return len(correct) == len(opened) or doubled > len(opened) - len(correct) or _is_strict_csv(text)


def _is_strict_csv(text: str) -> bool:
    """Return whether the whole text is CSV between tabs, each row as wide as the first.

    Here cells may hold tabs and line ends.
    """
    widths = {None if isinstance(row, Fault) else len(row) for _, row in _quoted_cells(text, "\t")}
    return len(widths) == 1 and None not in widths


def _unquoted_cells(text: str) -> Iterator[tuple[int, Cells]]:
    """Yield the rows of TSV in which quotes are ordinary characters, each with its line."""
    for number, line in enumerate(text.split("\n"), 1):
        cells = line.rstrip("\r").split("\t")
        if any(cells):
            yield number, cells


def _quoted_cells(text: str, delimiter: str) -> list[tuple[int, Cells]]:
    """Return the rows of CSV, each with the line on which it starts. Rows of empty cells are left out.

    A row with a quote out of place is broken, and reading continues with the next line. A row of several lines is broken
    if it is not as wide as the header: then a quote was never closed. The csv module's limit on the size of a cell
    belongs to the process, so the old limit is restored.
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
    """Return how many carriage returns end a line of their own: those that no line feed follows."""
    return line.count("\r") - line.endswith("\r\n")
