"""Problems in files and counts of what files hold, shared by all readers of data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

MISSING: Final = object()
CORRECT: Final = "correct it or remove it"
CLEAN: Final = "run lamina data clean {file}"  # the text of a problem has the name of its file in place of {file}
IN_COMMANDS: Final = " (in a command: --duplicate-ids rename)"
RENAME: Final = f'set duplicate_ids = "rename"{IN_COMMANDS}'
DROP: Final = f"correct it, or {CLEAN} to drop it"


def number(count: int, what: str) -> str:
    """Return a count with its noun.

    >>> number(1, "question"), number(1200, "question")
    ('1 question', '1,200 questions')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a file. As text it is one line: `FILE, WHERE: what is wrong. Fix: what to do`."""

    file: str
    where: str
    what: str
    fix: str = CORRECT

    def __str__(self) -> str:
        return f"{self.fact}. Fix: {self.fix.replace('{file}', self.file)}"

    @property
    def fact(self) -> str:
        """Return the problem without the fix."""
        return f"{', '.join(filter(None, (self.file, self.where)))}: {self.what}"


@dataclass(slots=True)
class Counts:
    """Numbers of what a file holds. `unanswerable` and `answers` leave out questions that cannot be repaired.

    The contexts of SQuAD JSON are its paragraphs. The contexts of a table are its different contexts.
    """

    articles: int = 0
    contexts: int = 0
    questions: int = 0
    unanswerable: int = 0
    answers: int = 0
    duplicate_ids: int = 0

    def __str__(self) -> str:
        """Return the counts as one line.

        >>> str(Counts(2, 3, 10, 4, 7, 1))
        '10 questions (4 unanswerable) with 7 answers, on 3 contexts of 2 articles; 1 duplicate id'
        """
        questions = f"{number(self.questions, 'question')} ({self.unanswerable:,} unanswerable)"
        texts = f"{number(self.contexts, 'context')} of {number(self.articles, 'article')}"
        duplicates = f"; {number(self.duplicate_ids, 'duplicate id')}" if self.duplicate_ids else ""
        return f"{questions} with {number(self.answers, 'answer')}, on {texts}{duplicates}"


@dataclass(frozen=True, slots=True)
class Report:
    """The result of `check`."""

    file: str
    counts: Counts
    problems: list[Problem]

    def __str__(self) -> str:
        """Return the counts and the problems, one a line."""
        return "\n".join([*map(str, self.problems), f"{self.file}: {self.counts}"])


class Fault(Exception):  # noqa: N818  (it never leaves the readers)
    """What is wrong with a row or a value, and the fix."""

    def __init__(self, what: str, fix: str = CORRECT) -> None:
        super().__init__(what)
        self.what, self.fix = what, fix


def text_fault(value: object, name: str) -> str | None:
    """Return what is wrong with a value that must be a text that is not empty, or None."""
    if value is MISSING:
        return f"{name} is missing"
    if not isinstance(value, str):
        return f"{name} is {describe_value(value)}, not a text"
    if not value.strip():
        return f"{name} is empty"
    try:
        value.encode()
    except UnicodeEncodeError as error:
        return f"{name} holds half a character (a lone surrogate) at {error.start}"
    return None


def describe_value(value: object) -> str:
    """Return a JSON value in a few words, for messages."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float | str):
        return repr(short(value) if isinstance(value, str) else value)
    if isinstance(value, bytes | bytearray | memoryview):
        return "bytes"
    return "a list" if isinstance(value, list) else "an object"


def id_note(own_id: object) -> str:
    """Return an id in brackets, for messages; "" without an id, or for one of white space."""
    return f" (id {short(str(own_id))})" if isinstance(own_id, int | str) and str(own_id).strip() else ""


def short(text: str, limit: int = 40) -> str:
    """Return a text on one line of at most `limit` characters."""
    line = " ".join(text[: 4 * limit].split()) or text[:limit]
    return line if len(line) <= limit else line[: limit - 1] + "…"
