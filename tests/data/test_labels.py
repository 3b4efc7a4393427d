from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.data.labels import Labels, as_score, labels_in
from lamina.errors import LaminaError


def test_classes_are_numbered_in_their_order() -> None:
    labels = Labels(("bad", "good"))
    assert not labels.are_scores
    assert [labels.number(name) for name in ("good", "bad")] == [1.0, 0.0]
    with pytest.raises(LaminaError, match=r"'fine' is not in data\.classes\. Fix: .* one of bad, good"):
        labels.number("fine")


@pytest.mark.parametrize("label", ["5.2", "-0.1", "nan", "inf", "many", ""])
def test_a_score_is_a_number_within_its_bounds(label: str) -> None:
    with pytest.raises(LaminaError, match=r"is no number from 0 to 5\. Fix: .*data\.scores"):
        Labels(low=0, high=5).number(label)


def test_bounds_are_valid_scores() -> None:
    labels = Labels(low=1, high=5)
    assert labels.are_scores
    assert [labels.number("1"), labels.number("5.000")] == [1, 5]
    assert [labels.score(share) for share in (0, 0.25, 1)] == [1, 2, 5]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_is_a_score(number: float) -> None:
    assert as_score(str(number)) == number


def test_labels_are_guessed_as_classes_or_scores() -> None:
    assert labels_in(["10", "9", "10"]).classes == ("9", "10")
    assert labels_in(["yes", "1", "no"]).classes == ("1", "no", "yes")
    assert labels_in(["0.0", "1.0"]).classes == ("0.0", "1.0")
    assert labels_in(["1.5", "4.2"]) == Labels(low=0, high=5)
    assert labels_in(["-0.5", "1"]) == Labels(low=-1, high=1)
