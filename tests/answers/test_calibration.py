from __future__ import annotations

import numpy as np
import pytest

from lamina.answers.calibration import Calibration, calibration_error, fit_calibration, reliability
from lamina.answers.decode import Candidate, Prediction


def random_predictions(temperature: float, bias: float, count: int = 6000) -> tuple[list[Prediction], list[bool], list[bool]]:
    """Return predictions with known true probabilities, and events drawn from these."""
    random = np.random.default_rng(0)
    predictions, unanswerable, right = [], [], []
    true = Calibration(temperature, bias)
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
