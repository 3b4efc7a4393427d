from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.data.examples import Answer, Example, Sentence
from lamina.data.sentences import SentenceReading, read_sentences
from lamina.data.splits import (
    Choose,
    choose_contexts,
    every,
    first_questions,
    hold_out_articles,
    hold_out_sentences,
    holdout_share,
    per_class,
    sample,
    sample_questions,
    without_unseen,
)
from lamina.errors import LaminaError, LaminaWarning
from tests.tiny import corpus, example


def articles(sizes: list[int]) -> list[Example]:
    made = [(number, index) for number, size in enumerate(sizes) for index in range(size)]
    return [replace(example("x", id=f"{number}-{index}"), article=f"t{number}") for number, index in made]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=40), st.floats(0.01, 0.9), st.integers(0, 9))
def test_whole_articles_are_held_out_and_nothing_is_lost(sizes: list[int], share: float, seed: int) -> None:
    examples = articles(sizes)
    kept, held = hold_out_articles(examples, share, seed)
    assert not {e.article for e in kept} & {e.article for e in held}
    assert sorted(e.id for e in kept + held) == sorted(e.id for e in examples)
    assert [e for e in examples if e in kept] == kept, "in the same order"
    assert kept
    assert held
    if len(held) > share * len(examples):
        assert len(held) == min(sizes), "if every article is too big, the smallest is held out"
    smallest_left = min(Counter(e.article for e in kept).values())
    assert len(held) + smallest_left > share * len(examples), "there was room for another article"


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5])
def test_share_is_about_right(share: float) -> None:
    examples = articles([3, 5, 2, 4, 6] * 40)
    assert len(hold_out_articles(examples, share, 0)[1]) / len(examples) == pytest.approx(share, abs=0.005)


@given(share=st.floats(0.001, 0.9), count=st.integers(2, 5000))
def test_small_data_hold_out_ten_examples_or_a_third(share: float, count: int) -> None:
    found = holdout_share(share, count)
    assert found >= share
    if share * count >= 10:
        assert found == share
    else:
        assert round(found * count, 6) == round(max(share * count, min(10, count / 3)), 6)
    assert holdout_share(0.0, count) == 0


def test_split_depends_on_the_seed() -> None:
    examples = corpus()
    assert hold_out_articles(examples, 0.3, 1) == hold_out_articles(examples, 0.3, 1)
    assert len({tuple(e.article for e in hold_out_articles(examples, 0.3, seed)[1]) for seed in range(8)}) > 4


def test_a_share_of_zero_holds_nothing_out() -> None:
    examples = corpus(1)
    assert hold_out_articles(examples, 0, 0) == (examples, [])


def test_one_article_cannot_be_split() -> None:
    with pytest.raises(LaminaError, match=r"one article.*data\.holdout = 0"):
        hold_out_articles(corpus(1), 0.1, 0)


def test_samples_keep_the_order_and_grow_with_the_count() -> None:
    examples = corpus()
    drawn = {count: sample(examples, count, 3) for count in (5, 20, 59)}
    for count, chosen in drawn.items():
        assert len(chosen) == count
        assert [e for e in examples if e in chosen] == chosen
    assert {e.id for e in drawn[5]} < {e.id for e in drawn[20]} < {e.id for e in drawn[59]}
    assert sample(examples, 20, 4) != drawn[20]
    assert sample(examples, None, 3) == sample(examples, 1000, 3) == examples
    assert sample("abcdef", 6, 0) == [*"abcdef"], "items of any type"


# ---- sentences


def pairs(texts: list[tuple[int, int]], labels: list[str]) -> list[Sentence]:
    return [
        Sentence(str(row), f"text {a}", f"TEXT  {b}" if b else None, labels[row % len(labels)])
        for row, (a, b) in enumerate(texts)
    ]


