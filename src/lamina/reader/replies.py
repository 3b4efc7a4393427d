"""Replies to questions, as objects and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamina.answers.across_contexts import BestQuotes, Quote
from lamina.reader.documents import Document


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to one question: a quoted answer or "no answer", with its confidence.

    No rival has more confidence than the reply: neither a runner-up nor, with an answer, "no answer".

    Attributes:
        question: The question.
        answer: The best quote; None for "no answer".
        no_answer: The probability, from 0 to 1, that the texts do not hold an answer.
        others: The runners-up, at most ``top_k - 1``. Without an answer, the `top_k` best quotes.
    """

    question: str
    answer: Quote | None
    no_answer: float
    others: tuple[Quote, ...] = ()

    def __str__(self) -> str:
        """Return the answer with its confidence as text.

        >>> str(Reply("Who?", Quote("Ada", 0.912, 0, 0, 3), 0.05)), str(Reply("Who?", None, 0.8))
        ('Ada (confidence 0.91)', 'no answer (confidence 0.80)')
        """
        return f"{'no answer' if self.text is None else self.text} (confidence {self.confidence:.2f})"

    @property
    def confidence(self) -> float:
        """The probability, from 0 to 1, that this reply is right, be it a quote or "no answer"."""
        return self.no_answer if self.answer is None else self.answer.confidence

    @property
    def text(self) -> str | None:
        """The text of the answer, as the context spells it; None for "no answer"."""
        return None if self.answer is None else self.answer.text

    @property
    def context(self) -> int | None:
        """The number of the context that is quoted, counted from 0; None for "no answer"."""
        return None if self.answer is None else self.answer.context

    @property
    def start(self) -> int | None:
        """The index of the first character of the answer in its context; None for "no answer"."""
        return None if self.answer is None else self.answer.start

    @property
    def end(self) -> int | None:
        """The index after the last character of the answer in its context; None for "no answer"."""
        return None if self.answer is None else self.answer.end


def reply_of(question: str, quotes: BestQuotes, threshold: float, top_k: int, own: float) -> Reply:
    """Return the reply that the best quotes of all texts give. `own` is the threshold of the model itself."""
    no_answer, found = quotes.in_order(threshold, own)
    if quotes.answer(threshold) is None:
        return Reply(question, None, no_answer, tuple(found) if top_k > 1 else ())
    return Reply(question, replace(found[0], no_answer=no_answer), no_answer, tuple(found[1:]))


def reply_json(reply: Reply, documents: Sequence[Document]) -> dict[str, object]:
    """Return a reply as a JSON object, with the place and the sentence of each quote."""
    nothing: dict[str, object] = dict.fromkeys(("context", "place", "start", "end", "sentence"))
    return {
        "question": reply.question,
        "answer": reply.text,
        "confidence": reply.confidence,
        "no_answer": reply.no_answer,
        **(nothing if reply.answer is None else _place_json(reply.answer, documents)),
        "others": [
            {"answer": quote.text, "confidence": quote.confidence} | _place_json(quote, documents) for quote in reply.others
        ],
    }


def _place_json(quote: Quote, documents: Sequence[Document]) -> dict[str, object]:
    document = documents[quote.context]
    first, last = document.sentence(quote.start, quote.end)
    return {
        "context": document.name,
        "place": document.place(quote.start),
        "start": quote.start,
        "end": quote.end,
        "sentence": document.text[first:last],
    }
