"""Answers to questions, from one text or many, at once or text by text."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, product
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from lamina.answers.across_contexts import BestQuotes
from lamina.answers.calibration import Calibration
from lamina.answers.decisions import SpanDecision
from lamina.answers.decode import AnswerOptions, Prediction, decode_piece, merge
from lamina.data.examples import Example
from lamina.data.windows import cut_examples
from lamina.errors import LaminaError, LaminaWarning
from lamina.reader.other_languages import MOST, OtherLanguages
from lamina.reader.replies import Reply, reply_of
from lamina.reader.trained import TrainedReader, check_text
from lamina.runtime.ready import ReadyModel
from lamina.tasks.kind import JsonObject, ScoreTable
from lamina.tasks.registry import kind_of
from lamina.tasks.spans import SPANS
from lamina.utils.files import holds
from lamina.utils.progress import Progress, Silent

if TYPE_CHECKING:
    from lamina.config.recipe import TaskOptions


class QuestionReader(TrainedReader):
    """Answers questions, if the model has a task of spans. Whole datasets run through the model in pieces, in bounded
    memory."""

    @property
    def decision(self) -> SpanDecision:
        """The threshold for "no answer" and the calibration, as fitted on the held-out split."""
        return self.trained.span_decision

    @property
    def threshold(self) -> float:
        """The null odds above which the reply is "no answer", for a question on one context."""
        return self.decision.threshold

    @property
    def question_threshold(self) -> float:
        """The threshold for a question on several contexts."""
        return self.decision.over_contexts

    @property
    def calibration(self) -> Calibration:
        """The map from scores to confidences."""
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
        """Return the answer to one question, or to each of several, quoted from one text or several.

        Each question gets the best answer of all texts. Texts may have any length; memory stays bounded.

        >>> reply = reader.answer("Who built it?", "Ada Thorn built it.")  # doctest: +SKIP
        >>> reply.text, reply.start, reply.end  # doctest: +SKIP
        ('Ada Thorn', 0, 9)

        Args:
            questions: A question, or several.
            context: A text to answer from, or several.
            threshold: The null odds above which the reply is "no answer"; None for the threshold of the model. A greater
                threshold answers more often, ``math.inf`` always.
            top_k: The number of answers for each question, 1 or more. `Reply.others` holds those after the first.

        Returns:
            A `Reply` for one question; a list of them, in the same order, for several.

        Raises:
            LaminaError: A question or all texts are empty, or the model does not answer questions.
            TypeError: A question or text is not a str, `top_k` is not an int, or `threshold` is not a number.
            ValueError: `top_k` is less than 1, or `threshold` is nan.
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
        """Return an iterator over the replies of `answer`.

        Args:
            questions: The questions.
            contexts: The texts to answer from.
            threshold: As for `answer`.
            top_k: As for `answer`.
            progress: Where progress goes; nowhere if None.

        Returns:
            The replies in the order of the questions, each as soon as it is known.

        Raises:
            LaminaError: A question or all texts are empty, or the model does not answer questions.
        """
        check_questions(self.trained, questions, top_k)
        for number, text in enumerate(contexts, 1):
            check_text(f"text {number}", text)
        if not any(text.strip() for text in contexts):
            raise LaminaError("context: there is no text to answer from: the context is empty. Fix: give a text")
        named = [(f"text {n} ({text.strip()[:40]!r})", text) for n, text in enumerate(contexts, 1)]
        self._other_languages.warn(named + question_names(questions))
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
        """Return an object that answers questions from texts that it reads one after the other, in bounded memory.

        Args:
            questions: The questions.
            top_k: As for `answer`.

        Returns:
            An object with `read(texts)` and `replies()`; it stores the best quotes only.
        """
        return TextByText(self.trained, questions, top_k)

    @cached_property
    def _other_languages(self) -> OtherLanguages:
        return OtherLanguages(self.trained.language, self.trained.tokenizer)

    def _scores(self, name: str, options: TaskOptions, examples: Sequence[Any], progress: Progress) -> ScoreTable:
        if kind_of(options) is not SPANS or self.recipe.train.scorer == "bertvision_legacy":  # it needs all logits at once
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
        """Return the raw n-best answers of each example as objects. Works for span models only.

        No threshold is applied: `Prediction.null_odds` has the score of "no answer". `Reader.predictions` returns final
        predictions by id as plain JSON, for every kind of task.

        Args:
            examples: Questions with their contexts. Their answers are ignored.
            progress: Where progress goes; nowhere if None.

        Returns:
            A `Prediction` for each example, in the same order. Its answers are sorted, the best first.

        Raises:
            LaminaError: The model does not answer questions.
            TypeError: The examples are no `Example` objects.
        """
        if isinstance(examples, str | bytes) or not isinstance(examples, Sequence):
            raise TypeError(f"examples must be a list of Example, not {type(examples).__name__}")
        if odd := [example for example in examples if not isinstance(example, Example)]:
            what = f"examples must be Example objects, but one is {type(odd[0]).__name__}"
            raise TypeError(f"{what}; `predictions` takes rows and file names")
        return list(span_predictions(self.trained, examples, self.recipe.answer, progress or Silent()))


