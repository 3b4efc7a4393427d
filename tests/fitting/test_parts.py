"""Parts are disjoint, cover all examples, and never share an article, a context or a text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamina.data.examples import Sentence
from lamina.errors import LaminaError
from lamina.fitting.parts import grouped, parts_of
from tests import tiny


def test_every_question_is_tested_once_and_never_trained_on() -> None:
    examples, groups = grouped(tiny.corpus(12))
    assert groups == "articles"
    parts = parts_of(examples, 3, seed=0)
    assert sorted(e.id for part in parts for e in part.test) == sorted(e.id for e in examples)
    for train, test in parts:
        assert not {e.context for e in train} & {e.context for e in test}
        assert len(train) + len(test) == len(examples)
        assert 15 <= len(test) <= 25


def test_few_articles_are_held_out_by_their_texts() -> None:
    one_article = [replace(example, article="fables") for example in tiny.corpus(12)]
    examples, groups = grouped(one_article)
    assert groups == "texts"
    for train, test in parts_of(examples, 4, seed=1):
        assert not {e.context for e in train} & {e.context for e in test}


def test_one_article_with_most_questions_is_cut_by_its_texts() -> None:
    examples = [replace(example, article="fables") if n < 40 else example for n, example in enumerate(tiny.corpus(16))]
    assert grouped(examples)[1] == "articles", "half of the questions"
    examples, groups = grouped([replace(e, article="fables") if n < 45 else e for n, e in enumerate(examples)])
    assert groups == "texts"
    for train, test in parts_of(examples, 4, seed=0):
        assert 15 <= len(test) <= 25 and not {e.context for e in train} & {e.context for e in test}


def test_one_text_with_most_questions_is_cut_by_its_questions() -> None:
    text = tiny.corpus(1)[0].context
    most = [replace(tiny.example(text, "snow", id=str(number)), article=text) for number in range(25)]
    examples, groups = grouped([*most, *(example for example in tiny.corpus(8) if example.id.endswith("-0"))])
    assert groups == "questions"
    assert all(7 <= len(part.test) <= 9 for part in parts_of(examples, 4, seed=0))


def test_questions_of_one_text_are_held_out_one_by_one() -> None:
    text = tiny.corpus(1)[0].context
    one_text = [tiny.example(text, "snow", id=str(number)) for number in range(30)]
    examples, groups = grouped(one_text)
    assert groups == "questions"
    parts = parts_of(examples, 4, seed=0)
    assert sum(len(part.test) for part in parts) == 30 and all(part.test for part in parts)


def test_parts_of_sentences_have_all_classes() -> None:
    rows = [Sentence(str(n), f"text {n}", label="ab"[n % 2]) for n in range(32)]
    for train, test in parts_of(rows, 4, seed=0):
        assert {s.label for s in train} == {s.label for s in test} == {"a", "b"}
        assert len(test) == 8


def test_rows_with_one_text_cannot_be_cut() -> None:
    rows = [Sentence(str(n), "the same text", label="ab"[n % 2]) for n in range(32)]
    with pytest.raises(LaminaError, match=r"cannot be cut into 4 parts.* Fix: add examples"):
        parts_of(rows, 4, seed=0)