def texts_of(sentences: list[Sentence]) -> set[str]:
    return {" ".join(text.lower().split()) for s in sentences for text in (s.first, s.second) if text}


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 60)), min_size=2, max_size=60),
    st.lists(st.sampled_from(["0", "1", "2.5", "x"]), min_size=1, max_size=7),
    st.floats(0.01, 0.9),
    st.integers(0, 9),
)
def test_rows_that_share_a_text_stay_together(texts: list[tuple[int, int]], labels: list[str], share: float, seed: int) -> None:
    rows = pairs([(1000, 0), *texts], labels)  # at least one row shares no text
    try:
        kept, held = hold_out_sentences(rows, share, seed)
    except LaminaError:
        assert len(groups(rows)) == 1
        return
    assert not texts_of(kept) & texts_of(held)
    assert [row for row in rows if row in kept] == kept, "the old order"
    assert [row for row in rows if row in held] == held
    assert len(kept) + len(held) == len(rows)
    assert kept
    assert held
    if len(held) > share * len(rows):
        assert len(held) == min(map(len, groups(rows))), "only the smallest group may overshoot"
    assert len(held) + min(map(len, groups(kept))) > share * len(rows), "there was room for another group"


def groups(rows: list[Sentence]) -> list[set[str]]:
    """Return the groups of rows that share texts, by merging until nothing changes."""
    found = [({row.id}, texts_of([row])) for row in rows]
    joined = True
    while joined:
        joined = False
        for i, (_, texts) in enumerate(found):
            other = next((j for j in range(i + 1, len(found)) if found[j][1] & texts), None)
            if other is not None:
                ids, more = found.pop(other)
                found[i][0].update(ids)
                found[i][1].update(more)
                joined = True
                break
    return [ids for ids, _ in found]


@pytest.mark.parametrize("share", [0.05, 0.1, 0.4])
def test_each_class_is_held_out_by_its_share(share: float) -> None:
    rows = [Sentence(str(i), f"text {i}", None, "rare" if i % 20 == 0 else "often") for i in range(1000)]
    _, held = hold_out_sentences(rows, share, 0)
    assert Counter(row.label for row in held) == {
        "rare": round(50 * share // 1),
        "often": round(1000 * share) - 50 * share // 1,
    }


def test_held_out_sentences_depend_on_the_seed() -> None:
    rows = [Sentence(str(i), f"text {i}", None, str(i % 3)) for i in range(60)]
    assert hold_out_sentences(rows, 0.2, 1) == hold_out_sentences(rows, 0.2, 1)
    assert len({tuple(row.id for row in hold_out_sentences(rows, 0.2, seed)[1]) for seed in range(8)}) == 8


def test_sentences_that_cannot_be_split_raise() -> None:
    rows = pairs([(1, 2), (2, 3), (3, 4)], ["0"])
    assert hold_out_sentences(rows, 0, 0) == (rows, [])
    with pytest.raises(LaminaError, match=r"all rows share their texts.*data\.holdout = 0"):
        hold_out_sentences(rows, 0.3, 0)


@given(st.lists(st.sampled_from("abc"), max_size=40), st.integers(1, 12), st.integers(0, 5))
def test_per_class_limits_every_class(labels: list[str], count: int, seed: int) -> None:
    rows = [Sentence(str(i), "x", None, label) for i, label in enumerate(labels)]
    chosen = per_class(rows, count, seed)
    assert Counter(s.label for s in chosen) == {label: min(count, n) for label, n in Counter(labels).items()}
    assert [s for s in rows if s in chosen] == chosen
    assert set(per_class(rows, count, seed)) <= set(per_class(rows, count + 1, seed))
    assert per_class(rows, None, seed) == rows


@given(st.lists(st.integers(), max_size=30), st.integers(1, 9))
def test_every_nth_item_is_separated(items: list[int], n: int) -> None:
    rest, chosen = every(items, n)
    assert chosen == [item for position, item in enumerate(items) if position % n == 0]
    assert rest == [item for position, item in enumerate(items) if position % n != 0]


def test_dev_split_of_quora_by_convention(shared: Path) -> None:
    with pytest.warns(LaminaWarning):
        rows = read_sentences(shared / "data" / "quora-dev-20212.csv.xz", SentenceReading(skip_broken=True))
    rest, dev = every(rows, 8)
    assert (len(rest), len(dev)) == (17685, 2527)
    kept, held = hold_out_sentences(rest, 0.05, 0)
    assert not texts_of(kept) & texts_of(held)
    assert len(held) == pytest.approx(0.05 * len(rest), abs=1)
    shares = [sum(row.label == "1.0" for row in part) / len(part) for part in (kept, held)]
    assert shares[0] == pytest.approx(shares[1], abs=0.005)


# ---- several contexts per question

GROUPS = st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=2, max_size=15)


