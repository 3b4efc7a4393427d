"""Answers to questions, from one text or many, at once or text by text."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any, overload

from lamina.answers.across_contexts import BestQuotes
from lamina.answers.calibration import Calibration
from lamina.answers.decisions import SpanDecision
from lamina.answers.decode import AnswerOptions, Prediction, decode_piece, merge
from lamina.config.recipe import TaskOptions
from lamina.data.examples import Example
from lamina.data.windows import cut_examples
from lamina.errors import LaminaError
from lamina.model.inference import span_logits
from lamina.reader.replies import Reply, reply_of
from lamina.reader.trained import TrainedReader, check_text
from lamina.runs.load import Trained
from lamina.tasks.kind import JsonObject, ScoreTable
from lamina.tasks.registry import kind_of
from lamina.tasks.spans import SPANS
from lamina.utils.progress import Progress, Silent


class QuestionReader(TrainedReader):
    """Answers questions, if the model has a task of spans. Whole data sets go through the model piece by piece, in bounded
    memory."""

    @property
    def decision(self) -> SpanDecision:
        """When the model answers "no answer", and what its scores mean; fitted in training."""
        return self.trained.span_decision

    @property
    def threshold(self) -> float:
        return self.decision.threshold

    @property
    def question_threshold(self) -> float:
        """The threshold for a question over several contexts."""
        return self.decision.over_contexts

    @property
    def calibration(self) -> Calibration:
        return self.decision.calibration

    @overload  # a text is an iterable of texts to the type checker, and the first match counts
    def answer(  # type: ignore[overload-overlap]
        self, questions: str, context: str | Iterable[str], *, threshold: float | None = None, top_k: int = 1
    ) -> Reply: ...
    @overload
    def answer(
        self, questions: Iterable[str], context: str | Iterable[str], *, threshold: float | None = None, top_k: int = 1
    ) -> list[Reply]: ...
    def answer(
        self,
        questions: str | Iterable[str],
        context: str | Iterable[str],
        *,
        threshold: float | None = None,
        top_k: int = 1,
    ) -> Reply | list[Reply]:
        """Answers one question or many from one text or many; each question gets the best answer that any text holds.

        `threshold` replaces the model's own: a greater one gives "no answer" less often, ``math.inf`` never. `top_k` asks
        for runners-up. A threshold of nan raises ValueError.
        """
        asked, texts = texts_of("questions", questions), texts_of("context", context)
        replies = list(self.replies(asked, texts, threshold=threshold, top_k=top_k))
        return replies[0] if isinstance(questions, str) else replies

    def replies(
        self,
        questions: Sequence[str],
        contexts: Sequence[str],
        *,
        threshold: float | None = None,
        top_k: int = 1,
        progress: Progress | None = None,
    ) -> Iterator[Reply]:
        """As `answer`, one reply after the other, as soon as it is known."""
        check_questions(self.trained, questions, top_k)
        for number, text in enumerate(contexts, 1):
            check_text(f"text {number}", text)
        if not any(text.strip() for text in contexts):
            raise LaminaError("there is no text to answer from: the context is empty")
        examples, options = pairs(questions, contexts), answer_options(self.trained, top_k)
        predictions = span_predictions(self.trained, examples, options, progress or Silent(), remember=True)
        limit, own = (limit_for(self.trained, len(contexts), given) for given in (threshold, None))

        def reply(question: str) -> Reply:
            quotes = best_quotes(self.trained, top_k)
            for context, prediction in enumerate(islice(predictions, len(contexts))):
                quotes.add(context, prediction)
            return reply_of(question, quotes, limit, top_k, own)

        return map(reply, questions)

    def text_by_text(self, questions: Sequence[str], top_k: int = 1) -> TextByText:
        """Answers questions from texts that are given bit by bit; no text is kept."""
        return TextByText(self.trained, questions, top_k)

    def _scores(self, name: str, options: TaskOptions, examples: Sequence[Any], progress: Progress) -> ScoreTable:
        if kind_of(options) is not SPANS:
            return super()._scores(name, options, examples, progress)
        predictions = list(span_predictions(self.trained, examples, self.recipe.answer, progress, task=name))
        return SPANS.score_predictions(predictions, examples, self.trained.settings(name), self.trained.span_decision_of(name))

    def _predictions(
        self, name: str, options: TaskOptions, examples: Sequence[Any], wanted: Collection[str], progress: Progress
    ) -> dict[str, JsonObject]:
        if kind_of(options) is not SPANS:
            return super()._predictions(name, options, examples, wanted, progress)
        predictions = list(span_predictions(self.trained, examples, self.recipe.answer, progress, task=name))
        return SPANS.files_of(predictions, examples, self.trained.settings(name), self.trained.span_decision_of(name), wanted)

    def predict(self, examples: Sequence[Example], progress: Progress | None = None) -> list[Prediction]:
        """The n best answers to each example, with the score of "no answer"."""
        return list(span_predictions(self.trained, examples, self.recipe.answer, progress or Silent()))


class TextByText:
    """Questions that are asked of text after text. Only the best quotes are kept."""

    def __init__(self, trained: Trained, questions: Sequence[str], top_k: int) -> None:
        check_questions(trained, questions, top_k)
        self._trained, self._questions, self._top_k = trained, questions, top_k
        self._quotes = [best_quotes(trained, top_k) for _ in questions]
        self.texts = 0  # read so far
        self.windows = 0  # run through the model so far, over all questions

    def read(self, texts: Sequence[str]) -> None:
        """Reads more texts, all in one batch; their numbers follow those read before."""
        for number, text in enumerate(texts, self.texts + 1):
            check_text(f"text {number}", text)
        counter, options = _Counter(), answer_options(self._trained, self._top_k)
        predictions = span_predictions(self._trained, pairs(self._questions, texts), options, counter)
        for (quotes, number), prediction in zip(product(self._quotes, range(len(texts))), predictions, strict=True):
            quotes.add(self.texts + number, prediction)
        self.texts += len(texts)
        self.windows += counter.total

    @property
    def wanted(self) -> set[int]:
        """The numbers of the texts that the best quotes so far are from."""
        return {quote.context for quotes in self._quotes for quote in quotes.best}

    def replies(self, threshold: float | None = None) -> list[Reply]:
        """The replies to all questions, as `Reader.answer` would give them for all texts so far."""
        if not self.texts:
            raise LaminaError("there is no text to answer from: none was read")
        limit, own = (limit_for(self._trained, self.texts, given) for given in (threshold, None))
        return [
            reply_of(question, quotes, limit, self._top_k, own)
            for question, quotes in zip(self._questions, self._quotes, strict=True)
        ]


class _Counter(Silent):
    """Progress that only counts what there is to do."""

    total = 0

    def start(self, label: str, total: int, done: int = 0) -> None:
        self.total = total


def texts_of(name: str, given: str | Iterable[str]) -> list[str]:
    """One text or several as a list; TypeError for anything else."""
    found = [given] if isinstance(given, str) else given
    if isinstance(found, bytes | Mapping) or not isinstance(found, Iterable):
        raise TypeError(f"{name} must be a text or several texts, not {type(given).__name__}")
    texts = list(found)
    if odd := [text for text in texts if not isinstance(text, str)]:
        raise TypeError(f"{name} must be texts, but one is {type(odd[0]).__name__}")
    return texts


def check_questions(trained: Trained, questions: Sequence[str], top_k: int) -> None:
    """Refuses a model that has no spans, empty questions, and fewer than one answer."""
    _ = trained.span_task
    for number, question in enumerate(questions, 1):
        if not question.strip():
            raise LaminaError(f"question {number} is empty")
        check_text(f"question {number}", question)
    if not isinstance(top_k, int) or isinstance(top_k, bool):
        raise TypeError(f"top_k must be a whole number, not {type(top_k).__name__}")
    if top_k < 1:
        raise LaminaError(f"top_k = {top_k}: ask for at least one answer")


def answer_options(trained: Trained, top_k: int) -> AnswerOptions:
    """The model's own options, with at least `top_k` answers."""
    options = trained.recipe.answer
    return options.model_copy(update={"n_best": max(top_k, options.n_best)})


