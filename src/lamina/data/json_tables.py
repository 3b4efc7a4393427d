"""JSONL and JSON lists <-> tables. An object is a row, its keys are the columns.

A list of tasks that Label Studio exported becomes a table too (`lamina.data.label_studio`). SQuAD JSON is no table: see
`lamina.data.question_records`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lamina.data.label_studio import exported_rows, is_export
from lamina.data.plain_values import json_text
from lamina.data.problems import Fault, describe_value, short
from lamina.data.tabular import NumberedRow, Table, TableRow
from lamina.errors import LaminaError
from lamina.utils.files import decode_text


def jsonl_table(data: bytes, file: str) -> Table:
    """Return the table in the bytes of a JSONL file: one object a line; `file` is its name in messages."""
    text = decode_text(file, data)
    rows = list(jsonl_rows(text, file))
    header = _keys(row for _, row in rows)
    if not header and any(not isinstance(row, Fault) for _, row in rows):
        raise LaminaError(_not_jsonl(text, file))
    return Table(header, rows)


def jsonl_rows(text: str, file: str) -> Iterator[NumberedRow]:
    """Yield the objects of JSONL with their lines. A text without any object raises LaminaError."""
    first = _first_line(text)
    lines = text.split("\n")
    if first == "{" and text.strip() != "{" and not any(isinstance(_jsonl_row(line), dict) for line in lines):
        raise LaminaError(f"{file}: not JSONL: its first line is only '{{'. Fix: name a JSON document .json")
    if not first.startswith("{") and not any(isinstance(_jsonl_row(line), dict) for line in lines):
        raise LaminaError(_not_jsonl(text, file))
    for number, line in enumerate(lines, 1):
        if line.strip():
            row = _jsonl_row(line)
            if not isinstance(row, Fault) and isinstance(row.get("data"), list):
                raise LaminaError(f"{file}, line {number}: this is SQuAD JSON. Fix: name it .json")
            yield number, row


def _jsonl_row(line: str) -> TableRow:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        detail = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
        return Fault(f"not JSON ({detail})", "write one whole JSON object a line")
    return _as_row(row)


def _as_row(row: object) -> TableRow:
    return row if isinstance(row, dict) else Fault(f"expected a JSON object, found {describe_value(row)}")


def _not_jsonl(text: str, file: str) -> str:
    return f"{file}: not JSONL: it starts with {_first_line(text)!r}. Fix: write one JSON object a line"


def _first_line(text: str) -> str:
    return text.lstrip()[:40].split("\n")[0].strip()


# Lists


def json_table(data: bytes, file: str) -> Table:
    """Return the table in the bytes of a JSON file that holds a list of objects."""
    value = parse_json(decode_text(file, data), file)
    if not isinstance(value, list):
        raise LaminaError(
            f"{file}: is no list of rows, but {_looks_like(value)}. Fix: use a head for questions, or a table of sentences"
        )
    return list_table(value)


def list_table(items: Sequence[object]) -> Table:
    """Return the table of a list of objects. Tasks of Label Studio become rows."""
    rows = exported_rows(items) if is_export(items) else [_as_row(item) for item in items]
    return Table(_keys(rows), list(enumerate(rows, 1)), unit="row")


def _keys(rows: Iterable[TableRow]) -> list[str]:
    """Return the keys of all rows, in the order in which they first occur."""
    return list(dict.fromkeys(str(key) for row in rows if not isinstance(row, Fault) for key in row))


def _looks_like(value: object) -> str:
    if isinstance(value, Mapping) and isinstance(value.get("data"), list):
        return "SQuAD JSON, the format of questions to contexts, which the span heads read"
    return describe_value(value)


def parse_json(text: str, file: str) -> object:
    """Return the value of a JSON document. A text that is none raises LaminaError with the usual cause."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        where, what, fix = _json_complaint(text, error)
        raise LaminaError(f"{file}{', ' + where if where else ''}: {what}. Fix: {fix}") from None


def _json_complaint(text: str, error: ValueError | RecursionError) -> tuple[str, str, str]:
    """Return where a text stops being JSON, what is wrong, and the fix."""
    if not isinstance(error, json.JSONDecodeError):
        what = "the JSON is nested too deeply" if isinstance(error, RecursionError) else str(error)
        return "", what, "write it again with another tool"
    whole = text.strip()
    place = f"line {error.lineno} column {error.colno}"
    if not whole.startswith(("{", "[")):
        return "", f"not JSON: it starts with {short(whole)!r}", "name a table .csv, .tsv or .parquet"
    if error.msg == "Extra data":
        return place, "the JSON ends, but more follows", "name a file with one object a line .jsonl"
    if whole[-1] not in "}]" or error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated"):
        return place, "the JSON ends in the middle (truncated)", "get the whole file again"
    return place, f"not JSON: {error.msg}", "correct the JSON at this place"


# Writing


def jsonl_bytes(header: Sequence[str], rows: Iterable[Mapping[str, object]]) -> bytes:
    """Return rows as a JSONL file."""
    return "".join(json_text(row) + "\n" for row in rows).encode(errors="replace")


def json_bytes(header: Sequence[str], rows: Iterable[Mapping[str, object]]) -> bytes:
    """Return rows as a JSON list."""
    text = json.dumps(list(rows), ensure_ascii=False, indent=1, default=lambda _: None)
    return f"{text}\n".encode(errors="replace")
