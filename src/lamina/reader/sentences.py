"""Classes, scores and vectors of sentences and of pairs of sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from lamina.answers.decisions import SentenceDecision
from lamina.answers.sentences import class_probabilities, predicted_scores
from lamina.data.examples import Sentence
from lamina.data.sentence_windows import make_sentence_windows
from lamina.data.windows import Windows
from lamina.errors import LaminaError
from lamina.reader.trained import TrainedReader, check_text
from lamina.tasks.registry import tasks_of
from lamina.tasks.sentences import SENTENCES, score_map
from lamina.utils.arrays import Floats
from lamina.utils.progress import Silent

if TYPE_CHECKING:
    from lamina.config.recipe import TaskOptions


@dataclass(frozen=True, slots=True)
class Label:
    """The class of a text or of a pair of texts.

    Attributes:
        label: The most probable class, as the training data names it.
        confidence: The probability of this class, from 0 to 1.
        chances: The probability of every class. They sum to 1.
    """

    label: str
    confidence: float
    chances: dict[str, float]


Pair = tuple[str, str]
Text = str | Pair  # the input of `classify`


class SentenceReader(TrainedReader):
    """Classifies, compares and embeds sentences, if the model has a task for sentences."""

    @overload  # a pair is an iterable of texts to the type checker, and the first match counts
    def classify(  # type: ignore[overload-overlap]
        self, texts: Text, *, task: str | None = None
    ) -> Label: ...
    @overload
    def classify(self, texts: Iterable[Text], *, task: str | None = None) -> list[Label]: ...
    def classify(self, texts: Text | Iterable[Text], *, task: str | None = None) -> Label | list[Label]:
        """Return the class of one text or pair, or of each of several.

        Args:
            texts: A text, a pair of texts (a tuple of two), or several of them.
            task: The task that classifies, if the model has several that fit.

        Returns:
            A `Label` for one text or pair; a list of them, in the same order, for several.

        Raises:
            LaminaError: A text is empty, or the model has no task that fits.
        """
        single = isinstance(texts, str) or (isinstance(texts, tuple) and len(texts) == 2)
        given = cast(list[Text], [texts] if single else list(texts))
        pairs = bool(given) and not isinstance(given[0], str)
        name, options = self._task(
            task,
            "classes",
            lambda task: not task.data.labels.are_scores,
            prefer=lambda task: _reads_pairs(task) == pairs,
        )
        if not given:
            return []
        outputs = self.trained.engine.items(self._windows(given, options), name, Silent())
        chances = class_probabilities(outputs, self._threshold(name), score_map(options))
        classes = options.data.labels.classes
        found = [dict(zip(classes, map(float, row), strict=True)) for row in chances]
        labels = [Label(best, of_text[best], of_text) for of_text in found for best in [max(of_text, key=of_text.__getitem__)]]
        return labels[0] if single else labels

    @overload
    def similarity(  # type: ignore[overload-overlap]
        self, first: str, second: str, *, task: str | None = None
    ) -> float: ...
    @overload
    def similarity(self, first: Iterable[str], second: Iterable[str], *, task: str | None = None) -> list[float]: ...
    def similarity(
        self, first: str | Iterable[str], second: str | Iterable[str], *, task: str | None = None
    ) -> float | list[float]:
        """Return how similar two texts are, or the texts of two lists, one by one.

        Args:
            first: A text, or several.
            second: A text, or as many texts as `first` has.
            task: The task that compares, if the model has several that fit.

        Returns:
            A score in the range of the task's labels, such as 0 to 5. A task with classes gives the probability of its last
            class, such as "is a paraphrase". Several pairs give a list, in the same order.

        Raises:
            LaminaError: The lists differ in length, a text is empty, or the model has no task that fits.
        """
        name, options = self._task(task, "pairs", _reads_pairs, prefer=lambda task: task.data.labels.are_scores)
        single = isinstance(first, str) and isinstance(second, str)
        if not single and (isinstance(first, str) or isinstance(second, str)):
            raise LaminaError(
                "similarity: one argument is a text, the other a list. Fix: give two texts, or two lists of texts"
            )
        a, b = ([str(first)], [str(second)]) if single else (list(first), list(second))
        if len(a) != len(b):
            raise LaminaError(
                f"similarity: the first list has {len(a)} texts, the second {len(b)}. Fix: give two lists of the same length"
            )
        pairs: list[Text] = [*zip(a, b, strict=True)]
        outputs = self.trained.engine.items(self._windows(pairs, options), name, Silent()) if pairs else {}
        labels = options.data.labels
        if not pairs:
            scores: list[float] = []
        elif labels.are_scores:
            scores = [labels.score(float(share)) for share in predicted_scores(outputs, score_map(options))]
        else:
            chances = class_probabilities(outputs, self._threshold(name), score_map(options))
            scores = [float(row[-1]) for row in chances]
        return scores[0] if single else scores

    def embed(self, texts: str | Iterable[str], *, task: str | None = None) -> Floats:
        """Return a vector of length 1 for each text. The dot product of two vectors is their cosine.

        Args:
            texts: A text, or several.
            task: The task whose encoder and pooling are used, if the model has several that fit.

        Returns:
            [D] for one text, [n, D] for n texts, in float32.

        Raises:
            LaminaError: There is no text, a text is empty, or the model has no task for sentences.
        """
        name, options = self._task(task, "sentences", lambda _: True, prefer=_in_two_windows)
        given: list[Text] = [texts] if isinstance(texts, str) else [*texts]
        if not given:
            raise LaminaError("texts: there is no text to embed. Fix: give at least one text")
        vectors = self.trained.engine.vectors(self._windows(given, options, sides=1), name, Silent())
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        found: Floats = vectors[0] if isinstance(texts, str) else vectors
        return found

    def _windows(self, texts: Sequence[Text], task: TaskOptions, sides: int | None = None) -> Windows:
        sentences = []
        for number, text in enumerate(texts, 1):
            if not isinstance(text, str) and not (isinstance(text, tuple) and len(text) == 2):
                raise LaminaError(f"text {number}: is neither a text nor a pair. Fix: give a str, or a tuple of two")
            first, second = (text, None) if isinstance(text, str) else text
            if sides is None and (second is not None) != _reads_pairs(task):
                given, wanted = ("one text", "a pair (a tuple)") if second is None else ("a pair", "one text")
                raise LaminaError(f"text {number}: is {given}, but the task reads {wanted}. Fix: give {wanted}")
            for part in (first, second):
                if part is not None:
                    if not part.strip():
                        raise LaminaError(f"text {number}: is empty. Fix: leave it out")
                    check_text(f"text {number}", part)
            sentences.append(Sentence(str(number), first, second))
        return self._cut(sentences, task, sides)

    def _cut(self, sentences: Sequence[Sentence], task: TaskOptions, sides: int | None = None) -> Windows:
        own: int = cast(Any, task.head).sides  # every head of this kind has the field
        return make_sentence_windows(
            sentences, self.tokenizer, task.data.labels, length=self.recipe.window.length, sides=own if sides is None else sides
        )

    def _task(
        self,
        name: str | None,
        what: str,
        fits: Callable[[TaskOptions], bool],
        prefer: Callable[[TaskOptions], bool] = lambda _: False,
    ) -> tuple[str, TaskOptions]:
        """Return the task of that name, or the only task for sentences that fits. If several fit, the preferred one."""
        fitting = {key: task for key, task in tasks_of(self.recipe, SENTENCES).items() if fits(task)}
        if name is not None:
            if name not in fitting:
                fix = f"choose one of {', '.join(fitting)}" if fitting else "load a model that has such a task"
                raise LaminaError(f"task: {name!r} is no task of this model for {what}. Fix: {fix}")
            return name, fitting[name]
        best = {key: task for key, task in fitting.items() if prefer(task)} or fitting
        if len(best) == 1:
            return next(iter(best.items()))
        if not best:
            raise LaminaError(
                f"model: has no task for {what}; its heads are {self.trained.heads}. Fix: load a model that has such a task"
            )
        raise LaminaError(f"task: this model has several tasks for {what}. Fix: name one of {', '.join(best)}")

    def _threshold(self, name: str) -> float:
        decision = self.trained.decision(name)
        assert isinstance(decision, SentenceDecision)
        return decision.threshold


def _reads_pairs(task: TaskOptions) -> bool:
    return _in_two_windows(task) or task.data.pairs is True


def _in_two_windows(task: TaskOptions) -> bool:
    return bool(cast(Any, task.head).sides == 2)
