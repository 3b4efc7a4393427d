"""Calibrate confidences: about 80 of 100 answers with a confidence of 0.8 should be right.

A model's scores rank answers well, but their softmax is mostly overconfident. Two numbers, fitted on the held-out split,
correct that: ``softmax([null + bias, candidates] / temperature)``. This is temperature scaling (Guo et al. 2017) with the
bias of Platt's method for "no answer".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from lamina.answers.decode import Prediction
from lamina.utils.arrays import Doubles

ROUNDS = 6
GRID = 9  # values of each of the two numbers in a round
FEWEST = 20  # questions; a fit on fewer would be mostly chance


@dataclass(frozen=True, slots=True)
class Calibration:
    """The temperature and bias of a calibrated softmax. The default is the plain softmax of the scores."""

    temperature: Annotated[float, Field(gt=0, strict=True)] = 1.0
    bias: Annotated[float, Field(strict=True)] = 0.0

    def probabilities(self, prediction: Prediction) -> tuple[float, ...]:
        """Return the probability of "no answer" first, then those of the candidates in their order.

        >>> from lamina.answers.decode import Candidate
        >>> prediction = Prediction("q", null=0.0, candidates=(Candidate("Paris", 0, 5, 2.0),))
        >>> [round(p, 2) for p in Calibration().probabilities(prediction)]
        [0.12, 0.88]
        >>> [round(p, 2) for p in Calibration(temperature=2.0, bias=2.0).probabilities(prediction)]
        [0.5, 0.5]
        """
        scores = np.array([prediction.null, *(c.score for c in prediction.candidates)])
        return tuple(_softmax(scores, self.temperature, self.bias).tolist())


def fit_calibration(predictions: Sequence[Prediction], unanswerable: Sequence[bool], right: Sequence[bool]) -> Calibration:
    """Return the calibration with the least log loss of two events: a question is unanswerable, its best candidate is `right`.

    With fewer than 20 questions, return the default.
    """
    if len(predictions) < FEWEST:
        return Calibration()
    width = max(len(p.candidates) for p in predictions) + 1
    scores = np.full((len(predictions), max(2, width)), -np.inf)  # [N, 1 + candidates]
    for row, prediction in zip(scores, predictions, strict=True):
        row[: len(prediction.candidates) + 1] = [prediction.null, *(c.score for c in prediction.candidates)]
    events = np.stack([np.asarray(unanswerable, bool), np.asarray(right, bool)], 1)  # [N, 2]

    def loss(log_temperature: float, bias: float) -> float:
        p = np.clip(_softmax(scores, np.exp(log_temperature), bias)[:, :2], 1e-9, 1 - 1e-9)
        return float(-np.log(np.where(events, p, 1 - p)).mean())

    centre, reach = (0.7, 0.0), (2.1, 12.0)  # temperatures from 1/4 to 16
    for _ in range(ROUNDS):  # finer grids around the best point so far
        axes = [np.linspace(c - r, c + r, GRID) for c, r in zip(centre, reach, strict=True)]
        centre = min(((float(t), float(b)) for t in axes[0] for b in axes[1]), key=lambda point: loss(*point))
        reach = (reach[0] / (GRID // 2), reach[1] / (GRID // 2))
    return Calibration(float(np.exp(centre[0])), centre[1])


def calibration_error(confidence: Sequence[float], right: Sequence[bool], bins: int = 10) -> float:
    """Return the expected calibration error: the mean distance of confidence and share of right answers over the bins.

    >>> round(calibration_error([0.9] * 10, [True] * 7 + [False] * 3), 2)
    0.2
    """
    return sum(share * abs(mean - hits) for mean, hits, share in reliability(confidence, right, bins))


def reliability(confidence: Sequence[float], right: Sequence[bool], bins: int = 10) -> list[tuple[float, float, float]]:
    """Return for each non-empty bin its mean confidence, its share of right answers, and its share of all answers."""
    values, hits = np.asarray(confidence, np.float64), np.asarray(right, np.float64)
    number = np.minimum((values * bins).astype(int), bins - 1)
    return [
        (float(values[number == n].mean()), float(hits[number == n].mean()), float((number == n).mean()))
        for n in np.unique(number)
    ]


def _softmax(scores: Doubles, temperature: float, bias: float) -> Doubles:
    """Return the softmax over the last axis, whose first entry is the null score."""
    shifted = scores / temperature
    shifted[..., 0] += bias / temperature
    weights = np.exp(shifted - shifted.max(-1, keepdims=True))
    result: Doubles = weights / weights.sum(-1, keepdims=True)
    return result
