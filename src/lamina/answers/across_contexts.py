"""Predictions of several contexts of one question -> one prediction.

``margin`` (the default): a candidate counts by how far it scores above the "no answer" of its own context, so that contexts of
different kinds can be compared. The best candidate of all contexts is the answer; it is "no answer" only if every context
says so.

``paper_probability`` (004): every context's n-best list, "no answer" among it, is turned into probabilities, and the likeliest
entry of all lists is the answer. So a context that is sure to hold none silences one that holds it but is less sure. Scores
are the logarithms of these probabilities; the paper's rule is the threshold 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice

from lamina.answers.calibration import Calibration
from lamina.answers.decode import Across, Prediction


def comparable(prediction: Prediction, across: Across) -> Prediction:
    """The prediction with scores that can be compared between contexts; their differences stay as they are.

    >>> from lamina.answers.decode import Candidate
    >>> one = Prediction("q", null=1.0, candidates=(Candidate("Paris", 0, 5, 3.0),))
    >>> comparable(one, "margin").null, comparable(one, "margin").candidates[0].score
    (0.0, 2.0)
    """
    zero = prediction.null
    if across == "paper_probability":
        scores = [prediction.null, *(candidate.score for candidate in prediction.candidates)]
        highest = max(scores)
        zero = highest + math.log(sum(math.exp(score - highest) for score in scores))
    candidates = tuple(replace(candidate, score=candidate.score - zero) for candidate in prediction.candidates)
    return Prediction(prediction.id, prediction.null - zero, candidates)


def together(name: str, predictions: Iterable[Prediction], across: Across = "margin") -> Prediction:
    """What the contexts of a question say together. Candidates keep the places in their own contexts; among equals, the
    earlier context comes first."""
    found = [comparable(prediction, across) for prediction in predictions]
    candidates = sorted((candidate for one in found for candidate in one.candidates), key=lambda c: -c.score)
    return Prediction(name, max(one.null for one in found), tuple(candidates))


@dataclass(frozen=True, slots=True)
class Quote:
    """A possible answer: ``contexts[context][start:end] == text`` for the contexts that were given."""

    text: str
    confidence: float  # the probability that this is the answer, by its own context alone
    context: int
    start: int
    end: int
    no_answer: float = 0.0  # the probability that its context holds no answer


class BestQuotes:
    """The best quotes for one question, context by context, in constant memory: those that `together` would give."""

    def __init__(self, keep: int, calibration: Calibration, across: Across = "margin") -> None:
        self._keep, self._calibration, self._across = keep, calibration, across
        self._best: list[tuple[float, Quote]] = []  # with their scores, best first
        self._null, self._no_answer = -math.inf, 1.0  # of the context that most probably holds no answer

    def add(self, context: int, prediction: Prediction) -> None:
        """Adds the prediction for a context. Contexts come in the order of their numbers."""
        found = comparable(prediction, self._across)
        null, *chances = self._calibration.probabilities(found)
        if found.null > self._null:
            self._null, self._no_answer = found.null, null
        pairs = islice(zip(found.candidates, chances, strict=True), self._keep)
        quotes = ((c.score, Quote(c.text, chance, context, c.start, c.end, null)) for c, chance in pairs)
        self._best = list(islice(merge(self._best, quotes, key=lambda one: -one[0]), self._keep))

    @property
    def best(self) -> list[Quote]:
        """The best quotes, best first."""
        return [quote for _, quote in self._best]

    def answer(self, threshold: float) -> Quote | None:
        """The best quote, or None where "no answer" is better by more than the threshold."""
        return self._best[0][1] if self._best and self._null - self._best[0][0] <= threshold else None

    @property
    def no_answer(self) -> float:
        """The probability of "no answer" in the context that decides: the best quote's, or by the paper's rule the one that
        most probably holds none. It is of one context, as a quote's confidence is: the calibration was fitted on single
        contexts, and it must not shrink with their number."""
        if self._across == "paper_probability":
            return self._no_answer
        return self._best[0][1].no_answer if self._best else 1.0