class TextByText:
    """Answers questions from one text after the other. Only the best quotes are kept."""

    def __init__(self, trained: ReadyModel, questions: Sequence[str], top_k: int) -> None:
        check_questions(trained, questions, top_k)
        self._trained, self._questions, self._top_k = trained, questions, top_k
        self._quotes = [best_quotes(trained, top_k) for _ in questions]
        self.texts = 0  # number of texts read so far
        self.windows = 0  # number of windows run through the model so far, over all questions
        self._other_languages = OtherLanguages(trained.language, trained.tokenizer)
        self._other_languages.warn(question_names(questions))
        self._warnings = MOST  # that may still be given

    def read(self, texts: Sequence[str], names: Sequence[str] | None = None) -> None:
        """Read more texts in one batch. Their numbers continue those of the texts before. Warnings use the names."""
        names = names or [f"text {number}" for number in range(self.texts + 1, self.texts + len(texts) + 1)]
        for name, text in zip(names, texts, strict=True):
            check_text(name, text)
        other = self._other_languages.warn(zip(names, texts, strict=True), most=self._warnings)
        self._warnings = max(0, self._warnings - other)
        counter, options = _Counter(), answer_options(self._trained, self._top_k)
        predictions = span_predictions(self._trained, pairs(self._questions, texts), options, counter)
        for (quotes, number), prediction in zip(product(self._quotes, range(len(texts))), predictions, strict=True):
            quotes.add(self.texts + number, prediction)
        self.texts += len(texts)
        self.windows += counter.total

    @property
    def wanted(self) -> set[int]:
        """The numbers of the texts that hold the best quotes so far."""
        return {quote.context for quotes in self._quotes for quote in quotes.best}

    def replies(self, threshold: float | None = None) -> list[Reply]:
        """Return the replies to all questions, as `Reader.answer` returns them for all texts so far."""
        if not self.texts:
            raise LaminaError("texts: there is no text to answer from. Fix: read a text first")
        limit, own = (limit_for(self._trained, self.texts, given) for given in (threshold, None))
        return [
            reply_of(question, quotes, limit, self._top_k, own)
            for question, quotes in zip(self._questions, self._quotes, strict=True)
        ]


class _Counter(Silent):
    """Progress that keeps the number of windows to run."""

    total = 0

    def start(self, label: str, total: int, done: int = 0) -> None:
        self.total = total


