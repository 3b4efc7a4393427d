from __future__ import annotations

import numpy as np
import pytest

from lamina.answers.calibration import Calibration, Prior, calibration_error, fit_calibration, reliability
from lamina.answers.decode import Candidate, Prediction


def random_predictions(
    temperature: float, bias: float, count: int = 6000, *, span_temperature: float | None = None, seed: int = 0
) -> tuple[list[Prediction], list[bool], list[bool]]:
    """Return predictions with known true probabilities, and events drawn from these."""
    random = np.random.default_rng(seed)
    predictions, unanswerable, right = [], [], []
    true = Calibration(temperature, bias, span_temperature)
    for number in range(count):
        scores = np.sort(random.normal(0, 4, 5))[::-1]
        candidates = tuple(Candidate(f"c{i}", i, i + 1, float(score)) for i, score in enumerate(scores))
        prediction = Prediction(str(number), float(random.normal(3, 4)), candidates)
        drawn = random.choice(6, p=true.probabilities(prediction))
        predictions.append(prediction)
        unanswerable.append(drawn == 0)
        right.append(drawn == 1)
    return predictions, unanswerable, right


@pytest.mark.parametrize(("temperature", "bias"), [(1.0, 0.0), (3.0, -4.0), (0.5, 2.0)])
def test_the_true_calibration_is_found(temperature: float, bias: float) -> None:
    predictions, unanswerable, right = random_predictions(temperature, bias)
    found = fit_calibration(predictions, unanswerable, right)
    assert found.temperature == pytest.approx(temperature, rel=0.1)
    assert found.bias == pytest.approx(bias, abs=0.4)
    chances = [found.probabilities(p) for p in predictions]
    assert calibration_error([c[0] for c in chances], unanswerable) < 0.02
    assert calibration_error([c[1] for c in chances], right) < 0.03


def test_calibration_reduces_overconfidence() -> None:
    predictions, unanswerable, right = random_predictions(4.0, -3.0)
    half = len(predictions) // 2
    found = fit_calibration(predictions[:half], unanswerable[:half], right[:half])
    errors = [
        calibration_error([c.probabilities(p)[0] for p in predictions[half:]], unanswerable[half:])
        for c in (Calibration(), found)
    ]
    assert errors[1] < 0.03 < 3 * errors[1] < errors[0]


def test_few_questions_or_no_candidates() -> None:
    predictions, unanswerable, right = random_predictions(3.0, 0.0, count=19)
    assert fit_calibration(predictions, unanswerable, right) == Calibration()
    nothing = [Prediction(str(n), 1.0, ()) for n in range(30)]
    fit_calibration(nothing, [True] * 30, [False] * 30)  # does not fail


def test_reliability_counts() -> None:
    rows = reliability([0.05, 0.05, 0.95, 1.0], [False, True, True, True])
    assert np.array(rows) == pytest.approx(np.array([(0.05, 0.5, 0.5), (0.975, 1.0, 0.5)]))


def test_equal_temperatures_are_the_plain_softmax() -> None:
    predictions, *_ = random_predictions(1.0, 0.0, count=30)
    for prediction in predictions:
        scores = np.array([prediction.null + 1.5, *(c.score for c in prediction.candidates)]) / 3.0
        expected = np.exp(scores) / np.exp(scores).sum()
        assert Calibration(3.0, 1.5).probabilities(prediction) == pytest.approx(expected)
        assert Calibration(3.0, 1.5, 3.0).probabilities(prediction) == pytest.approx(expected)
        assert sum(Calibration(3.0, 1.5, 0.5).probabilities(prediction)) == pytest.approx(1)
    assert Calibration(3.0, 1.5, 0.5).probabilities(Prediction("q", 1.0, ())) == (1.0,)


def test_both_temperatures_are_found() -> None:
    predictions, unanswerable, right = random_predictions(4.0, -1.0, span_temperature=1.5)
    found = fit_calibration(predictions, unanswerable, right)
    assert found.temperature == pytest.approx(4.0, rel=0.1)
    assert found.span_temperature == pytest.approx(1.5, rel=0.1)
    assert found.bias == pytest.approx(-1.0, abs=0.4)


def test_weights_act_as_repeated_questions() -> None:
    predictions, unanswerable, right = random_predictions(2.0, 1.0, count=400)
    weights = np.where(unanswerable, 3.0, 1.0)
    numbers = [n for n, times in enumerate(weights) for _ in range(int(times))]
    repeated = fit_calibration(
        [predictions[n] for n in numbers], [unanswerable[n] for n in numbers], [right[n] for n in numbers]
    )
    weighted = fit_calibration(predictions, unanswerable, right, weights=weights)
    assert weighted.bias == pytest.approx(repeated.bias, abs=0.05)
    assert weighted.temperature == pytest.approx(repeated.temperature, rel=0.05)
    confidence, hits = [0.2, 0.9, 0.9], [False, True, False]
    assert calibration_error(confidence, hits, weights=[2, 1, 1]) == pytest.approx(
        calibration_error([0.2, *confidence], [False, *hits])
    )


def test_a_prior_keeps_a_small_fit_near_it() -> None:
    old = Calibration(2.0, 1.0, 2.0)
    distances = []
    for questions in (0.0, 20.0, 1e6):
        changes = []
        for seed in range(5):
            predictions, unanswerable, right = random_predictions(2.0, 1.0, count=50, seed=seed)
            found = fit_calibration(predictions, unanswerable, right, prior=Prior(old, questions))
            changes.append(abs(np.log(found.temperature / old.temperature)))
        distances.append(np.mean(changes))
    assert distances[0] > distances[1] > distances[2]
    assert distances[2] < 0.02
