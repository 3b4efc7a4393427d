"""Calibrate confidences: about 80 of 100 answers with a confidence of 0.8 should be right.

A model's scores rank answers well, but their softmax is mostly overconfident. Two numbers, fitted on the held-out split,
correct that: ``softmax([null + bias, candidates] / temperature)``. This is temperature scaling (Guo et al. 2017) with the
bias of Platt's method for "no answer".

A fit on few questions can be held near an older calibration. Then the older one counts as some more questions, whose events
have the probabilities that it gives them.
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


@dataclass(frozen=True, slots=True)
class Prior:
    """An older calibration for the same share of unanswerable questions, and how many questions it counts as."""

    calibration: Calibration
    questions: float


def fit_calibration(
    predictions: Sequence[Prediction],
    unanswerable: Sequence[bool],
    right: Sequence[bool],
    *,
    weights: Doubles | None = None,
    prior: Prior | None = None,
) -> Calibration:
    """Return the calibration with the least log loss of two events: a question is unanswerable, its best candidate is `right`.

    With fewer than 20 questions, return the default. `weights` [N] are those of the questions; None for equal ones.
    """
    if len(predictions) < FEWEST:
        return Calibration()
    scores = _score_table(predictions)
    events = np.stack([np.asarray(unanswerable, np.float64), np.asarray(right, np.float64)], 1)  # [N, 2]
    if prior is not None:
        old = _softmax(scores, prior.calibration.temperature, prior.calibration.bias)[:, :2]
        share = prior.questions / (prior.questions + len(predictions))
        events = (1 - share) * events + share * old
    rows = np.ones(len(predictions)) if weights is None else np.asarray(weights, np.float64)

    def loss(log_temperature: float, bias: float) -> float:
        p = np.clip(_softmax(scores, np.exp(log_temperature), bias)[:, :2], 1e-9, 1 - 1e-9)
        losses = -(events * np.log(p) + (1 - events) * np.log1p(-p)).mean(1)  # [N]
        return float((rows * losses).sum() / rows.sum())

    centre, reach = (0.7, 0.0), (2.1, 12.0)  # temperatures from 1/4 to 16
    for _ in range(ROUNDS):  # finer grids around the best point so far
        axes = [np.linspace(c - r, c + r, GRID) for c, r in zip(centre, reach, strict=True)]
        centre = min(((float(t), float(b)) for t in axes[0] for b in axes[1]), key=lambda point: loss(*point))
        reach = (reach[0] / (GRID // 2), reach[1] / (GRID // 2))
    return Calibration(float(np.exp(centre[0])), centre[1])


def no_answer_chances(predictions: Sequence[Prediction], calibration: Calibration) -> Doubles:
    """Return the probability of "no answer" of each prediction, [N]."""
    chances: Doubles = _softmax(_score_table(predictions), calibration.temperature, calibration.bias)[:, 0]
    return chances


def calibration_error(
    confidence: Sequence[float], right: Sequence[bool], bins: int = 10, weights: Sequence[float] | None = None
) -> float:
    """Return the expected calibration error: the mean distance of confidence and share of right answers over the bins.

    >>> round(calibration_error([0.9] * 10, [True] * 7 + [False] * 3), 2)
    0.2
    """
    return sum(share * abs(mean - hits) for mean, hits, share in reliability(confidence, right, bins, weights))


def reliability(
    confidence: Sequence[float], right: Sequence[bool], bins: int = 10, weights: Sequence[float] | None = None
) -> list[tuple[float, float, float]]:
    """Return for each non-empty bin its mean confidence, its share of right answers, and its share of all answers.

    `weights` are those of the answers in the means and shares, above 0; None for equal ones.
    """
    values, hits = np.asarray(confidence, np.float64), np.asarray(right, np.float64)
    parts = np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)
    number = np.minimum((values * bins).astype(int), bins - 1)
    sums = [np.bincount(number, parts * column, bins) for column in (values, hits, np.ones(len(values)))]  # [bins] each
    return [
        (float(sums[0][n] / sums[2][n]), float(sums[1][n] / sums[2][n]), float(sums[2][n] / parts.sum()))
        for n in np.unique(number)
    ]


def _score_table(predictions: Sequence[Prediction]) -> Doubles:
    """Return the scores of "no answer" and of the candidates, [N, 1 + candidates]; -inf where a prediction has fewer."""
    width = max(len(p.candidates) for p in predictions) + 1
    scores = np.full((len(predictions), max(2, width)), -np.inf)
    for row, prediction in zip(scores, predictions, strict=True):
        row[: len(prediction.candidates) + 1] = [prediction.null, *(c.score for c in prediction.candidates)]
    return scores


def _softmax(scores: Doubles, temperature: float, bias: float) -> Doubles:
    """Return the softmax over the last axis, whose first entry is the null score."""
    shifted = scores / temperature
    shifted[..., 0] += bias / temperature
    weights = np.exp(shifted - shifted.max(-1, keepdims=True))
    result: Doubles = weights / weights.sum(-1, keepdims=True)
    return result
