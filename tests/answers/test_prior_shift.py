"""Shifts to another share of unanswerable questions, against Bayes' rule, on null odds whose distribution is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.answers.calibration import Calibration
from lamina.answers.decisions import SpanDecision
from lamina.answers.decode import Candidate, Prediction
from lamina.answers.logistic import logit
from lamina.answers.null_curve import FARTHEST, fit_curve
from lamina.answers.prior_shift import can_shift, estimate_from, estimate_share, shifted
from lamina.utils.arrays import Bools, Doubles

WIDTH = 2.0  # standard deviation of the odds; the means are 1 for unanswerable and -1 for answerable questions
TEMPERATURE = WIDTH**2 / 2  # the log odds of "unanswerable" are then odds / TEMPERATURE + logit(share)
SHARES = st.floats(0.1, 0.9)


def drawn(share: float, count: int, seed: int = 0) -> tuple[Doubles, Bools]:
    """Return null odds and whether each question is answerable."""
    random = np.random.default_rng(seed)
    has_answer = random.random(count) >= share
    return random.normal(np.where(has_answer, -1.0, 1.0), WIDTH), has_answer


def predictions(odds: Doubles) -> list[Prediction]:
    return [Prediction(str(n), float(value), (Candidate("x", 0, 1, 0.0),)) for n, value in enumerate(odds)]


def decision(share: float) -> SpanDecision:
    """Return the right decision for a share, with the threshold of training: for equal shares."""
    return SpanDecision(threshold=1e-9, calibration=Calibration(TEMPERATURE, TEMPERATURE * logit(share)), unanswerable=share)


@given(old=SHARES, new=SHARES, odds=st.floats(-8, 8))
@settings(max_examples=50, deadline=None)
def test_a_shift_is_bayes_rule(old: float, new: float, odds: float) -> None:
    found = shifted(decision(old), new)
    (one,) = predictions(np.array([odds]))
    null, _ = found.calibration.probabilities(one)
    assert logit(null) == pytest.approx(odds / TEMPERATURE + logit(new), abs=1e-6)
    assert found.threshold == pytest.approx(-TEMPERATURE * logit(new), abs=1e-6)  # where both kinds are equally probable
    assert (found.unanswerable, found.threshold_unanswerable, found.calibrated) == (new, new, "declared")


@given(old=SHARES, new=SHARES)
@settings(max_examples=30, deadline=None)
def test_a_shift_back_changes_nothing(old: float, new: float) -> None:
    start = shifted(decision(0.5), old).model_copy(update={"question_threshold": 2.0})
    again = shifted(shifted(start, new), old)
    assert again.threshold == pytest.approx(start.threshold)
    assert again.question_threshold == pytest.approx(2.0)
    assert again.calibration.bias == pytest.approx(start.calibration.bias)


@pytest.mark.parametrize("new", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("old", [0.2, 0.6])
def test_the_curve_has_the_best_threshold_for_every_share(old: float, new: float) -> None:
    """Every answer to an answerable question is right, so the best threshold is where both kinds are equally probable."""
    odds, has_answer = drawn(old, 20_000)
    curve = fit_curve(odds, has_answer.astype(float), has_answer)
    assert curve is not None
    assert curve.threshold(new) == pytest.approx(-TEMPERATURE * logit(new), abs=0.25)
    whole = decision(old).model_copy(update={"curve": curve})
    assert shifted(whole, new).threshold == curve.threshold(new)


def test_a_lower_f1_lowers_the_threshold() -> None:
    odds, has_answer = drawn(0.5, 20_000)
    thresholds = []
    for quality in (1.0, 0.5, 0.1):
        curve = fit_curve(odds, np.where(has_answer, quality, 0.0), has_answer)
        assert curve is not None
        thresholds.append(curve.threshold(0.5))
    assert thresholds == sorted(thresholds, reverse=True)
    assert thresholds[1] == pytest.approx(TEMPERATURE * logit(1 / 3), abs=0.2)  # 0.5 (1 - p) = p


def test_odds_without_information_always_or_never_answer() -> None:
    random = np.random.default_rng(0)
    has_answer = random.random(400) < 0.5
    odds = np.where(has_answer, 1.0, -1.0) + random.normal(size=400)  # the wrong way round
    curve = fit_curve(odds, has_answer.astype(float), has_answer)
    assert curve is not None and curve.unanswerable.slope == 0
    assert curve.threshold(0.1) == pytest.approx(FARTHEST, abs=1e-3)
    assert curve.threshold(0.9) == pytest.approx(-FARTHEST, abs=1e-3)
    equal = fit_curve(np.zeros(400), has_answer.astype(float), has_answer)
    assert equal is not None and np.isfinite(equal.threshold(0.5))


def test_a_curve_needs_questions_of_both_kinds() -> None:
    odds, has_answer = drawn(0.5, 40)
    assert fit_curve(odds, np.ones(40), np.arange(40) >= 5) is not None
    assert fit_curve(odds, np.ones(40), np.arange(40) >= 4) is None
    assert fit_curve(odds[has_answer], np.ones(has_answer.sum()), np.ones(has_answer.sum(), bool)) is None


def test_an_older_curve_counts_as_questions() -> None:
    odds, has_answer = drawn(0.5, 20_000)
    older = fit_curve(odds, has_answer.astype(float), has_answer)
    assert older is not None
    few, kinds = drawn(0.5, 50, seed=1)
    distances = []
    for counts in (0.0, 20.0, 1e9):
        curve = fit_curve(few, kinds.astype(float), kinds, older=older, counts=counts)
        assert curve is not None
        distances.append(abs(curve.unanswerable.slope - older.unanswerable.slope))
    assert distances[0] > distances[1] > distances[2]
    assert distances[2] == pytest.approx(0, abs=1e-3)


@given(share=st.floats(0.05, 0.95), old=SHARES, seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_the_share_is_estimated_without_labels(share: float, old: float, seed: int) -> None:
    odds, has_answer = drawn(share, 3000, seed)
    found = estimate_from(decision(old), predictions(odds))
    assert abs(found.share - (1 - has_answer.mean())) < 4 * found.error
    assert 0.005 < found.error < 0.05


def test_the_standard_error_is_the_spread_of_estimates() -> None:
    found = []
    for seed in range(60):
        odds, _ = drawn(0.4, 400, seed)
        found.append(estimate_from(decision(0.2), predictions(odds)))
    spread = np.std([one.share for one in found])
    assert np.mean([one.error for one in found]) == pytest.approx(spread, rel=0.3)


def test_the_estimate_uses_the_curve_if_there_is_one() -> None:
    fitted, kinds = drawn(0.2, 5000)
    curve = fit_curve(fitted, kinds.astype(float), kinds)
    wrong = SpanDecision(calibration=Calibration(50.0, 3.0), unanswerable=0.2, curve=curve)
    odds, has_answer = drawn(0.6, 3000, seed=3)
    assert estimate_from(wrong, predictions(odds)).share == pytest.approx(1 - has_answer.mean(), abs=0.08)


def test_an_estimate_stays_inside_0_and_1() -> None:
    assert estimate_share(np.full(50, 1e-12), 0.3).share == pytest.approx(0.01)
    assert estimate_share(np.full(50, 1 - 1e-12), 0.3).share == pytest.approx(0.99)


def test_only_known_shares_of_both_kinds_can_be_shifted() -> None:
    shares = {None: False, 0.0: False, 0.3: True, 1.0: False}
    assert {share: can_shift(SpanDecision(unanswerable=share)) for share in shares} == shares
    assert SpanDecision(unanswerable=0.3).threshold_unanswerable == 0.3, "never fitted: right for the training data"
    assert SpanDecision(unanswerable=0.3, threshold=1.0).threshold_unanswerable == 0.5, "training balances both kinds"
