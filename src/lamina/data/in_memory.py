"""Data in memory -> examples or sentences: rows as dicts, a pandas DataFrame, or a `datasets.Dataset`.

The columns have the same names as in files (`lamina.data.question_columns`, `lamina.data.sentences`). pandas and datasets are
not imported: a DataFrame is known by `to_dict` and `columns`, and a Dataset is iterated over its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from lamina.data.examples import Example, Sentence
from lamina.data.json_tables import list_table
from lamina.data.plain_values import plain_row, plain_value
from lamina.data.problems import CLEAN, CORRECT, DROP, IN_COMMANDS, describe_value
from lamina.data.sentences import USUAL_READING, SentenceReading, sentences_in
from lamina.data.squad import AnswerChecking, DuplicateIds, examples_without_problems, walk_value
from lamina.errors import LaminaError

T = TypeVar("T")


def examples_of(
    data: object, name: str = "data", *, duplicate_ids: DuplicateIds = "error", answers: AnswerChecking = "check"
) -> list[Example]:
    """Return the examples of data in memory.

    Args:
        data: A list of rows (dicts), a dict of columns, a pandas DataFrame, a `datasets.Dataset`, a SQuAD object, or a list of
            `Example`. Answers that are None, NaN or empty mean that the question is unanswerable. An answer without a
            start is searched in the context.
        name: What to call the data in messages.
        duplicate_ids: "error" or "rename", for ids that occur twice.
        answers: "check", "ignore" to read questions for predicting, or "optional" if the rows may have no answers at all.

    Raises:
        LaminaError: If a row has a problem. The message names the row, counted from 1.
        TypeError: If `data` is of none of these types.
    """
    if (own := _objects(data, Example)) is not None:
        _check_unique((example.id for example in own), name)
        return own
    corpus = isinstance(data, Mapping) and isinstance(data.get("data"), list)
    value = plain_value(data) if corpus else rows_of(data, name)
    found = [
        replace(each, problems=tuple(replace(problem, fix=without_command(problem.fix)) for problem in each.problems))
        for each in walk_value(value, name, duplicate_ids, answers)
    ]
    return examples_without_problems(found)


def sentences_of(data: object, name: str = "data", how: SentenceReading = USUAL_READING) -> list[Sentence]:
    """Return the sentences of data in memory.

    Args:
        data: A list of rows (dicts), a dict of columns, a pandas DataFrame, a `datasets.Dataset`, or a list of `Sentence`.
        name: What to call the data in messages.
        how: The columns to read, and what to do with broken rows.

    Raises:
        LaminaError: If a row is broken and `how.skip_broken` is false. The message names the row, counted from 1.
        TypeError: If `data` is of none of these types.
    """
    if (own := _objects(data, Sentence)) is not None:
        _check_unique((sentence.id for sentence in own), name)
        return own
    return sentences_in(list_table(rows_of(data, name)), name, how)


def rows_of(data: object, name: str = "data") -> list[dict[str, object]]:
    """Return the rows of data in memory as dicts of JSON values. Missing values are None."""
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # pandas
        data = data.to_dict("records")
    if isinstance(data, Mapping):
        return _rows_of_columns(data, name)
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise TypeError(f"{name} must be rows (dicts), a DataFrame or a Dataset, not {type(data).__name__}")
    rows: list[dict[str, object]] = []
    for row in data:
        if not isinstance(row, Mapping):
            raise TypeError(f"{name}, row {len(rows) + 1} must be a dict, not {type(row).__name__}")
        rows.append(plain_row(row))
    if not rows:
        raise LaminaError(f"{name}: holds no rows. Fix: give at least one")
    return rows


def _rows_of_columns(columns: Mapping[str, object], name: str) -> list[dict[str, object]]:
    """Return the rows of a dict of columns, such as a slice of a `datasets.Dataset`."""
    if tables := [key for key, column in columns.items() if hasattr(column, "column_names") or hasattr(column, "columns")]:
        raise TypeError(f"{name} holds several datasets ({', '.join(tables)}): choose one, as in data[{tables[0]!r}]")
    plain = plain_row(columns)
    lists = {key: column for key, column in plain.items() if isinstance(column, list)}
    if odd := [key for key in plain if key not in lists]:
        raise TypeError(f"{name}: the column {odd[0]!r} must be a list, not {type(columns[odd[0]]).__name__}")
    sizes = {key: len(column) for key, column in lists.items()}
    if len(set(sizes.values())) != 1 or not all(sizes.values()):
        raise LaminaError(f"{name}: the columns have different lengths or are empty: {sizes}. Fix: make them equally long")
    return [dict(zip(lists, cells, strict=True)) for cells in zip(*lists.values(), strict=True)]


def _objects(data: object, kind: type[T]) -> list[T] | None:
    """Return data that is a list of objects of this type already, else None."""
    if not isinstance(data, Sequence) or isinstance(data, str | bytes) or not data:
        return None
    found = [item for item in data if isinstance(item, kind)]
    if found and len(found) != len(data):
        odd = next(item for item in data if not isinstance(item, kind))
        raise TypeError(f"expected only {kind.__name__} objects, found {describe_value(odd)} too")
    return found or None


def without_command(fix: str) -> str:
    """Return a fix for data in memory, which no command can clean."""
    return fix.replace(DROP, CORRECT).replace(CLEAN, "correct the row").replace(IN_COMMANDS, "")


def _check_unique(ids: Iterable[str], name: str) -> None:
    seen: set[str] = set()
    for number, own in enumerate(ids, 1):
        if own in seen:
            raise LaminaError(f"{name}, row {number}: the id {own!r} is not unique. Fix: give each its own id")
        seen.add(own)


def read_twice(source: object) -> Any:
    """Return data in memory in a form that can be read twice: a SQuAD object, a list of objects, or rows."""
    if isinstance(source, Mapping) and isinstance(source.get("data"), list):  # a SQuAD object
        return plain_value(source)
    objects = source if isinstance(source, Sequence) and source else ()
    return source if any(isinstance(item, Example | Sentence) for item in objects) else rows_of(source)
