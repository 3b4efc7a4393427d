"""The formats of tables by the endings of files. A new format needs one line in `TABLES`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lamina.data.delimited import csv_bytes, delimited_table, tsv_bytes
from lamina.data.json_tables import json_bytes, json_table, jsonl_bytes, jsonl_table
from lamina.data.parquet import parquet_bytes, parquet_table
from lamina.data.tabular import PACKINGS, NumberedRow, Table, files_of, format_of
from lamina.errors import LaminaError
from lamina.utils.files import read_bytes, unpack


@dataclass(frozen=True, slots=True)
class TableFormat:
    """How a format is read, from unpacked bytes and the name of the file, and how rows are written, if they can be."""

    read: Callable[[bytes, str], Table]
    write: Callable[[Sequence[str], Iterable[Mapping[str, object]]], bytes] | None = None


TABLES: Final[Mapping[str, TableFormat]] = {
    ".json": TableFormat(json_table, json_bytes),
    ".jsonl": TableFormat(jsonl_table, jsonl_bytes),
    ".csv": TableFormat(delimited_table, csv_bytes),
    ".tsv": TableFormat(delimited_table, tsv_bytes),
    ".parquet": TableFormat(parquet_table, parquet_bytes),
}
FORMATS: Final = tuple(TABLES)
ENDINGS: Final = tuple(name + packing for name in FORMATS for packing in PACKINGS)


def read_table(path: Path) -> Table:
    """Return the table in a file. The rows of several files (`files_of`) follow each other, with running numbers."""
    files = files_of(path)
    if len(files) == 1:
        return read_one_table(path)
    tables = [read_one_table(file) for file in files]
    header = list(dict.fromkeys(name for table in tables for name in table.header))
    return Table(header, _chained(tables), "row", all(table.cells_are_texts for table in tables))


def read_one_table(path: Path) -> Table:
    """Return the table in one file. A file without any column raises LaminaError."""
    ending, data = read_unpacked(path)
    table = TABLES[ending].read(data, str(path))
    if not table.header:
        raise LaminaError(f"{path}: not {ending[1:].upper()}: no row has columns. Fix: see its problems with lamina data check")
    return table


def read_unpacked(path: Path) -> tuple[str, bytes]:
    """Return the format of a file, by its ending, and its unpacked bytes."""
    data = read_bytes(path)
    return format_of(path, FORMATS), unpack(path, data)


def _chained(tables: Iterable[Table]) -> Iterator[NumberedRow]:
    number = 0
    for table in tables:
        for _, row in table.rows:
            number += 1
            yield number, row
