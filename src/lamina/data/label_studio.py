"""Tasks of Label Studio, as its exports JSON and JSON-MIN hold them -> rows.

A task has the columns of its `data`. Marked spans of text become its answers; those of all annotators count, each once. They
replace answers in the data. A chosen class becomes its label. An annotation without spans is an unanswerable question. A task
without annotations has no answers, which is a problem unless answers are ignored. Cancelled annotations are ignored.

In JSON-MIN each annotation is a flat row, and the column of its spans has the name of a tag. Rows with one id are one task.
A task without spans lacks that column, so it is unanswerable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final, TypeGuard

from lamina.data.problems import Fault, describe_value
from lamina.data.question_columns import QUESTION_COLUMNS, column_key

_ANNOTATIONS: Final = ("annotations", "completions")  # the second is the name in exports before version 1.0
_MIN_KEYS: Final = frozenset({"annotation_id", "annotator"})


def is_export(items: Sequence[object]) -> bool:
    """Return whether a list holds tasks of Label Studio, by its first item."""
    first = items[0] if items else None
    if not isinstance(first, Mapping):
        return False
    whole = isinstance(first.get("data"), Mapping) and any(isinstance(first.get(key), list) for key in _ANNOTATIONS)
    return whole or first.keys() >= _MIN_KEYS


def exported_rows(tasks: Sequence[object]) -> list[Mapping[str, object] | Fault]:
    """Return the tasks as rows with the columns of their data, and with `answers`, `label` and `id` if they are known."""
    flat = [task for task in tasks if _is_flat(task)]
    if not flat:
        return [_row(task) for task in tasks]
    columns = dict.fromkeys(key for task in flat for key in task)  # with None for what a task lacks
    spans = {key for task in flat for key, value in task.items() if _spans(value)}
    return [_flat_row({**columns, **task}, spans) if _is_flat(task) else _row(task) for task in _merged(tasks)]


def _row(task: object) -> Mapping[str, object] | Fault:
    if not isinstance(task, Mapping):
        return Fault(f"expected a task, found {describe_value(task)}")
    data = task.get("data")
    if not isinstance(data, Mapping):
        return Fault(f"expected a task with data, found {describe_value(data)} as its data")
    row: dict[str, object] = {"id": task.get("id"), **data}
    results = list(_results(task))
    spans = [span for value in results if (span := _span(value, _context(data))) is not None]
    classes = [choice for value in results if isinstance(choices := value.get("choices"), list) for choice in choices]
    given = [key for key in data if column_key(str(key)) in ("answer", "answers")]
    if spans or (_is_annotated(task) and not given):
        row = {key: value for key, value in row.items() if key not in given}
        row["answers"] = [dict(span) for span in dict.fromkeys(tuple(span.items()) for span in spans)]
    if classes and "label" not in data:
        row["label"] = classes[0]
    return row


def _is_flat(task: object) -> TypeGuard[Mapping[str, object]]:
    """Return whether a task is a row of JSON-MIN."""
    return isinstance(task, Mapping) and task.keys() >= _MIN_KEYS


def _merged(tasks: Sequence[object]) -> list[object]:
    """Return the tasks, with one row for all annotators of a task in JSON-MIN.

    Lists of spans are joined; any other value is that of the first row that has one.
    """
    merged: list[object] = []
    first: dict[object, dict[str, object]] = {}  # id -> its row
    for task in tasks:
        own = task.get("id") if _is_flat(task) else None
        if not _is_flat(task) or not isinstance(own, int | str):
            merged.append(task)
        elif own not in first:
            first[own] = dict(task)
            merged.append(first[own])
        else:
            row = first[own]
            for key, value in task.items():
                before = row.get(key)
                row[key] = [*_spans(before), *_spans(value)] or (value if before is None else before)
    return merged


def _flat_row(task: Mapping[str, object], span_columns: Set[str]) -> dict[str, object]:
    """Return a task of JSON-MIN as a row. Spans become its answers, each once; they replace answers in the data."""
    row = {key: _flat_value(value) for key, value in task.items() if key not in span_columns}
    marked = [_span(value, _context(row)) for key in task if key in span_columns for value in _spans(task[key])]
    given = [key for key in row if column_key(key) in ("answer", "answers")]
    if not span_columns or (given and not marked):
        return row
    row = {key: value for key, value in row.items() if key not in given}
    return {**row, "answers": [dict(span) for span in dict.fromkeys(tuple(span.items()) for span in marked if span)]}


def _spans(value: object) -> list[Mapping[str, object]]:
    """Return the spans of a cell of JSON-MIN; none if the cell holds anything else."""
    items = value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, Mapping) and item.keys() >= {"start", "end"}]


def _flat_value(value: object) -> object:
    """Return a value of JSON-MIN. The first of several choices is the class."""
    if isinstance(value, Mapping) and isinstance(value.get("choices"), list) and value["choices"]:
        return value["choices"][0]
    return value


def _is_annotated(task: Mapping[str, object]) -> bool:
    return any(True for _ in _annotations(task))


def _annotations(task: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    for key in _ANNOTATIONS:
        found = task.get(key)
        for annotation in found if isinstance(found, list) else ():
            if isinstance(annotation, Mapping) and not annotation.get("was_cancelled"):
                yield annotation


def _results(task: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Yield the values of all results of a task."""
    for annotation in _annotations(task):
        results = annotation.get("result")
        for result in results if isinstance(results, list) else ():
            value = result.get("value") if isinstance(result, Mapping) else None
            if isinstance(value, Mapping):
                yield value


def _span(value: Mapping[str, object], context: str) -> dict[str, object] | None:
    """Return the answer that a result marks, or None if it marks no span.

    Some exports leave out the text of a span. Spans of HTML have no offsets, so the answer is searched in the context.
    """
    start, end, text = value.get("start"), value.get("end"), value.get("text")
    if start is None or end is None:
        return None
    if not isinstance(text, str):
        text = context[start:end] if type(start) is int and type(end) is int else None
    return {"text": text, "answer_start": start if type(start) is int else None}


def _context(data: Mapping[str, object]) -> str:
    lower = {column_key(str(key)): value for key, value in data.items()}
    return next((text for name in QUESTION_COLUMNS["context"] if isinstance(text := lower.get(name), str)), "")
