"""The types that all readers return: examples of questions, and sentences."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """A span of the context: ``context[start : start + len(text)] == text``."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Example:
    """One question with one context. Without answers, the context does not answer the question.

    `group` is the id of the question, which all of its contexts share. `article` names the document of the context. If a
    question has several contexts, it names the document that the question is about. Splits hold out whole articles. `source`
    names the training set of the question if there are several (`lamina.data.training_sets`); else it is empty.
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]
    group: str
    article: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One text or a pair of texts, with a label.

    The label is the text that the file has, a class or a number (`lamina.data.labels` parses it), or None if unknown.
    """

    id: str
    first: str
    second: str | None = None
    label: str | None = None
