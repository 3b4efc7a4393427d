"""The choice of layers, epochs and parts is a pure function that respects the minutes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lamina.fitting.choice import CROSSED, LEAST, USABLE, Choice, Size, Speed, choose, cost, target_epochs

sizes = st.builds(
    Size,
    examples=st.integers(30, 20_000),
    tokens=st.integers(1_000, 10_000_000),
    layers=st.sampled_from([1, 2, 6, 12, 24]),
    shared=st.booleans(),
    sentences=st.booleans(),
)
speeds = st.floats(1e-6, 1e-2).map(lambda train: Speed(train, train / 3))
budgets = st.floats(0.1, 120)


@given(sizes, speeds, budgets)
def test_choice_fits_the_minutes_unless_nothing_smaller_is_left(size: Size, speed: Speed, minutes: float) -> None:
    choice = choose(size, speed, minutes)
    assert choice.seconds == cost(choice, size, speed)
    assert choice.seconds <= 60 * USABLE * minutes + 1e-6 or choice.epochs == LEAST
    assert 0 < choice.epochs <= target_epochs(size)
    assert 1 <= choice.layers <= choice.depth == size.layers
    assert choice.whole or not size.shared
    assert not choice.crossed or size.examples < CROSSED
    assert choice.parts >= 2


@given(sizes, speeds, budgets, st.floats(1, 10))
def test_more_time_never_trains_less(size: Size, speed: Speed, minutes: float, factor: float) -> None:
    short, long = choose(size, speed, minutes), choose(size, speed, factor * minutes)

    def rank(choice: Choice) -> tuple[bool, int, float]:
        return choice.crossed, choice.layers, choice.epochs

    assert rank(long) >= rank(short)


@given(sizes, speeds, budgets)
def test_a_slower_machine_never_trains_more(size: Size, speed: Speed, minutes: float) -> None:
    slow = Speed(2 * speed.train, 2 * speed.read)
    fast_choice, slow_choice = choose(size, speed, minutes), choose(size, slow, minutes)
    assert (slow_choice.crossed, slow_choice.layers) <= (fast_choice.crossed, fast_choice.layers)


def test_small_data_is_cross_validated_and_large_data_is_not() -> None:
    speed = Speed(3e-4, 1e-4)
    assert choose(Size(30, 9_000, 6), speed, 5).crossed
    large = choose(Size(5_000, 1_000_000, 6), speed, 1_000)
    assert (large.crossed, large.parts, large.whole) == (False, 10, True)


def test_cross_validation_comes_before_epochs() -> None:
    """200 questions in five minutes at 3,300 tokens a second: a few steps less, but every question is tested."""
    choice = choose(Size(200, 60_000, 6), Speed(3e-4, 1e-4), 5)
    assert (choice.crossed, choice.whole) == (True, True)
    assert 3.5 <= choice.epochs < 4


def test_little_time_trains_the_last_layers_on_stored_states() -> None:
    size, speed = Size(3_000, 1_000_000, 12), Speed(3e-4, 1e-4)
    assert choose(size, speed, 5).layers == 6
    choice = choose(size, speed, 3)
    assert (choice.layers, choice.crossed) == (3, False)
    assert choice.epochs < target_epochs(size) / 2


def test_two_lines_explain_the_choice() -> None:
    size = Size(200, 60_000, 6)
    choice = choose(size, Speed(2e-4, 7e-5), 5)
    first, second = choice.lines(size, 5)
    assert first == "choice: train all 6 layers for 4 epochs on 200 questions (60,000 tokens)"
    assert second.startswith("test: 3 parts, each predicted by a model trained on the others")
    few = replace(choice, layers=2, crossed=False).lines(size, 5)
    assert "the last 2 of 6 layers on stored states" in few[0] and "hold out 1 of 3 parts" in few[1]
