"""Answers as they are returned: quotes with their places, and replies as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamina.reader.documents import Document


@dataclass(frozen=True, slots=True)
class Quote:
    """A possible answer: ``contexts[context][start:end] == text`` for the contexts that were given."""

    text: str
    confidence: float  # the probability that this is the answer
    context: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one question: a span of the text, or None when the text does not hold one.

    ``contexts[context][start:end] == text`` for the contexts that were given. `confidence` is the probability of what
    is said here, be it a span or "no answer"; `no_answer` is the probability that the text does not hold the answer.
    `others` are the runners-up, as many as were asked for (with "no answer", all spans are).
    """

    question: str
    text: str | None
    confidence: float
    context: int = 0
    start: int | None = None
    end: int | None = None
    no_answer: float = 0.0
    others: tuple[Quote, ...] = ()


def reply_json(reply: Reply, documents: Sequence[Document]) -> dict[str, object]:
    found = {} if reply.start is None or reply.end is None else _place_json(reply.context, reply.start, reply.end, documents)
    nothing: dict[str, object] = dict.fromkeys(("context", "place", "start", "end", "sentence"))
    return {
        "question": reply.question,
        "answer": reply.text,
        "confidence": reply.confidence,
        "no_answer": reply.no_answer,
        **(found or nothing),
        "others": [
            {"answer": quote.text, "confidence": quote.confidence}
            | _place_json(quote.context, quote.start, quote.end, documents)
            for quote in reply.others
        ],
    }


def _place_json(context: int, start: int, end: int, documents: Sequence[Document]) -> dict[str, object]:
    document = documents[context]
    first, last = document.sentence(start, end)
    return {
        "context": document.name,
        "place": document.place(start),
        "start": start,
        "end": end,
        "sentence": document.text[first:last],
    }