def grouped(answerable: list[list[bool]]) -> list[Example]:
    """Return questions whose contexts hold an answer or not, each context in an article of its own."""
    return [
        Example(f"{q}#{k}", "?", f"x {q} {k}", (Answer("x", 0),) if holds else (), f"{q}", f"article {(3 * q + k) % 5}")
        for q, question in enumerate(answerable)
        for k, holds in enumerate(question)
    ]


def of_group(examples: list[Example], group: str) -> list[Example]:
    return [example for example in examples if example.group == group]


@given(GROUPS, st.integers(1, 6), st.sampled_from(["answerable_first", "first", "sampled"]), st.integers(0, 5))
def test_contexts_are_chosen_for_each_question(answerable: list[list[bool]], count: int, how: Choose, seed: int) -> None:
    examples = grouped(answerable)
    chosen = choose_contexts(examples, count, how, seed)
    assert choose_contexts(examples, None, how, seed) == examples
    assert [example for example in examples if example in chosen] == chosen, "in the same order"
    for q, holds in enumerate(answerable):
        own, taken = of_group(examples, str(q)), of_group(chosen, str(q))
        assert len(taken) == min(count, len(own))
        if how == "first":
            assert taken == own[:count]
        if how == "answerable_first":
            assert sum(bool(example.answers) for example in taken) == min(count, sum(holds))
            assert [e for e in own if not e.answers][: len(taken) - min(count, sum(holds))] == [
                e for e in taken if not e.answers
            ]
        if how == "sampled":
            assert of_group(choose_contexts(examples[len(answerable[0]) :], count, how, seed), str(q)) in ([], taken)


def test_contexts_are_drawn_evenly_and_by_the_seed() -> None:
    examples = grouped([[True, False, False, False]] * 400)
    drawn = [choose_contexts(examples, 1, "sampled", seed) for seed in (0, 1)]
    assert drawn[0] != drawn[1]
    assert all(60 < count < 140 for count in Counter(example.id[-1] for example in drawn[0]).values())


@given(GROUPS, st.floats(0.05, 0.8), st.integers(0, 5))
def test_contexts_of_a_question_are_held_out_together(answerable: list[list[bool]], share: float, seed: int) -> None:
    examples = grouped(answerable)
    home = {example.group: example.article for example in reversed(examples)}
    if len(set(home.values())) == 1:
        return
    kept, held = hold_out_articles(examples, share, seed)
    assert not {e.group for e in kept} & {e.group for e in held} and kept and held
    assert not {home[e.group] for e in kept} & {home[e.group] for e in held}
    assert len(kept) + len(held) == len(examples)


@given(GROUPS, st.integers(1, 15), st.integers(0, 5))
def test_questions_are_drawn_with_all_of_their_contexts(answerable: list[list[bool]], count: int, seed: int) -> None:
    examples = grouped(answerable)
    for drawn in (sample_questions(examples, count, seed), first_questions(examples, count)):
        groups = {example.group for example in drawn}
        assert len(groups) == min(count, len(answerable))
        assert drawn == [example for example in examples if example.group in groups]
    assert first_questions(examples, 1) == of_group(examples, "0")
    assert sample_questions(examples, None, seed) == first_questions(examples, None) == examples


def test_texts_that_answer_held_out_questions_are_not_trained_on_as_unanswerable() -> None:
    texts = [f"x {number}" for number in range(4)]  # each is the own text of one question and another text of a second one
    examples = [
        Example(f"{q}#{k}", "?", texts[(q + k) % 4], (Answer("x", 0),) if k == 0 else (), f"{q}", f"article {q}")
        for q in range(4)
        for k in range(3)
    ]
    kept, held = hold_out_articles(examples, 0.25, 0)
    unseen = {example.context for example in held if example.answers}
    assert unseen & {example.context for example in kept}
    left = without_unseen(kept, held)
    assert [example for example in left if not example.answers] == [
        e for e in kept if not e.answers and e.context not in unseen
    ]
    assert [example for example in left if example.answers] == [e for e in kept if e.answers], "nothing else is removed"
    assert without_unseen(kept, []) == kept


def test_questions_with_one_context_are_unchanged() -> None:
    examples = corpus()
    assert without_unseen(examples, examples) == examples
    assert sample_questions(examples, 17, 3) == sample(examples, 17, 3)
    assert first_questions(examples, 17) == examples[:17]
    assert choose_contexts(examples, 1, "sampled", 0) == examples
