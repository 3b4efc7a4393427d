"""The test of equivalence: its verdicts, and that it is rarely wrong."""

from __future__ import annotations

import numpy as np
import pytest

from lamina.errors import LaminaError
from lamina.scoring.equivalence import equivalence


def test_equal_scores_are_equivalent_and_others_are_not() -> None:
    random = np.random.default_rng(0)
    a = random.integers(0, 2, 4000).astype(np.float64)
    assert equivalence(a, a, 0.01).verdict == "equivalent"
    worse = np.where(random.random(4000) < 0.2, 0, a)
    found = equivalence(a, worse, 0.02)
    assert found.verdict == "different"
    assert found.low < found.mean < found.high < -0.02


def test_few_items_cannot_tell() -> None:
    random = np.random.default_rng(1)
    a, b = (random.integers(0, 2, 60).astype(np.float64) for _ in range(2))
    found = equivalence(a, b, 0.05)
    assert (found.verdict, found.items) == ("undecided", 60)


def test_a_difference_as_large_as_the_margin_is_rarely_called_equivalent() -> None:
    """The level of the test is 5%. 19 or more of 150 are less likely than one in 5,000."""
    random = np.random.default_rng(2)
    wrong = 0
    for number in range(150):
        shift = random.choice([0.0, 1.0], 300, p=[0.9, 0.1])  # its mean is the margin
        a = random.normal(size=300)
        wrong += equivalence(a, a + shift, 0.1, resamples=1000, seed=number).verdict == "equivalent"
    assert wrong < 19


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="margin must be above 0"):
        equivalence(np.zeros(3), np.zeros(3), 0)
    with pytest.raises(LaminaError, match="scores of 3 and of 2 items"):
        equivalence(np.zeros(3), np.zeros(2), 1)
