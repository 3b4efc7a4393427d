"""Several sets of questions as one: draws, unique ids, copies, and articles and texts that stay in one split."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.augment.eda import EdaOptions, augment_all
from lamina.augment.unanswerable import UnanswerableOptions, with_unanswerable
from lamina.config.parse import parse_recipe
from lamina.config.recipe import TaskOptions
from lamina.data import multi_context
from lamina.data.bm25 import with_neighbours
from lamina.data.examples import Example
from lamina.data.splits import hold_out_articles, questions_of, without_unseen
from lamina.data.squad import to_squad
from lamina.data.training_sets import TrainingSet, mixed, repeated, sources_of
from lamina.errors import LaminaError
from lamina.tasks.kind import FileCache
from lamina.tasks.spans import SPANS
from tests import tiny


def made(name: str, contexts: Sequence[int], *, ids: int = 3) -> list[Example]:
    """Return questions with so many contexts each. Their ids clash with those of other sets."""
    return [
        Example(f"q{number}#{k}", f"{name} {number}?", f"text {number} {k}", (), f"q{number}", f"article {number % ids}")
        for number, count in enumerate(contexts)
        for k in range(count)
    ]


def limits() -> st.SearchStrategy[dict[str, object]]:
    return st.one_of(
        st.just({}),
        st.fixed_dictionaries({"share": st.floats(0.01, 1)}),
        st.fixed_dictionaries({"questions": st.integers(1, 20)}),
    )


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.tuples(st.lists(st.integers(1, 3), min_size=1, max_size=12), limits()), min_size=1, max_size=4),
    st.integers(0, 5),
)
def test_each_question_appears_at_most_once_and_limits_hold(
    given_sets: list[tuple[list[int], dict[str, object]]], seed: int
) -> None:
    sets = [
        (TrainingSet.model_validate({"name": f"set{number}", **limit}), made(f"set{number}", sizes))
        for number, (sizes, limit) in enumerate(given_sets)
    ]
    found = mixed(sets, seed)
    assert max(Counter(example.id for example in found).values()) == 1
    assert sources_of(found) == [one.name for one, _ in sets]
    for one, examples in sets:
        drawn = [example for example in found if example.source == one.name]
        whole, taken = questions_of(examples), questions_of(drawn)
        texts = [(e.question, e.context) for e in drawn]
        assert texts == [text for e in examples if (text := (e.question, e.context)) in texts], "in the order of the set"
        assert len(taken) == min(len(whole), one.count(len(whole)) or len(whole))
        for contexts in taken.values():
            assert len({e.question for e in contexts}) == 1, "questions of two sets are never one question"
            assert len(contexts) == sum(e.question == contexts[0].question for e in examples), "all contexts are taken"


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=30), st.floats(0.01, 1), st.floats(0.01, 1), st.integers(0, 3))
def test_a_larger_share_contains_every_smaller_one(sizes: list[int], one: float, other: float, seed: int) -> None:
    first = TrainingSet(name="a", share=0.5), made("a", sizes)  # its draw decides nothing about the other set
    small, large = (
        {e.id for e in mixed([first, (TrainingSet(name="b", share=share), made("b", sizes))], seed) if e.source == "b"}
        for share in sorted((one, other))
    )
    assert small <= large
    counts = [{e.id for e in mixed([(TrainingSet(name="b", questions=n), made("b", sizes))], seed)} for n in (2, 5)]
    assert counts[0] <= counts[1]


def test_the_draw_of_a_set_is_that_of_the_whole_data() -> None:
    """`questions` of one set in a list draws what `data.questions` draws, and depends on the seed alone."""
    examples = made("a", [1] * 40)
    draws = {seed: [e.id for e in mixed([(TrainingSet(name="a", questions=7), examples)], seed)] for seed in range(4)}
    assert len({tuple(draw) for draw in draws.values()}) == 4
    again = mixed([(TrainingSet(name="b"), made("b", [2] * 9)), (TrainingSet(name="a", questions=7), examples)], 2)
    questions = {e.id: e.question for e in examples}
    assert [e.question for e in again if e.source == "a"] == [questions[one] for one in draws[2]]


def test_copies_have_ids_of_their_own_and_keep_their_contexts_together() -> None:
    sets = (TrainingSet(name="a", repeat=3), TrainingSet(name="b"))
    examples = mixed([(sets[0], made("a", [2, 1])), (sets[1], made("b", [2, 1]))], 0)
    found = repeated(examples, sets)
    assert found[: len(examples)] == examples
    assert len({e.id for e in found}) == len(found) == 3 * 3 + 3
    assert Counter(e.source for e in found) == {"a": 9, "b": 3}
    assert Counter(len(contexts) for contexts in questions_of(found).values()) == {2: 4, 1: 4}
    assert repeated(examples, sets[1:]) == examples


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 6), st.lists(st.integers(0, 12), min_size=1, max_size=3, unique=True)),
        min_size=4,
        max_size=30,
    ),
    st.sets(st.integers(0, 12)),
    st.integers(0, 3),
)
def test_no_text_and_no_article_is_in_both_splits_of_different_sets(
    asked: list[tuple[str, int, list[int]]], answering: set[int], seed: int
) -> None:
    answer = tiny.example("text", "text").answers
    examples = [
        Example(f"{n}#{k}", "?", f"text  {text}", answer if text in answering else (), str(n), f"article {article}", source)
        for n, (source, article, texts) in enumerate(asked)
        for k, text in enumerate(texts)
    ]
    if len({e.article for e in examples}) < 2:
        return
    try:
        kept, held = hold_out_articles(examples, 0.3, seed)
    except LaminaError as error:  # texts may join all articles
        assert "share their texts" in str(error)
        return
    kept = without_unseen(kept, held)
    assert held
    home = {e.group: e.article for e in reversed(examples)}
    assert not {home[e.group] for e in kept} & {home[e.group] for e in held}
    assert not {e.group for e in kept} & {e.group for e in held}
    for source in {e.source for e in examples}:
        texts = {e.context for e in kept if e.source == source}
        assert not texts & {e.context for e in held if e.source != source}


def test_each_set_has_its_share_held_out() -> None:
    examples = [
        Example(f"{name}{number}", "?", f"{name} {number}", (), f"{name}{number}", f"{name} {number}", name)
        for name, count in (("a", 400), ("b", 40))
        for number in range(count)
    ]
    for seed in range(5):
        held = Counter(e.source for e in hold_out_articles(examples, 0.1, seed)[1])
        assert held == {"a": 40, "b": 4}


@pytest.mark.parametrize("small", [(30,), (12,) * 5, (3, 27)])
def test_a_small_set_is_never_held_out_whole(small: tuple[int, ...]) -> None:
    articles = [("a", size) for size in small] + [("b", 140 + number) for number in range(10)]
    examples = [
        Example(f"{n} {k}", "?", f"text {n} {k}", (), f"{n} {k}", f"article {n}", source)
        for n, (source, size) in enumerate(articles)
        for k in range(size)
    ]
    for seed in range(5):
        kept, held = hold_out_articles(examples, 0.05, seed)
        assert held
        assert sum(e.source == "a" for e in kept) >= sum(small) / 2


def test_texts_are_compared_without_case_and_spaces() -> None:
    texts = ["The  heron sleeps.", "the heron\nsleeps.", "Otters swim.", "Moose eat moss."]
    sources = ["a", "b", "a", "b"]
    examples = [
        replace(tiny.example(text, id=str(n)), article=str(n), source=source)
        for n, (text, source) in enumerate(zip(texts, sources, strict=True))
    ]
    for seed in range(12):
        held = {e.id for e in hold_out_articles(examples, 0.5, seed)[1]}
        assert len(held & {"0", "1"}) != 1


def test_synthetic_and_noisy_questions_keep_their_source() -> None:
    examples = [replace(e, source="a" if number % 2 else "b") for number, e in enumerate(tiny.corpus(12))]
    source = {e.id: e.source for e in examples}
    found = with_unanswerable(examples, UnanswerableOptions(share=0.4), 0)
    assert len(found) > len(examples)
    noisy = augment_all(found, EdaOptions(alpha=0.3, mix=True), seed=0, epoch=0, share=1.0)
    assert len(noisy) == 2 * len(found)
    for one in noisy:
        assert one.source == source[one.id.partition("#")[0]]


def options(train: object, **data: object) -> TaskOptions:
    return parse_recipe({"data": {"train": train, "holdout": 0.2, **data}}).main


def write(path: Path, examples: Sequence[Example]) -> str:
    path.write_text(json.dumps(to_squad(examples)))
    return str(path)


def test_a_list_of_one_set_has_the_splits_of_its_name(tmp_path: Path) -> None:
    name = write(tmp_path / "train.json", tiny.corpus(12))
    for data in ({}, {"fraction": 0.5}, {"questions": 40}):
        one = SPANS.splits(options(name, **data), 1, FileCache(), dev=False)
        listed = SPANS.splits(options([name], **data), 1, FileCache(), dev=False)
        for wanted, found in zip(one, listed, strict=True):
            assert wanted == [replace(example, source="") for example in found]
            assert tiny.windows(wanted).fingerprint == tiny.windows(found).fingerprint
    capped = SPANS.splits(options([{"name": name, "questions": 40}]), 1, FileCache(), dev=False)
    assert [replace(e, source="") for e in capped.train] == SPANS.splits(options(name, questions=40), 1, FileCache()).train


def test_splits_of_one_set_are_those_of_earlier_versions(tmp_path: Path) -> None:
    name = write(tmp_path / "train.json", tiny.corpus(12))
    held_out = {0: ["tale 2", "tale 10"], 1: ["tale 6", "tale 9"]}
    for seed, articles in held_out.items():
        splits = SPANS.splits(options(name), seed, FileCache(), dev=False)
        assert list(dict.fromkeys(e.article for e in splits.holdout)) == articles
        assert splits.train == [e for e in tiny.corpus(12) if e.article not in articles]
    drawn = SPANS.splits(options(name, questions=50, fraction=0.5), 0, FileCache(), dev=False)
    assert [e.id for e in drawn.train[:8]] == ["0-1", "0-3", "0-4", "3-0", "3-4", "4-2", "5-1", "5-2"]
    assert (len(drawn.train), len(drawn.holdout)) == (20, 10)
    assert [e.id for e in drawn.holdout[:12:5]] == ["1-0", "2-3"]


def test_sets_with_clashing_ids_and_several_contexts(tmp_path: Path) -> None:
    corpus = tiny.corpus(16)
    one = write(tmp_path / "one.json", corpus[:40])
    other = str(tmp_path / "other.json")
    asked = [replace(e, id=first.id, group=first.id) for e, first in zip(corpus[40:], corpus[:40], strict=True)]
    multi_context.write_questions(Path(other), with_neighbours(asked, 3, seed=0, hits="impossible").questions)
    splits = SPANS.splits(options([one, {"name": other, "share": 0.8, "repeat": 2}]), 0, FileCache(), dev=False)
    assert sources_of(splits.train) == sources_of(splits.holdout) == [one, other]
    everything = [*splits.train, *splits.holdout]
    assert len({e.id for e in everything}) == len(everything)
    for contexts in questions_of(everything).values():
        assert len({(e.question, e.source) for e in contexts}) == 1
    for source, whole in ((one, corpus[:40]), (other, corpus[40:])):
        assert {e.context for e in everything if e.source == source} <= {e.context for e in whole}


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_fractions_have_the_same_held_out_split(tmp_path: Path, share: float) -> None:
    corpus = tiny.corpus(16)
    sets = [write(tmp_path / "one.json", corpus[:40]), write(tmp_path / "other.json", corpus[40:])]
    whole = SPANS.splits(options(sets), 0, FileCache(), dev=False)
    part = SPANS.splits(options(sets, fraction=share), 0, FileCache(), dev=False)
    assert part.holdout == whole.holdout
    assert {e.id for e in part.train} <= {e.id for e in whole.train}
    assert len(part.train) == round(share * len(whole.train))
