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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice

from lamina.answers.calibration import Calibration
from lamina.answers.decode import Across, Candidate, Prediction


def comparable(prediction: Prediction, across: Across) -> Prediction:
    """The prediction with scores that can be compared between contexts; their differences stay as they are.

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
class Placed:
    """A candidate, the number of its context, and what that context alone gives for it and for "no answer"."""

    context: int
    candidate: Candidate
    probability: float
    no_answer: float


class Gathering:
    """What the contexts of one question say together, context by context, in constant memory. It is what `together` would
    say of all of them."""

    def __init__(self, keep: int, calibration: Calibration, across: Across = "margin") -> None:
        self._keep, self._calibration, self._across = keep, calibration, across
        self._best: list[Placed] = []
        self._null, self._no_answer = -math.inf, 1.0  # of the context that is surest to hold none

    def add(self, context: int, prediction: Prediction) -> None:
        """Contexts are added in the order of their numbers."""
        found = comparable(prediction, self._across)
        null, *chances = self._calibration.probabilities(found)
        if found.null > self._null:
            self._null, self._no_answer = found.null, null
        placed = (Placed(context, *of, null) for of in islice(zip(found.candidates, chances, strict=True), self._keep))
        self._best = list(islice(merge(self._best, placed, key=lambda one: -one.candidate.score), self._keep))

    @property
    def best(self) -> Sequence[Placed]:
        """The best candidates, best first."""
        return self._best

    def answer(self, threshold: float) -> Placed | None:
        """The best candidate, or None where "no answer" is better by more than the threshold."""
        return self._best[0] if self._best and self._null - self._best[0].candidate.score <= threshold else None

    @property
    def no_answer(self) -> float:
        """The probability of "no answer" in the context that decides: that of the best candidate, or by the paper's rule the
        one that is surest to hold none. As that of a candidate, it is of one context: that is what the calibration was fitted
        on, and it does not shrink with the number of contexts."""
        if self._across == "paper_probability":
            return self._no_answer
        return self._best[0].no_answer if self._best else 1.0
