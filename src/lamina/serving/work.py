"""What the queue computes: the lanes, each a model and one way to use it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lamina.errors import LaminaError
from lamina.utils.progress import Progress

if TYPE_CHECKING:
    from lamina.data.examples import Example
    from lamina.reader.load import Reader
    from lamina.reader.replies import Reply

BYTES_PER_TOKEN: Final = 4  # about, for English; more for scripts whose letters have several bytes
MOST_ANSWERS: Final = 20  # a model keeps as many answers of a text


@dataclass(frozen=True)
class SpanLane:
    """Answers questions: an item is an `Example`, its result a `Prediction`."""

    reader: Reader

    def run(self, items: Sequence[Any], progress: Progress) -> Sequence[Any]:
        return self.reader.predict(items, progress)


@dataclass(frozen=True)
class ClassifyLane:
    """Classifies: an item is a text or a pair, its result a `Label`."""

    reader: Reader
    task: str | None
    pairs: bool  # texts and pairs go to different tasks

    def run(self, items: Sequence[Any], progress: Progress) -> Sequence[Any]:
        return self.reader.classify(list(items), task=self.task)


@dataclass(frozen=True)
class SimilarLane:
    """Compares: an item is a pair, its result a score."""

    reader: Reader
    task: str | None

    def run(self, items: Sequence[Any], progress: Progress) -> Sequence[Any]:
        return self.reader.similarity([one for one, _ in items], [two for _, two in items], task=self.task)


@dataclass(frozen=True)
class EmbedLane:
    """Embeds: an item is a text, its result a vector."""

    reader: Reader
    task: str | None

    def run(self, items: Sequence[Any], progress: Progress) -> Sequence[Any]:
        vectors: Sequence[Any] = self.reader.embed(list(items), task=self.task).tolist()
        return vectors


@dataclass(frozen=True)
class WhyLane:
    """Explains: an item is a question with its text, its result a `Why`."""

    reader: Reader

    def run(self, items: Sequence[Any], progress: Progress) -> Sequence[Any]:
        from lamina.serving.why import explain

        return [explain(self.reader, item, progress) for item in items]


def question_items(reader: Reader, questions: Sequence[str], texts: Sequence[str]) -> tuple[list[Example], list[int]]:
    """Return every question with every text, question by question, and the tokens of each, about.

    Raises:
        LaminaError: A question or all texts are empty, a text is not UTF-8, or the model does not answer questions.
    """
    from lamina.reader.questions import check_questions, pairs
    from lamina.reader.trained import check_text

    check_questions(reader.trained, questions, 1)
    for number, text in enumerate(texts, 1):
        check_text(f"text {number}", text)
    if not any(text.strip() for text in texts):
        raise LaminaError("context: there is no text to answer from. Fix: give a text")
    window = reader.recipe.window
    room = max(1, window.length - 24)
    step = max(1, room - window.overlap if window.overlap is not None else min(room, window.step or 128))
    asked, read = ([len(one.encode()) // BYTES_PER_TOKEN + 1 for one in some] for some in (questions, texts))
    costs = [_windows_cost(question, text, room, step) for question in asked for text in read]
    return pairs(questions, texts), costs


def _windows_cost(asked: int, read: int, room: int, step: int) -> int:
    """Return the tokens of all windows of a question and a text, from the tokens of both."""
    windows = 1 + max(0, -(-(read - room) // step))
    return asked * windows + (read if windows == 1 else windows * room)


def text_costs(texts: Iterable[str | tuple[str, str]]) -> list[int]:
    """Return the tokens of each text or pair, about."""
    return [len("".join(text).encode()) // BYTES_PER_TOKEN + 3 for text in texts]


def replies_of(
    reader: Reader,
    questions: Sequence[str],
    texts: int,
    predictions: Sequence[Any],
    *,
    threshold: float | None,
    top_k: int,
) -> list[Reply]:
    """Return the replies that `Reader.answer` gives, from the predictions of `question_items`."""
    from lamina.reader.questions import best_quotes, limit_for
    from lamina.reader.replies import reply_of

    limit, own = (limit_for(reader.trained, texts, given) for given in (threshold, None))
    replies = []
    for number, question in enumerate(questions):
        quotes = best_quotes(reader.trained, top_k)
        for context in range(texts):
            quotes.add(context, predictions[number * texts + context])
        replies.append(reply_of(question, quotes, limit, top_k, own))
    return replies
