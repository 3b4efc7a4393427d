from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.training.schedules import linear


def test_without_warmup_it_falls_from_the_top() -> None:
    assert [linear(progress, 0.0) for progress in (0.0, 0.25, 1.0)] == [1.0, 0.75, 0.0]


@settings(deadline=None)
@given(st.floats(0, 1), st.floats(0, 0.99))
def test_it_stays_between_0_and_1_and_turns_at_the_end_of_warmup(progress: float, warmup: float) -> None:
    rate = linear(progress, warmup)
    assert 0 <= rate <= 1
    later = min(1.0, progress + 1e-3)
    if later <= warmup:
        assert linear(later, warmup) >= rate
    if progress >= warmup:
        assert linear(later, warmup) <= rate
        assert rate == pytest.approx((1 - progress) / (1 - warmup))
