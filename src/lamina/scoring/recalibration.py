"""Fit the decision of a span model again, on labelled questions, and measure decisions.

The fit stays near the older decision: the older calibration and the older curve of thresholds count as `PRIOR` questions,
after a shift to the share of the new questions. So 50 questions cannot spoil a good calibration, and 1,000 overrule a bad one.
An older decision may have no curve. On few questions, its threshold is kept if the new one has a clearly lower F1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lamina.answers.calibration import FEWEST, Calibration, Prior, calibration_error, fit_calibration
from lamina.answers.confidence import ordered_confidences
from lamina.answers.decisions import SpanDecision
from lamina.answers.decode import Across, Prediction
from lamina.answers.formats import predictions_json
from lamina.answers.null_curve import FEWEST_OF_A_KIND, NullCurve
from lamina.answers.prior_shift import can_shift, shifted, shifted_threshold
from lamina.data.examples import Example
from lamina.errors import LaminaError
from lamina.scoring.predictions import by_question, f1_if_answered, null_curve, references, right, several_contexts
from lamina.scoring.squad import balanced_threshold, class_weights, question_scores
from lamina.utils.arrays import Bools, Doubles

PRIOR = 20.0  # questions that the older decision counts as
MANY = 200  # labelled questions that may move the threshold away from the curve
FOLDS = 5


def refit(
    decision: SpanDecision,
    predictions: Sequence[Prediction],
    examples: Sequence[Example],
    *,
    unanswerable: float | None = None,
    across: Across = "margin",
) -> SpanDecision:
    """Return the decision fitted on labelled questions, near the older decision.

    Args:
        decision: The older decision. If it was never fitted, or its share is not known, it does not count.
        predictions: The predictions for the questions.
        examples: The questions with their answers.
        unanswerable: The share of unanswerable questions to fit for, between 0 and 1; None for that of the questions.
        across: How the contexts of a question are compared.

    Raises:
        LaminaError: There are fewer than 20 questions, or fewer than 5 of a kind.
    """
    if (problem := too_few(examples)) is not None:
        raise LaminaError(problem)
    share = share_of(examples) if unanswerable is None else unanswerable
    older = shifted(decision, share) if decision.fitted and can_shift(decision) else None
    curve = null_curve(predictions, examples, older=None if older is None else older.curve, counts=PRIOR)
    if curve is None:
        raise LaminaError("data: the model finds no candidates for these questions. Fix: check that the contexts have texts")
    before = shifted_threshold(decision, share)
    threshold = _threshold(curve, predictions, examples, share, older=before)
    if threshold == before:
        curve = decision.curve
    of_questions = decision.question_threshold
    if several_contexts(examples):
        grouped, whole = by_question(predictions, examples, across)
        of_questions = None if too_few(whole) else _question_threshold(decision, grouped, whole, unanswerable)
    elif of_questions is not None:
        of_questions += threshold - decision.threshold
    return SpanDecision(
        threshold=threshold,
        calibration=_calibration(older, predictions, examples, share),
        question_threshold=of_questions,
        unanswerable=share,
        curve=curve,
        calibrated="labelled",
    )


def too_few(examples: Sequence[Example]) -> str | None:
    """Return the message for labelled questions that are too few for a fit, or None."""
    answerable = sum(bool(example.answers) for example in examples)
    kinds = {"answerable": answerable, "unanswerable": len(examples) - answerable}
    if len(examples) < FEWEST:
        return f"data: {len(examples)} labelled questions are too few. Fix: give {FEWEST} or more, better 50"
    for kind, number in kinds.items():
        if number < FEWEST_OF_A_KIND:
            return f"data: {number} of {len(examples)} questions are {kind}. Fix: give {FEWEST_OF_A_KIND} or more of each kind"
    return None


def share_of(examples: Sequence[Example]) -> float:
    """Return the share of unanswerable questions."""
    return sum(not example.answers for example in examples) / len(examples)


def _threshold(
    curve: NullCurve, predictions: Sequence[Prediction], examples: Sequence[Example], share: float, *, older: float
) -> float:
    """Return the threshold of the curve, or the older one if the former has a clearly lower F1.

    With many questions, return the threshold nearest to that of the curve within one standard error of the best F1. On few
    questions the best F1 is chance, and the older decision must count. So a curve that does not fit does no harm.
    """
    odds = np.array([prediction.null_odds for prediction in predictions])
    has_answer = np.array([bool(example.answers) for example in examples])
    answered, centre = f1_if_answered(predictions, examples), curve.threshold(share)
    if len(examples) < MANY:
        gains = class_weights(has_answer, share) * (answered - ~has_answer)  # [N] of answering instead of "no answer"
        return older if _clearly_worse(gains, odds, centre, older) else centre
    found, _ = balanced_threshold(odds, answered, has_answer, tolerance=1.0, unanswerable=share, centre=centre)
    return found if _between(odds, found, centre).any() else centre


def _clearly_worse(gains: Doubles, odds: Doubles, threshold: float, other: float) -> bool:
    """Return whether a threshold loses more than one standard error of the paired difference to another.

    Only questions between the two have other scores.
    """
    own = gains[_between(odds, threshold, other)]
    lost = own.sum() if threshold < other else -own.sum()
    return bool(lost > np.sqrt((own**2).sum()))


def _between(odds: Doubles, one: float, other: float) -> Bools:
    """Return which questions two thresholds decide differently, [N]."""
    found: Bools = (odds > min(one, other)) & (odds <= max(one, other))
    return found


def _calibration(
    older: SpanDecision | None, predictions: Sequence[Prediction], examples: Sequence[Example], share: float
) -> Calibration:
    return fit_calibration(
        predictions,
        [not example.answers for example in examples],
        right(predictions, examples),
        weights=_weights(examples, share),
        prior=None if older is None else Prior(older.calibration, PRIOR),
    )


def _question_threshold(
    decision: SpanDecision, grouped: Sequence[Prediction], whole: Sequence[Example], unanswerable: float | None
) -> float | None:
    curve = null_curve(grouped, whole)
    share = share_of(whole) if unanswerable is None else unanswerable
    older = decision.over_contexts + shifted_threshold(decision, share) - decision.threshold
    return None if curve is None else _threshold(curve, grouped, whole, share, older=older)


def _weights(examples: Sequence[Example], share: float) -> Doubles:
    return class_weights(np.array([bool(example.answers) for example in examples]), share)


# Measure decisions


@dataclass(frozen=True, slots=True)
class Replies:
    """The replies to labelled questions: "" for no answer, and the confidence of each reply."""

    texts: dict[str, str]
    confidences: list[float]


def replies_of(decision: SpanDecision, predictions: Sequence[Prediction]) -> Replies:
    """Return the replies of a decision, one for each context, with the confidences that a reader gives."""
    texts = predictions_json(predictions, decision.threshold)
    confidences = []
    for prediction in predictions:
        null, *chances = decision.calibration.probabilities(prediction)
        answers = bool(texts[prediction.id])
        null, chances = ordered_confidences(null, chances, answers=answers, replies=answers)
        confidences.append(chances[0] if answers else null)
    return Replies(texts, confidences)


def measure(replies: Replies, examples: Sequence[Example], share: float) -> dict[str, float]:
    """Return the scores of replies in percent, as if this share of the questions were unanswerable, and the calibration error.

    Without questions of a kind, the scores of the kind are missing.
    """
    exact, f1 = question_scores(references(examples), replies.texts)
    weights = _weights(examples, share)
    ids = [example.id for example in examples]
    scores = {"exact": exact, "f1": f1}
    found = {name: 100 * float(np.dot(weights, [values[id] for id in ids])) for name, values in scores.items()}
    for kind, wanted in (("HasAns", True), ("NoAns", False)):
        own = [example.id for example in examples if bool(example.answers) is wanted]
        found |= {f"{kind}_{name}": 100 * float(np.mean([v[id] for id in own])) for name, v in scores.items() if own}
    hits = [exact[id] == 1 for id in ids]
    return {**found, "ece": calibration_error(replies.confidences, hits, weights=list(weights))}


def cross_validated(
    decision: SpanDecision,
    predictions: Sequence[Prediction],
    examples: Sequence[Example],
    *,
    unanswerable: float | None = None,
    across: Across = "margin",
) -> dict[str, float] | None:
    """Return `measure` of replies to questions that their decision was not fitted on, or None with too few questions.

    The questions on one context are in the same fold.
    """
    numbers: dict[str, int] = {}
    folds = [numbers.setdefault(example.context, len(numbers)) % FOLDS for example in examples]
    texts, confidences = dict[str, str](), dict[str, float]()
    for fold in range(min(FOLDS, len(numbers))):
        inside = [number for number, own in enumerate(folds) if own != fold]
        outside = [predictions[number] for number, own in enumerate(folds) if own == fold]
        some = [examples[number] for number in inside]
        try:
            fitted = refit(decision, [predictions[n] for n in inside], some, unanswerable=unanswerable, across=across)
        except LaminaError:  # too few questions without this fold
            return None
        found = replies_of(fitted, outside)
        texts |= found.texts
        confidences |= {p.id: value for p, value in zip(outside, found.confidences, strict=True)}
    replies = Replies(texts, [confidences[example.id] for example in examples])
    return measure(replies, examples, share_of(examples) if unanswerable is None else unanswerable)
