"""Classes, scores and vectors of sentences and of pairs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast, overload

import numpy as np

from lamina.answers.decisions import SentenceDecision
from lamina.answers.sentences import class_probabilities, predicted_scores
from lamina.config.recipe import TaskOptions
from lamina.data.examples import Sentence
from lamina.data.sentence_windows import make_sentence_windows
from lamina.data.windows import Windows
from lamina.errors import LaminaError
from lamina.heads.sentence import SentenceHeadOptions
from lamina.model.inference import item_outputs, text_vectors
from lamina.reader.trained import TrainedReader, check_text
from lamina.tasks.registry import tasks_of
from lamina.tasks.sentences import SENTENCES, score_map
from lamina.utils.arrays import Floats


@dataclass(frozen=True, slots=True)
class Label:
    """The class of a text, or of a pair of them, with the probability of every class."""

    label: str
    confidence: float
    chances: dict[str, float]


Pair = tuple[str, str]
Text = str | Pair  # what can be classified


class SentenceReader(TrainedReader):
    """Each method has a `task`, for models that have several which would do."""

    @overload  # a pair is an iterable of texts to the type checker, and the first match counts
    def classify(  # type: ignore[overload-overlap]
        self, texts: Text, *, task: str | None = None
    ) -> Label: ...
    @overload
    def classify(self, texts: Iterable[Text], *, task: str | None = None) -> list[Label]: ...
    def classify(self, texts: Text | Iterable[Text], *, task: str | None = None) -> Label | list[Label]:
        """The class of one text or of a list of them; a pair of texts is a tuple of two. `task` says which is meant, where a
        model has several."""
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
        outputs = item_outputs(self.model, self._windows(given, options), task=name)
        chances = class_probabilities(outputs, self._threshold(name))
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
        """How alike two texts are, or the texts of two lists, one by one: the score that the task learned, in its own range;
        of a task with classes, the probability of the last class (such as "is a paraphrase")."""
        name, options = self._task(task, "pairs", _reads_pairs, prefer=lambda task: task.data.labels.are_scores)
        single = isinstance(first, str) and isinstance(second, str)
        if not single and (isinstance(first, str) or isinstance(second, str)):
            raise LaminaError("similarity compares two texts, or two lists of them: one of these is a text, the other a list")
        a, b = ([str(first)], [str(second)]) if single else (list(first), list(second))
        if len(a) != len(b):
            raise LaminaError(f"similarity compares two lists text by text: one has {len(a)}, the other {len(b)}")
        pairs: list[Text] = [*zip(a, b, strict=True)]
        outputs = item_outputs(self.model, self._windows(pairs, options), task=name) if pairs else {}
        labels = options.data.labels
        if not pairs:
            scores: list[float] = []
        elif labels.are_scores:
            how = score_map(options)
            scores = [labels.score(float(share)) for share in predicted_scores(outputs, how)]
        else:
            chances = class_probabilities(outputs, self._threshold(name))
            scores = [float(row[-1]) for row in chances]
        return scores[0] if single else scores

    def embed(self, texts: str | Iterable[str], *, task: str | None = None) -> Floats:
        """[n, D] a vector of length 1 for each text; their products are cosines. Of one text, [D]."""
        name, options = self._task(task, "sentences", lambda _: True, prefer=_in_two_windows)
        given: list[Text] = [texts] if isinstance(texts, str) else [*texts]
        if not given:
            raise LaminaError("there is no text to embed")
        vectors = text_vectors(self.model, self._windows(given, options, sides=1), task=name)
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        found: Floats = vectors[0] if isinstance(texts, str) else vectors
        return found

    def _windows(self, texts: Sequence[Text], task: TaskOptions, sides: int | None = None) -> Windows:
        sentences = []
        for number, text in enumerate(texts, 1):
            if not isinstance(text, str) and not (isinstance(text, tuple) and len(text) == 2):
                raise LaminaError(f"text {number} is neither a text nor a pair of them (a tuple of two)")
            first, second = (text, None) if isinstance(text, str) else text
            if sides is None and (second is not None) != _reads_pairs(task):
                given, wanted = ("one text", "a pair (a tuple)") if second is None else ("a pair", "one text")
                raise LaminaError(f"text {number} is {given}, but the task judges {wanted}")
            for part in (first, second):
                if part is not None:
                    if not part.strip():
                        raise LaminaError(f"text {number} is empty")
                    check_text(f"text {number}", part)
            sentences.append(Sentence(str(number), first, second))
        return self._cut(sentences, task, sides)

    def _cut(self, sentences: Sequence[Sentence], task: TaskOptions, sides: int | None = None) -> Windows:
        own = cast(SentenceHeadOptions, task.head).sides
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
        """The task of that name, or the only one of sentences that fits; where several do, the one that is preferred."""
        fitting = {key: task for key, task in tasks_of(self.recipe, SENTENCES).items() if fits(task)}
        if name is not None:
            if name not in fitting:
                there = f"there are {', '.join(fitting)}" if fitting else "this model has none"
                raise LaminaError(f"{name!r} is no task of this model's for {what}: {there}")
            return name, fitting[name]
        best = {key: task for key, task in fitting.items() if prefer(task)} or fitting
        if len(best) == 1:
            return next(iter(best.items()))
        if not best:
            raise LaminaError(f"this model has no task for {what}: its heads are {self.trained.heads}")
        raise LaminaError(f"this model has several tasks for {what}: name one of {', '.join(best)}")

    def _threshold(self, name: str) -> float:
        decision = self.trained.decision(name)
        assert isinstance(decision, SentenceDecision)
        return decision.threshold


def _reads_pairs(task: TaskOptions) -> bool:
    return _in_two_windows(task) or task.data.pairs is True


def _in_two_windows(task: TaskOptions) -> bool:
    return cast(SentenceHeadOptions, task.head).sides == 2
