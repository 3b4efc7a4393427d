"""The columns of a table that hold questions, by their usual names.

Names are compared by `column_key`. If several columns fit, the first in the order of `QUESTION_COLUMNS` is taken. One line on
standard error names the columns if any has another than its standard name, or if several fit.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Final

from lamina.data.problems import short
from lamina.errors import LaminaError

QUESTION_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "question": ("question", "query"),
    "context": ("context", "passage", "paragraph", "text"),
    "answers": ("answers", "answer", "answer_text", "label", "text"),
    "answer_start": ("answer_start", "start"),
    "id": ("id",),
    "title": ("title", "article"),
}
_STANDARD: Final = frozenset({"question", "context", "answers", "answer", "answer_start", "id", "title", "article"})

_SURE: Final = frozenset(  # columns that no table of sentences has beside a question
    ("context", "passage", "paragraph", "answers", "answer", "answer_text", "answer_start")
)

_log: Final = logging.getLogger("lamina")
_noted: Final[set[str]] = set()


def question_columns(header: Sequence[str], file: str) -> dict[str, str]:
    """Return the name under which each column of a table of questions is read.

    A taken column has the name of its role, any other its own `column_key`. If several columns have one name, a row is read
    from the first of them that it has. Answers are read as `answers` or `answer`; only cells of `answers` may be JSON. A
    table without questions or contexts raises LaminaError.
    """
    lower = by_key(header)
    taken: dict[str, str] = {}  # role -> column
    for role, usual in QUESTION_COLUMNS.items():
        fitting = [lower[name] for name in usual if name in lower and lower[name] not in taken.values()]
        if fitting:
            taken[role] = fitting[0]
    if missing := [role for role in ("question", "context") if role not in taken]:
        both = " and ".join(missing)
        raise LaminaError(
            f"{file}: the header needs the columns question, context, answer (or answers), but has no {both}: "
            f"found {short(', '.join(header), 80)!r}. Fix: rename the columns, {both} among them"
        )
    _note_columns(file, taken, header)
    renamed = {
        column_key(column): "answer" if role == "answers" else role
        for role, column in taken.items()
        if column_key(column) not in _STANDARD
    }
    return {column: renamed.get(column_key(column), column_key(column)) for column in header}


def column_key(name: str) -> str:
    """Return the name of a column as names are compared: in lower case, with `_` for spaces and hyphens inside it.

    >>> column_key(" Answer Text"), column_key("answer-text")
    ('answer_text', 'answer_text')
    """
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def by_key(header: Sequence[str]) -> dict[str, str]:
    """Return the first column of each name, by its `column_key`."""
    return {column_key(name): name for name in reversed(header)}


def fits_questions(header: Sequence[str]) -> bool:
    """Return whether a table can be read as questions to contexts."""
    lower = by_key(header).keys()
    return all(not lower.isdisjoint(QUESTION_COLUMNS[role]) for role in ("question", "context"))


def holds_questions(header: Sequence[str]) -> bool:
    """Return whether a table surely holds questions to contexts.

    The columns question, text and label alone may be a table of sentences too.
    """
    lower = by_key(header).keys()
    return fits_questions(header) and not lower.isdisjoint(_SURE)


def _note_columns(file: str, taken: Mapping[str, str], header: Sequence[str]) -> None:
    lower, clauses = by_key(header), []
    for role, column in taken.items():
        key = column_key(column)
        rest = [lower[name] for name in QUESTION_COLUMNS[role] if name in lower and name not in _STANDARD | {key}]
        unused = [*twins(column, header), *(name for name in rest if name not in taken.values())]
        if key not in _STANDARD or unused:
            clauses.append(column_clause(role, column, unused))
    note_once(file, clauses)


def twins(column: str, header: Sequence[str]) -> list[str]:
    """Return the other columns of the same name as a taken one.

    >>> twins("Answer", ["Answer", "answer", "Answer", "id"])
    ['answer', 'Answer']
    """
    same = [name for name in header if column_key(name) == column_key(column)]
    same.remove(column)
    return same


def column_clause(role: str, column: str, unused: Sequence[str]) -> str:
    """Return which column a role is read from, and which columns would fit as well.

    >>> column_clause("context", "passage", ["text"])
    "context from 'passage' (not 'text')"
    >>> column_clause("answers", "answer", ["answer"])
    "answers from the first 'answer'"
    """
    first = "the first " if column in unused else ""
    others = [repr(name) for name in unused if name != column]
    return f"{role} from {first}{column!r}" + (f" (not {', '.join(others)})" if others else "")


def note_once(file: str, clauses: Sequence[str]) -> None:
    """Log one line on the columns that are read, once a process. Without clauses there is nothing to say.

    Without a configuration of `logging` the line goes to standard error.
    """
    line = f"{file}: columns: {', '.join(clauses)}"
    if clauses and line not in _noted:
        _noted.add(line)
        _log.warning(line)