def best_quotes(trained: Trained, top_k: int) -> BestQuotes:
    return BestQuotes(top_k, trained.span_decision.calibration, trained.recipe.answer.across)


def limit_for(trained: Trained, contexts: int, threshold: float | None) -> float:
    """The threshold for so many contexts: the given one, else the model's own."""
    if threshold is not None and math.isnan(threshold):
        raise ValueError("threshold is nan, which no score exceeds; give a number: math.inf always answers, -math.inf never")
    decision = trained.span_decision
    own = decision.over_contexts if contexts > 1 else decision.threshold
    return own if threshold is None else threshold


def pairs(questions: Sequence[str], texts: Sequence[str]) -> list[Example]:
    """Every question with every text, question by question."""
    return [
        Example(f"{q}/{t}", question, text, (), str(q), str(t))
        for q, question in enumerate(questions)
        for t, text in enumerate(texts)
    ]


def span_predictions(
    trained: Trained,
    examples: Sequence[Example],
    options: AnswerOptions,
    progress: Progress,
    *,
    task: str | None = None,
    remember: bool = False,
) -> Iterator[Prediction]:
    """Predictions piece by piece, so that memory stays bounded; the last example of a piece may go on in the next."""
    task = task or trained.span_task
    cutting = cut_examples(examples, trained.tokenizer, trained.recipe.window, remember=remember)
    progress.start("answering", len(cutting))
    open_number, open_pieces = 0, list[Prediction]()
    for windows in cutting.pieces():
        logits = span_logits(trained.model, windows, task=task, progress=progress)
        found = decode_piece(windows, logits.start, logits.end, examples, options)
        for number, prediction in found.items():
            if number != open_number:
                yield merge(open_pieces, options)
                open_number, open_pieces = number, []
            open_pieces.append(prediction)
    if open_pieces:
        yield merge(open_pieces, options)
