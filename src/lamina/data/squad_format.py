"""The types of SQuAD 2.0 JSON."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from lamina.data.examples import Example


class SquadAnswer(TypedDict):
    """An answer: a span of the context."""

    text: str
    answer_start: int


class SquadQuestion(TypedDict):
    """A question. Two keys are not SQuAD's: `group` is read back, and `kind` is the kind of a synthetic question."""

    id: str
    question: str
    answers: list[SquadAnswer]
    is_impossible: bool
    group: NotRequired[str]
    kind: NotRequired[str]


class SquadParagraph(TypedDict):
    """A context with its questions."""

    context: str
    qas: list[SquadQuestion]


class SquadArticle(TypedDict):
    """A document with its paragraphs."""

    title: str
    paragraphs: list[SquadParagraph]


class SquadCorpus(TypedDict):
    """A whole file."""

    version: str
    data: list[SquadArticle]


def answers_of(example: Example) -> list[SquadAnswer]:
    """Return the answers of an example with their starts."""
    return [{"text": answer.text, "answer_start": answer.start} for answer in example.answers]
