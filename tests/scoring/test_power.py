"""The power calculation of a study agrees with simulated studies."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from lamina.errors import LaminaError
from lamina.scoring.power import power_of
from lamina.scoring.significance import holm


def runs(random: np.random.Generator, seeds: int, questions: int, seed_deviation: float) -> list[np.ndarray]:
    """Return scores of questions: a difficulty that all runs share, noise of each run, and a shift of the whole run."""
    difficulty = random.normal(60, 20, questions)
    return [difficulty + random.normal(0, 10, questions) + random.normal(0, seed_deviation) for _ in range(seeds)]


def test_a_difference_of_the_visible_size_is_found_in_four_of_five_studies() -> None:
    random = np.random.default_rng(0)
    found = [power_of(runs(random, 5, 400, 1.0), None, seeds=3).visible for _ in range(40)]
    visible = float(np.mean(found))
    reach = NormalDist().inv_cdf(0.975)
    error = (2 * 10**2 / 400 + 2 * 1.0**2 / 3) ** 0.5
    detected = 0
    for _ in range(400):
        suits = random.normal(0, 10, (2, 400))  # which questions suit each recipe, whatever the seed
        shifts = random.normal(0, 1.0, (2, 3))  # of each run
        a, b = (suits[side].mean() + shifts[side].mean() for side in (0, 1))
        detected += abs(visible + b - a) > reach * error
    assert 0.72 < detected / 400 < 0.9
    assert visible == pytest.approx(2.8 * error, rel=0.15)


def test_more_seeds_see_smaller_differences() -> None:
    scores = runs(np.random.default_rng(1), 5, 300, 0.5)
    one, three = (power_of(scores, None, seeds=seeds) for seeds in (1, 3))
    of_questions, of_seeds = one.question_error**2, 2 * one.seed_deviation**2
    ratio = ((of_questions + of_seeds / 3) / (of_questions + of_seeds)) ** 0.5
    assert three.visible == pytest.approx(one.visible * ratio) and 3**-0.5 < ratio < 1
    with pytest.raises(LaminaError, match="needs two runs"):
        power_of(scores[:1], None, seeds=3)


def test_holm_equals_the_definition() -> None:
    random = np.random.default_rng(2)
    for _ in range(50):
        values = random.random(6) * 0.1
        ranked = np.sort(values)
        steps = np.minimum(1, np.maximum.accumulate((6 - np.arange(6)) * ranked))
        assert np.allclose(holm(values.tolist()), steps[np.searchsorted(ranked, values)])
    assert holm([]) == []