def texts_of(name: str, given: str | Iterable[str]) -> list[str]:
    """Return one text or several as a list; raise TypeError for anything else."""
    found = [given] if isinstance(given, str) else given
    if isinstance(found, bytes | Mapping) or not isinstance(found, Iterable):
        hint = f". Fix: read the file with lamina.read_document({str(given)!r}).text" if isinstance(given, Path) else ""
        raise TypeError(f"{name} must be a text or several texts, not {type(given).__name__}{hint}")
    texts = list(found)
    if odd := [text for text in texts if not isinstance(text, str)]:
        raise TypeError(f"{name} must be texts, but one is {type(odd[0]).__name__}")
    if name == "context" and (file := next((text for text in texts if _is_file(text)), None)) is not None:
        what = f"context: {file!r} is the name of a file, and it is read as the text itself"
        warnings.warn(f"{what}. Fix: pass lamina.read_document({file!r}).text", LaminaWarning, stacklevel=3)
    return texts


def question_names(questions: Sequence[str]) -> list[tuple[str, str]]:
    """Return the questions with names for messages."""
    return [(f"question {number}", question) for number, question in enumerate(questions, 1)]


def _is_file(text: str) -> bool:
    """Return whether a short text is the name of a file, such as "report.pdf"."""
    return len(text) < 256 and "." in text and holds(Path(text).is_file)


def check_questions(trained: ReadyModel, questions: Sequence[str], top_k: int) -> None:
    """Raise an error for a model without spans, an empty question, or `top_k` below 1."""
    _ = trained.span_task
    for number, question in enumerate(questions, 1):
        if not question.strip():
            raise LaminaError(f"question {number}: is empty. Fix: leave it out")
        check_text(f"question {number}", question)
    if not isinstance(top_k, int) or isinstance(top_k, bool):
        raise TypeError(f"top_k must be a whole number, not {type(top_k).__name__}")
    if top_k < 1:
        raise ValueError(f"top_k must be 1 or more, not {top_k}")


def answer_options(trained: ReadyModel, top_k: int) -> AnswerOptions:
    """Return the options of the model, with at least `top_k` answers."""
    options = trained.recipe.answer
    return options.model_copy(update={"n_best": max(top_k, options.n_best)})


def best_quotes(trained: ReadyModel, top_k: int) -> BestQuotes:
    return BestQuotes(top_k, trained.span_decision.calibration, trained.recipe.answer.across)


def limit_for(trained: ReadyModel, contexts: int, threshold: float | None) -> float:
    """Return the given threshold, else that of the model for this number of contexts."""
    if threshold is not None and (not isinstance(threshold, Real) or isinstance(threshold, bool)):
        raise TypeError(f"threshold must be a number, not {type(threshold).__name__}")
    if threshold is not None and math.isnan(threshold):
        raise ValueError("threshold is nan, which no score exceeds; give a number: math.inf always answers, -math.inf never")
    decision = trained.span_decision
    own = decision.over_contexts if contexts > 1 else decision.threshold
    return own if threshold is None else threshold


def pairs(questions: Sequence[str], texts: Sequence[str]) -> list[Example]:
    """Return every question with every text, question by question."""
    return [
        Example(f"{q}/{t}", question, text, (), str(q), str(t))
        for q, question in enumerate(questions)
        for t, text in enumerate(texts)
    ]


def span_predictions(
    trained: ReadyModel,
    examples: Sequence[Example],
    options: AnswerOptions,
    progress: Progress,
    *,
    task: str | None = None,
    remember: bool = False,
) -> Iterator[Prediction]:
    """Yield predictions in bounded memory. The last example of a piece may continue in the next piece."""
    task = task or trained.span_task
    cutting = cut_examples(examples, trained.tokenizer, trained.recipe.window, remember=remember)
    progress.start("answering", len(cutting))
    open_number, open_pieces = 0, list[Prediction]()
    for windows in cutting.pieces():
        logits = trained.engine.spans(windows, task, progress)
        found = decode_piece(windows, logits.start, logits.end, examples, options)
        for number, prediction in found.items():
            if number != open_number:
                yield merge(open_pieces, options)
                open_number, open_pieces = number, []
            open_pieces.append(prediction)
    if open_pieces:
        yield merge(open_pieces, options)
