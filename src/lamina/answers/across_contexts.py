"""Merge the predictions for several contexts of one question into one prediction.

``margin`` (the default): the score of a candidate is its margin over "no answer" in its own context, so that contexts can be
compared. The best candidate of all contexts is the answer. It is "no answer" only if every context predicts "no answer".

``paper_probability`` (004): the scores of every context's n-best list, with "no answer", become probabilities. The most
probable entry of all lists is the answer. So a context that surely has no answer overrides one that has an answer with less
probability. Scores are the logarithms of these probabilities. The paper's rule is the threshold 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice

from lamina.answers.calibration import Calibration
from lamina.answers.confidence import ordered_confidences
from lamina.answers.decode import Across, Prediction


def comparable(prediction: Prediction, across: Across) -> Prediction:
    """Return the prediction with scores that can be compared between contexts. The differences of the scores do not change.

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
    """Return one prediction, with the id `name`, for all contexts of a question.

    Candidates keep the offsets of their own contexts. The earlier context comes first among equal scores.
    """
    found = [comparable(prediction, across) for prediction in predictions]
    candidates = sorted((candidate for one in found for candidate in one.candidates), key=lambda c: -c.score)
    return Prediction(name, max(one.null for one in found), tuple(candidates))


@dataclass(frozen=True, slots=True)
class Quote:
    """A possible answer, quoted from a context: ``contexts[context][start:end] == text`` for the given contexts.

    Attributes:
        text: The answer as it is written in the context.
        confidence: The probability, from 0 to 1, that this is the answer, computed from its own context only. In a reply
            it is at most the confidence of what is ranked above it.
        context: The number of its context, from 0.
        start: The offset of the first character in the context.
        end: The offset after the last character.
        no_answer: The probability, from 0 to 1, that its context has no answer.
    """

    text: str
    confidence: float
    context: int
    start: int
    end: int
    no_answer: float = 0.0


class BestQuotes:
    """The best `keep` quotes for one question, collected context by context in constant memory.

    They equal the best candidates of `together`.
    """

    def __init__(self, keep: int, calibration: Calibration, across: Across = "margin") -> None:
        self._keep, self._calibration, self._across = keep, calibration, across
        self._best: list[tuple[float, Quote]] = []  # with their scores, best first; probabilities as calibrated
        self._null, self._no_answer = -math.inf, 1.0  # of the context with the highest score of "no answer"

    def add(self, context: int, prediction: Prediction) -> None:
        """Add the prediction for a context. Add contexts in the order of their numbers."""
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
        """Return the best quote, or None if "no answer" scores higher by more than the threshold."""
        return self._best[0][1] if self._best and self._null - self._best[0][0] <= threshold else None

    def in_order(self, threshold: float, own: float) -> tuple[float, list[Quote]]:
        """Return the confidence of "no answer" and the best quotes, with confidences in the order of the decision.

        `own` is the threshold of the model, `threshold` that of the reply.
        """
        chances = [quote.confidence for quote in self.best]
        answers, replies = self.answer(own) is not None, self.answer(threshold) is not None
        no_answer, chances = ordered_confidences(self.no_answer, chances, answers=answers, replies=replies)
        return no_answer, [replace(quote, confidence=chance) for quote, chance in zip(self.best, chances, strict=True)]

    @property
    def no_answer(self) -> float:
        """The probability of "no answer" in one context: that of the best quote.

        By the paper's rule it is the context with the highest score of "no answer". Only one context counts, because the
        calibration is fitted on single contexts. So the probability does not shrink as the number of contexts grows.
        """
        if self._across == "paper_probability":
            return self._no_answer
        return self._best[0][1].no_answer if self._best else 1.0
