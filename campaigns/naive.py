"""Second readers of data, as simple as possible and without code of Lamina: what it accepts must equal what these read.

They follow the formats as docs/data.md describes them. A question is a tuple: the question, the context, and its answers
as pairs of text and start. A start is None if the file gives none.
"""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

Question = tuple[str, str, tuple[tuple[str, int | None], ...]]
ROLES = {
    "question": ("question", "query"),
    "context": ("context", "passage", "paragraph", "text"),
    "answers": ("answers", "answer", "answer_text", "label", "text"),
    "answer_start": ("answer_start", "start"),
}


def answers_of(value: Any, starts: Any = None) -> tuple[tuple[str, int | None], ...]:
    """Return answers of any of the documented shapes."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return ()
    if isinstance(value, str):
        value, starts = [value], starts if isinstance(starts, list) else [starts]
    elif isinstance(value, dict):
        starts = value.get("answer_start", value.get("start"))
        value = value.get("text")
        value = value if isinstance(value, list) else [value]
    starts = starts if isinstance(starts, list) else [starts] * len(value)
    pairs = []
    for one, start in zip(value, starts, strict=True):
        if isinstance(one, dict):
            pairs.append((one.get("text"), one.get("answer_start", one.get("start"))))
        else:
            pairs.append((one, start))
    return tuple((str(text), None if start is None else int(start)) for text, start in pairs)


def squad(data: bytes) -> list[Question]:
    """Read SQuAD JSON, or a list of rows."""
    value = json.loads(data.decode("utf-8-sig"))
    if isinstance(value, list) and not ("paragraphs" in value[0] and "qa" not in value[0]):
        return table(value)
    found: list[Question] = []
    for article in value["data"] if isinstance(value, dict) else value:
        for paragraph in article["paragraphs"]:
            context = paragraph["context"]
            found += [(one["question"], context, answers_of(one.get("answers"))) for one in paragraph["qas"]]
    return found


def jsonl(data: bytes) -> list[Question]:
    """Read JSONL: an object a line."""
    return table([json.loads(line) for line in data.decode("utf-8-sig").split("\n") if line.strip()])


def parquet(data: bytes) -> list[Question]:
    """Read parquet."""
    import pyarrow.parquet

    found = pyarrow.parquet.read_table(io.BytesIO(data))
    return table(found.to_pylist(), found.column_names)


def delimited(data: bytes) -> list[Question] | None:
    """Read CSV or TSV; None for texts that CSV leaves open, such as quotes in TSV."""
    text = data.decode("utf-8-sig")
    first, _, _ = text.partition("\n")
    if first.strip().lower().strip('"').startswith("sep="):
        return None
    delimiter = "\t" if "\t" in first else max(",;", key=first.count)
    if (delimiter == "\t" and '"' in text) or "\r" in text.replace("\r\n", ""):
        return None
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    header = [name.strip() for name in rows[0]]
    made: list[dict[str, Any]] = [dict(reversed(list(zip(header, row, strict=True)))) for row in rows[1:] if any(row)]
    for row in made:
        for name, cell in row.items():
            key = name.lower().replace("-", "_").replace(" ", "_")
            if key == "answers" and cell[:1] in ("[", "{"):
                row[name] = json.loads(cell)
            elif key == "answer" and cell.startswith("[{"):
                parsed = json.loads(cell)
                row[name] = parsed if all(isinstance(one, dict) and "text" in one for one in parsed) else cell
            elif key in ("answer_start", "start"):
                row[name] = _number(cell)
    return table(made, header)


def table(rows: Sequence[Mapping[str, Any]], header: Sequence[str] = ()) -> list[Question]:
    """Read rows by the usual names of their columns."""
    names = list(header) or list(dict.fromkeys(str(name) for row in rows for name in row))
    chosen: dict[str, list[str]] = {}
    used: set[str] = set()
    for role, usual in ROLES.items():
        for want in usual:
            fitting = [name for name in names if _key(name) == want]
            if fitting and want not in used:
                chosen[role] = fitting
                used.add(want)
                break
    found: list[Question] = []
    for row in rows:

        def cell(role: str, row: Mapping[str, Any] = row) -> Any:
            return next((row[name] for name in chosen.get(role, ()) if name in row), None)

        answers = cell("answers")
        if answers is None:  # a null in `answers` leaves `answer`
            answers = next((row[name] for name in names if _key(name) == "answer" and name in row), None)
        found.append((cell("question"), cell("context"), answers_of(answers, cell("answer_start"))))
    return found


def contexts(data: bytes, *, lines: bool) -> list[Question] | None:
    """Read questions with several contexts; None if a text is not in the form NFC, which needs care."""
    text = data.decode("utf-8-sig")
    if not unicodedata.is_normalized("NFC", text) or "\\u" in text:
        return None
    value = [json.loads(line) for line in text.split("\n") if line.strip()] if lines else json.loads(text)
    found: list[Question] = []
    for question in value["data"] if isinstance(value, dict) else value:
        qa = question["qa"]
        stated = qa["answer"] if qa.get("answers") is None and "answer" in qa else qa.get("answers")
        texts = [one.strip() for one, _ in answers_of(stated)]
        for paragraph in question["paragraphs"]:
            context = paragraph["contents"]
            own = paragraph.get("answers")
            if own is None:
                pairs = dict.fromkeys((one, context.find(one)) for one in texts if one in context)
                found.append((qa["question"], context, tuple(pairs)))
            else:
                found.append((qa["question"], context, answers_of(own)))
    return found


def _number(cell: str) -> Any:
    """Return the value of a cell with starts; None if it is empty, or no number as in a row without answers."""
    try:
        return json.loads(cell) if cell.strip() else None
    except ValueError:
        return None


def _key(name: str) -> str:
    return "_".join(name.strip().lower().replace("-", " ").split())
