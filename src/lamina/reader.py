"""A trained model as an object that answers questions.

>>> import lamina
>>> reader = lamina.load("runs/quickstart")  # doctest: +SKIP
>>> reader.answer("Who built the mill?", "The mill was built by Ada Thorn.").text  # doctest: +SKIP
'Ada Thorn'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import torch

from lamina.answers.decode import Prediction, decode
from lamina.assemble import load_run
from lamina.data.examples import Example
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import make_windows
from lamina.errors import LaminaError
from lamina.evaluation import score_all
from lamina.inference import span_logits
from lamina.model import Model
from lamina.progress import Progress
from lamina.recipe import Recipe
from lamina.training.options import choose_device


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one question: a span of the text, or None when the text does not hold one.

    ``contexts[context][start:end] == text`` for the contexts that were given. `confidence` is the probability of what
    is said here, be it a span or "no answer", among all the answers that were considered.
    """

    question: str
    text: str | None
    confidence: float
    context: int = 0
    start: int | None = None
    end: int | None = None


class Reader:
    """A trained model, its tokenizer and its threshold for "no answer"."""

    def __init__(self, recipe: Recipe, model: Model, tokenizer: Tokenizer, threshold: float) -> None:
        self.recipe, self.model, self.tokenizer, self.threshold = recipe, model, tokenizer, threshold

    @overload  # a text is a sequence of texts to the type checker, and the first match counts
    def answer(self, questions: str, context: str | Sequence[str], *, threshold: float | None = None) -> Reply: ...  # type: ignore[overload-overlap]
    @overload
    def answer(
        self, questions: Sequence[str], context: str | Sequence[str], *, threshold: float | None = None
    ) -> list[Reply]: ...
    def answer(
        self, questions: str | Sequence[str], context: str | Sequence[str], *, threshold: float | None = None
    ) -> Reply | list[Reply]:
        """Answers one question or many from one text or many; each question gets the best answer that any text holds.

        `threshold` replaces the model's own: a greater one says "no answer" less often.
        """
        asked = [questions] if isinstance(questions, str) else list(questions)
        texts = [context] if isinstance(context, str) else list(context)
        for number, question in enumerate(asked, 1):
            if not question.strip():
                raise LaminaError(f"question {number} is empty")
            if not question.isprintable() and any("\ud800" <= c <= "\udfff" for c in question):
                raise LaminaError(f"question {number} is not UTF-8 text")
        if not any(text.strip() for text in texts):
            raise LaminaError("there is no text to answer from: the context is empty")
        examples = [
            Example(f"{q}/{t}", question, text, (), str(q), str(t))
            for q, question in enumerate(asked)
            for t, text in enumerate(texts)
        ]
        predictions = self.predict(examples)
        limit = self.threshold if threshold is None else threshold
        replies = [
            _reply(question, predictions[q * len(texts) : (q + 1) * len(texts)], limit) for q, question in enumerate(asked)
        ]
        return replies[0] if isinstance(questions, str) else replies

    def predict(self, examples: Sequence[Example], progress: Progress | None = None) -> list[Prediction]:
        """The n best answers to each example, with the score of "no answer"."""
        windows = make_windows(examples, self.tokenizer, self.recipe.window)
        logits = span_logits(self.model, windows, progress=progress)
        return decode(windows, logits.start, logits.end, examples, self.recipe.answer)

    def evaluate(self, examples: Sequence[Example], progress: Progress | None = None) -> dict[str, dict[str, float]]:
        """The official SQuAD 2.0 scores at threshold 0, at the model's own, and the best that any threshold gives."""
        return score_all(self.predict(examples, progress), examples, self.threshold)


def load(model: str | Path, *, device: str = "auto", threads: int | None = None) -> Reader:
    """A reader from a run folder."""
    if threads:
        torch.set_num_threads(threads)
    return Reader(*load_run(Path(model), choose_device(device)))


def _reply(question: str, predictions: Sequence[Prediction], threshold: float) -> Reply:
    """The most certain answer of all texts; "no answer" only if every text says so."""
    context = min(range(len(predictions)), key=lambda i: predictions[i].null_odds)
    prediction = predictions[context]
    best = prediction.answer(threshold)
    confidence = prediction.probability(threshold)
    if best is None:
        return Reply(question, None, confidence)
    return Reply(question, best.text, confidence, context, best.start, best.end)
