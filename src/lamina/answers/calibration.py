"""Calibrate confidences: about 80 of 100 answers with a confidence of 0.8 should be right.

A model's scores rank answers well, but their softmax is mostly overconfident. Three numbers, fitted on the held-out split,
correct that. The candidates c have a temperature S of their own, and "no answer" competes with all of them together:

    all = S log sum exp(c / S)
    p(no answer) = sigmoid((null + bias - all) / temperature)
    p(candidate) = (1 - p(no answer)) softmax(c / S)

This is temperature scaling (Guo et al. 2017) with the bias of Platt's method for "no answer". If both temperatures are equal,
it is ``softmax([null + bias, candidates] / temperature)``, as runs of older versions have it. One temperature is not enough:
a weak model needs a high one for "no answer", which makes its best candidate look too improbable (docs/log.md).

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
from lamina.answers.logistic import fit_line, platt_targets, sigmoid
from lamina.utils.arrays import Doubles

ROUNDS = 3
GRID = 9  # temperatures of the candidates in a round
COOLEST, HOTTEST = 1 / 4, 16.0  # temperatures
FEWEST = 20  # questions; a fit on fewer would be mostly chance
_SURE = 1e3  # the margin of "no answer" without candidates


@dataclass(frozen=True, slots=True)
class Calibration:
    """The temperatures and the bias of a calibrated softmax. The default is the plain softmax of the scores."""

    temperature: Annotated[float, Field(gt=0, strict=True)] = 1.0
    bias: Annotated[float, Field(strict=True)] = 0.0
    span_temperature: Annotated[float, Field(gt=0, strict=True)] | None = None  # of the candidates; None: `temperature`

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
        return tuple(_chances(scores, self).tolist())


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
    Predictions without candidates do not count: their reply is "no answer" in any case.
    """
    kept = [number for number, prediction in enumerate(predictions) if prediction.candidates]
    if len(predictions) < FEWEST or not kept:
        return Calibration()
    scores = _score_table([predictions[number] for number in kept])
    null = platt_targets(np.asarray(unanswerable, bool)[kept])
    best = np.asarray(right, np.float64)[kept]
    if prior is not None:
        old = _chances(scores, prior.calibration)
        share = prior.questions / (prior.questions + len(kept))
        null, best = (1 - share) * null + share * old[:, 0], (1 - share) * best + share * old[:, 1]
    rows = np.ones(len(kept)) if weights is None else np.asarray(weights, np.float64)[kept]

    def fit_null(log_temperature: float) -> tuple[float, Calibration]:
        """Return the log loss and the calibration with this temperature of the candidates."""
        margin, within = _margins(scores, np.exp(log_temperature))
        line = fit_line(margin, null, rows, least=1 / HOTTEST, most=1 / COOLEST)
        p = np.stack([line.at(margin), (1 - line.at(margin)) * within[:, 0]], 1)  # [N, 2]
        p, events = np.clip(p, 1e-9, 1 - 1e-9), np.stack([null, best], 1)
        losses = -(events * np.log(p) + (1 - events) * np.log1p(-p)).mean(1)  # [N]
        found = Calibration(1 / line.slope, line.level / line.slope, float(np.exp(log_temperature)))
        return float((rows * losses).sum() / rows.sum()), found

    low, high = np.log(COOLEST), np.log(HOTTEST)
    for _ in range(ROUNDS):  # finer grids around the best point so far
        axis = np.linspace(low, high, GRID)
        centre = axis[int(np.argmin([fit_null(float(point))[0] for point in axis]))]
        low, high = centre - (axis[1] - axis[0]), centre + (axis[1] - axis[0])
    return fit_null(float(centre))[1]


def no_answer_chances(predictions: Sequence[Prediction], calibration: Calibration) -> Doubles:
    """Return the probability of "no answer" of each prediction, [N]."""
    chances: Doubles = _chances(_score_table(predictions), calibration)[:, 0]
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


def _chances(scores: Doubles, calibration: Calibration) -> Doubles:
    """Return the probabilities over the last axis, whose first entry is "no answer"."""
    if scores.shape[-1] == 1:
        return np.ones_like(scores)
    margin, within = _margins(scores, calibration.span_temperature or calibration.temperature)
    null = sigmoid((margin + calibration.bias) / calibration.temperature)[..., None]
    return np.concatenate([null, (1 - null) * within], -1)


def _margins(scores: Doubles, temperature: float) -> tuple[Doubles, Doubles]:
    """Return the margin of "no answer" over all candidates together, and the softmax over the candidates alone.

    Without candidates, the margin is great and the softmax 0.
    """
    spans = scores[..., 1:] / temperature
    top = spans.max(-1, keepdims=True)
    weights = np.exp(spans - np.where(np.isfinite(top), top, 0.0))
    total = weights.sum(-1)
    some = np.where(total > 0, total, 1.0)
    together = temperature * (np.where(np.isfinite(top), top, 0.0)[..., 0] + np.log(some))
    return np.where(total > 0, scores[..., 0] - together, _SURE), weights / some[..., None]
