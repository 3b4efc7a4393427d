"""What every reader yields and everything else starts from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """A quoted span: ``context[start : start + len(text)] == text``."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Example:
    """One question put to one context. No answers means that the context does not hold one.

    `group` is the question's id: several contexts of one question share it. `article` names the document that
    the context is from, or of several contexts the one that the question is about; parts of the data are held out by article.
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]
    group: str
    article: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """One text with its label, or a pair of texts with what holds between them.

    The label is as the file has it, a class or a number (`lamina.data.labels` reads it); None where it is not known.
    """

    id: str
    first: str
    second: str | None = None
    label: str | None = None
