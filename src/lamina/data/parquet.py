"""Parquet <-> tables, by pyarrow (the extra `parquet`), which is imported only here and only when needed."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence

from lamina.data.plain_values import plain_row
from lamina.data.tabular import Table, cell_text
from lamina.errors import LaminaError


def parquet_table(data: bytes, file: str) -> Table:
    """Return the table in the bytes of a parquet file; `file` is its name in messages."""
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise LaminaError(f"{file}: reading parquet needs pyarrow. Fix: pip install 'lamina-qa[parquet]'") from None
    try:
        table = parquet.read_table(io.BytesIO(data))
        rows = table.to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        line = " ".join(str(error).split())[:120]
        raise LaminaError(f"{file}: not parquet ({line}). Fix: get the whole file again, or give it its right ending") from None
    return Table(table.column_names, [(number, plain_row(row)) for number, row in enumerate(rows, 1)], unit="row")


def parquet_bytes(header: Sequence[str], rows: Iterable[Mapping[str, object]]) -> bytes:
    """Return rows as a parquet file. A column of several types becomes a column of texts.

    The answers of questions have the type that SQuAD has on the hub, also if all of them are empty.
    """
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise LaminaError("writing parquet needs pyarrow. Fix: pip install 'lamina-qa[parquet]'") from None
    rows = list(rows)
    columns = {}
    for name in header:
        values = [row.get(name) for row in rows]
        answers = all(isinstance(value, Mapping) and list(value) == ["text", "answer_start"] for value in values)
        lists = [("text", pyarrow.list_(pyarrow.string())), ("answer_start", pyarrow.list_(pyarrow.int32()))]
        try:
            columns[name] = pyarrow.array(values, pyarrow.struct(lists) if answers else None)
        except (pyarrow.ArrowException, OverflowError):
            columns[name] = pyarrow.array([None if value is None else cell_text(value) for value in values])
    out = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), out)
    return out.getvalue()
