"""Another share of unanswerable questions: shift a decision to it, and estimate it from questions without answers.

A model learns the share S of its training data and uses it for every question. In use the share may be another one, S'.
If answerable and unanswerable questions are else as before, Bayes' rule gives the new odds of "no answer"
(Saerens et al. 2002):

    logit p' = logit p + logit S' - logit S

- The calibration divides the margin of "no answer" by the temperature T, so its bias grows by T (logit S' - logit S).
- Null odds are scores too, so the threshold falls by as much. A decision with a `NullCurve` has its threshold from there.
- The share of given questions is estimated by expectation-maximisation: shift all p to the present S', then take their mean
  as the next S', until it does not change. This is the maximum of the likelihood.

Departures from the paper: S' stays half a question away from 0 and 1, where the logit is infinite. The standard error is
ours, from the second derivative of the log-likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lamina.answers.calibration import no_answer_chances
from lamina.answers.decisions import SpanDecision
from lamina.answers.decode import Prediction
from lamina.answers.logistic import logit
from lamina.utils.arrays import Doubles

ROUNDS = 10_000
CLOSE = 1e-7  # a smaller change of the share ends the estimate


def can_shift(decision: SpanDecision) -> bool:
    """Return whether the share of unanswerable questions in the fit is known, and both kinds of question were in it."""
    return decision.unanswerable is not None and 0 < decision.unanswerable < 1


def shifted(decision: SpanDecision, unanswerable: float) -> SpanDecision:
    """Return the decision for another share of unanswerable questions, between 0 and 1. `can_shift` must be true.

    >>> from lamina.answers.calibration import Calibration
    >>> old = SpanDecision(calibration=Calibration(temperature=2.0), unanswerable=0.5)
    >>> new = shifted(old, 0.8)
    >>> round(new.threshold, 2), round(new.calibration.bias, 2)
    (-2.77, 2.77)
    """
    old, calibration, threshold = decision.unanswerable, decision.calibration, shifted_threshold(decision, unanswerable)
    assert old is not None
    moved, of_questions = threshold - decision.threshold, decision.question_threshold
    rise = calibration.temperature * (logit(unanswerable) - logit(old))
    return decision.model_copy(
        update={
            "threshold": threshold,
            "question_threshold": None if of_questions is None else of_questions + moved,
            "calibration": replace(calibration, bias=calibration.bias + rise),
            "unanswerable": unanswerable,
            "calibrated": "declared",
        }
    )


def shifted_threshold(decision: SpanDecision, unanswerable: float) -> float:
    """Return the threshold for another share of unanswerable questions, between 0 and 1.

    A threshold for an unknown share, or for questions of one kind, stays as it is.
    """
    if decision.curve is not None:
        return decision.curve.threshold(unanswerable)
    old = decision.threshold_unanswerable
    if old is None or not 0 < old < 1 or decision.unanswerable in (0, 1):
        return decision.threshold
    return decision.threshold - decision.calibration.temperature * (logit(unanswerable) - logit(old))


def estimate_from(decision: SpanDecision, predictions: Sequence[Prediction]) -> ShareEstimate:
    """Return the share of unanswerable questions among predictions. `can_shift` must be true for the decision."""
    if decision.curve is None:
        assert decision.unanswerable is not None
        return estimate_share(no_answer_chances(predictions, decision.calibration), decision.unanswerable)
    odds = np.array([prediction.null_odds for prediction in predictions])
    return estimate_share(decision.curve.chances(odds), 0.5)


@dataclass(frozen=True, slots=True)
class ShareEstimate:
    """An estimated share of unanswerable questions, with its standard error."""

    share: float
    error: float  # by the number of questions alone; a wrong calibration adds to it


def estimate_share(chances: Doubles, old: float) -> ShareEstimate:
    """Return the share of unanswerable questions among some, by expectation-maximisation.

    Args:
        chances: The probability that each question is unanswerable, [N], calibrated for the share `old`.
        old: The share that the probabilities are for, between 0 and 1.
    """
    least = 0.5 / len(chances)
    for_null, for_answer = np.asarray(chances) / old, (1 - np.asarray(chances)) / (1 - old)  # [N] likelihoods, up to a factor
    share = old
    for _ in range(ROUNDS):
        mixed = share * for_null + (1 - share) * for_answer
        before, share = share, float(np.clip((share * for_null / mixed).mean(), least, 1 - least))
        if abs(share - before) < CLOSE:
            break
    slopes = (for_null - for_answer) / (share * for_null + (1 - share) * for_answer)  # [N] of the log-likelihood
    information = float((slopes**2).sum())
    return ShareEstimate(share, 1.0 if information <= 1 else information**-0.5)
