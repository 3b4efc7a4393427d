from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.data.examples import Example
from lamina.data.splits import hold_out, sample
from lamina.errors import LaminaError
from tests.tiny import corpus, example


def articles(sizes: list[int]) -> list[Example]:
    made = [(number, index) for number, size in enumerate(sizes) for index in range(size)]
    return [replace(example("x", id=f"{number}-{index}"), article=f"t{number}") for number, index in made]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=40), st.floats(0.01, 0.9), st.integers(0, 9))
def test_whole_articles_are_held_out_and_nothing_is_lost(sizes: list[int], share: float, seed: int) -> None:
    examples = articles(sizes)
    kept, held = hold_out(examples, share, seed)
    assert not {e.article for e in kept} & {e.article for e in held}
    assert sorted(e.id for e in kept + held) == sorted(e.id for e in examples)
    assert [e for e in examples if e in kept] == kept, "the old order"
    assert kept
    assert held
    if len(held) > share * len(examples):
        assert len(held) == min(sizes), "only where every article is too big may the smallest overshoot"
    smallest_left = min(Counter(e.article for e in kept).values())
    assert len(held) + smallest_left > share * len(examples), "there was room for another article"


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5])
def test_the_share_is_about_right(share: float) -> None:
    examples = articles([3, 5, 2, 4, 6] * 40)
    assert len(hold_out(examples, share, 0)[1]) / len(examples) == pytest.approx(share, abs=0.005)


def test_the_seed_decides() -> None:
    examples = corpus()
    assert hold_out(examples, 0.3, 1) == hold_out(examples, 0.3, 1)
    assert len({tuple(e.article for e in hold_out(examples, 0.3, seed)[1]) for seed in range(8)}) > 4


def test_a_share_of_nothing_holds_nothing_out() -> None:
    examples = corpus(1)
    assert hold_out(examples, 0, 0) == (examples, [])


def test_one_article_cannot_be_split() -> None:
    with pytest.raises(LaminaError, match=r"one article.*data\.holdout = 0"):
        hold_out(corpus(1), 0.1, 0)


def test_samples_keep_the_order_and_grow_with_the_count() -> None:
    examples = corpus()
    drawn = {count: sample(examples, count, 3) for count in (5, 20, 59)}
    for count, chosen in drawn.items():
        assert len(chosen) == count
        assert [e for e in examples if e in chosen] == chosen
    assert {e.id for e in drawn[5]} < {e.id for e in drawn[20]} < {e.id for e in drawn[59]}
    assert sample(examples, 20, 4) != drawn[20]
    assert sample(examples, None, 3) == sample(examples, 1000, 3) == examples
