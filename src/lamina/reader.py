"""A trained model as an object that answers questions.

>>> import lamina
>>> reader = lamina.load("runs/quickstart")  # doctest: +SKIP
>>> reader.answer("Who built the mill?", "The mill was built by Ada Thorn.").text  # doctest: +SKIP
'Ada Thorn'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import overload

import torch

from lamina.answers.calibration import Calibration
from lamina.answers.decode import AnswerOptions, Prediction, decode_piece, merge
from lamina.assemble import Trained, load_trained
from lamina.data.examples import Example
from lamina.data.windows import cut_examples
from lamina.errors import LaminaError
from lamina.evaluation import score_all
from lamina.inference import span_logits
from lamina.progress import Progress, Silent
from lamina.training.options import choose_device


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


class Reader:
    """A trained model, its tokenizer, its threshold for "no answer" and what its scores mean as probabilities."""

    def __init__(self, trained: Trained) -> None:
        self.recipe, self.model, self.tokenizer = trained.recipe, trained.model, trained.tokenizer
        self.threshold, self.calibration = trained.threshold, trained.calibration

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

        `threshold` replaces the model's own: a greater one says "no answer" less often. `top_k` asks for runners-up.
        """
        asked = [questions] if isinstance(questions, str) else list(questions)
        texts = [context] if isinstance(context, str) else list(context)
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
        for number, question in enumerate(questions, 1):
            if not question.strip():
                raise LaminaError(f"question {number} is empty")
            _check_text(f"question {number}", question)
        for number, text in enumerate(contexts, 1):
            _check_text(f"text {number}", text)
        if not any(text.strip() for text in contexts):
            raise LaminaError("there is no text to answer from: the context is empty")
        if top_k < 1:
            raise LaminaError(f"top_k = {top_k}: ask for at least one answer")
        examples = [
            Example(f"{q}/{t}", question, text, (), str(q), str(t))
            for q, question in enumerate(questions)
            for t, text in enumerate(contexts)
        ]
        options = self.recipe.answer.model_copy(update={"n_best": max(top_k, self.recipe.answer.n_best)})
        predictions = self._predictions(examples, options, progress or Silent(), remember=True)
        limit = self.threshold if threshold is None else threshold
        return (
            _reply(question, list(islice(predictions, len(contexts))), limit, self.calibration, top_k) for question in questions
        )

    def predict(self, examples: Sequence[Example], progress: Progress | None = None) -> list[Prediction]:
        """The n best answers to each example, with the score of "no answer"."""
        return list(self._predictions(examples, self.recipe.answer, progress or Silent()))

    def evaluate(self, examples: Sequence[Example], progress: Progress | None = None) -> dict[str, dict[str, float]]:
        """The official SQuAD 2.0 scores at threshold 0, at the model's own, and the best that any threshold gives."""
        return score_all(self.predict(examples, progress), examples, self.threshold)

    def _predictions(
        self, examples: Sequence[Example], options: AnswerOptions, progress: Progress, *, remember: bool = False
    ) -> Iterator[Prediction]:
        """Piece by piece, so that memory stays bounded; the last example of a piece may go on in the next."""
        cutting = cut_examples(examples, self.tokenizer, self.recipe.window, remember=remember)
        progress.start("answering", len(cutting))
        open_number, open_parts = 0, list[Prediction]()
        for windows in cutting.pieces():
            logits = span_logits(self.model, windows, progress=progress)
            found = decode_piece(windows, logits.start, logits.end, examples, options)
            for number, prediction in found.items():
                if number != open_number:
                    yield merge(open_parts, options)
                    open_number, open_parts = number, []
                open_parts.append(prediction)
        if open_parts:
            yield merge(open_parts, options)


def load(
    model: str | Path,
    *,
    device: str = "auto",
    threads: int | None = None,
    allow_pickle: bool = False,
    tokenizer: str | None = None,
) -> Reader:
    """A reader from a run folder, or from a question-answering checkpoint: a folder or a hub id.

    `tokenizer` names another tokenizer than the checkpoint's own; `allow_pickle` lets its weights be a pickle, which can
    run code that is hidden in it.
    """
    if threads:
        torch.set_num_threads(threads)
    return Reader(load_trained(model, choose_device(device), allow_pickle=allow_pickle, tokenizer=tokenizer))


def _check_text(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LaminaError(f"{name}, character {error.start}: not UTF-8 text") from None


def _reply(question: str, predictions: Sequence[Prediction], threshold: float, calibration: Calibration, top_k: int) -> Reply:
    """The most certain answer of all texts; "no answer" only if every text says so.

    A candidate counts by how far it is above the "no answer" of its own text, so that texts of different kinds can be
    compared; all candidates of all texts, and "no answer", share one probability.
    """
    ranked = [
        (candidate.score - prediction.null, context, candidate)
        for context, prediction in enumerate(predictions)
        for candidate in prediction.candidates
    ]
    ranked.sort(key=lambda item: -item[0])
    together = Prediction("", null=0.0, candidates=tuple(replace(c, score=margin) for margin, _, c in ranked))
    no_answer, *chances = calibration.probabilities(together)
    best = zip(ranked[:top_k], chances[:top_k], strict=True)
    quotes = [Quote(c.text, chance, context, c.start, c.end) for (_, context, c), chance in best]
    if not ranked or -ranked[0][0] > threshold:
        return Reply(question, None, no_answer, no_answer=no_answer, others=tuple(quotes) if top_k > 1 else ())
    first, *others = quotes
    return Reply(question, first.text, first.confidence, first.context, first.start, first.end, no_answer, tuple(others))
