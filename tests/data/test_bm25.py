"""BM25 against a simple reference, and questions with neighbouring paragraphs."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.data import multi_context
from lamina.data.bm25 import K1, B, BM25Index, Hits, search_terms, with_neighbours
from lamina.data.examples import Answer, Example
from lamina.data.sources import load_examples
from lamina.data.squad import to_squad
from lamina.errors import LaminaError
from tests.command import lamina
from tests.tiny import corpus

WORDS = st.sampled_from(["owl", "mouse", "barn", "night", "서울", "부산"])
TEXTS = st.lists(st.lists(WORDS, max_size=12).map(" ".join), min_size=1, max_size=9)


def naive(texts: list[str], query: str) -> list[float]:
    bags = [Counter(search_terms(text)) for text in texts]
    mean = sum(bag.total() for bag in bags) / len(bags)
    scores = []
    for bag in bags:
        score = 0.0
        for word in search_terms(query):
            holding = sum(word in other for other in bags)
            rarity = math.log(1 + (len(bags) - holding + 0.5) / (holding + 0.5))
            if bag[word]:
                score += rarity * bag[word] / (bag[word] + K1 * (1 - B + B * bag.total() / mean))
        scores.append(score)
    return scores


@settings(max_examples=60)
@given(TEXTS, st.lists(st.sampled_from(["owl", "mouse", "barn", "서울", "unheard"]), max_size=5).map(" ".join))
def test_scores_equal_the_formula(texts: list[str], query: str) -> None:
    search = BM25Index(texts)
    np.testing.assert_allclose(search.scores(query), naive(texts, query), rtol=1e-5, atol=1e-6)
    scores = search.scores(query).tolist()
    best = sorted(range(len(texts)), key=lambda number: (-scores[number], number))
    for at_once in (1, 2, 32):
        assert list(search.best(query, at_once)) == best


def test_words() -> None:
    assert search_terms("Don't PANIC, it's 42!") == ["don", "t", "panic", "it", "s", "42"]
    assert search_terms("Ångström") == search_terms("A\u030angstro\u0308m")
    assert search_terms("東京タワー x") == ["東京", "京タ", "タワ", "ワー", "x"]
    assert search_terms("가 나다") == ["가", "나다"] and search_terms(" ?!") == []


def test_particle_does_not_hide_a_word() -> None:
    search = BM25Index(["부산은 바다에 있다.", "서울에서는 한강이 흐른다."])
    assert next(search.best("서울은 어디에?")) == 1


@pytest.mark.parametrize("hits", ["drop", "answerable", "impossible"])
def test_each_question_gets_its_own_and_the_most_similar_paragraphs(hits: Hits, tmp_path: Path) -> None:
    examples = corpus()
    made = with_neighbours(examples, 4, seed=3, hits=hits)
    path = tmp_path / "a.jsonl"
    multi_context.write_questions(path, made.questions)
    read = load_examples(str(path))
    paragraphs = list(dict.fromkeys(example.context for example in examples))
    search = BM25Index(paragraphs)
    found = 0
    assert made.paragraphs == len(read)
    for number, example in enumerate(examples):
        group = [one for one in read if one.group == example.id]
        wanted = [paragraphs[n] for n in search.best(example.question) if paragraphs[n] != example.context]
        held = [text for text in wanted if any(answer.text in text for answer in example.answers)]
        kept = [text for text in wanted if hits != "drop" or text not in held][:3]
        passed = wanted if len(kept) < 3 else wanted[: wanted.index(kept[-1]) + 1]
        assert len(kept) == 3 or (hits == "drop" and example.answers[0].text == "snow"), "every tale ends with snow"
        assert [one.id for one in group] == [f"{example.id}#{k}" for k in range(1 + len(kept))]
        assert {one.article for one in group} == {example.article} and {one.question for one in group} == {example.question}
        assert {one.context for one in group} == {example.context, *kept}
        for one in group:
            if one.context == example.context:
                assert one.answers == example.answers
            elif hits == "answerable":
                assert bool(one.answers) == (one.context in held)
            else:
                assert one.answers == ()
        found += sum(text in held for text in passed)
        assert made.questions[number]["qa"]["id"] == example.id
    assert made.hits == found > 0


def test_order_is_drawn_by_the_seed() -> None:
    examples = corpus()
    places = {
        seed: [
            [paragraph["contents"] for paragraph in question["paragraphs"]].index(example.context)
            for question, example in zip(
                with_neighbours(examples, 3, seed=seed, hits="impossible").questions, examples, strict=True
            )
        ]
        for seed in (0, 1)
    }
    assert places[0] != places[1] and Counter(places[0]).keys() == {0, 1, 2}
    assert with_neighbours(examples, 3, seed=1) == with_neighbours(examples, 3, seed=1)


def test_answer_keeps_its_position_in_the_own_paragraph(tmp_path: Path) -> None:
    text = "An owl, then a barn owl."
    examples = [Example("a", "Which owl?", text, (Answer("owl", 20),), "a", "t"), Example("b", "Who?", "Nobody.", (), "b", "u")]
    multi_context.write_questions(tmp_path / "a.json", with_neighbours(examples, 5).questions)
    read = load_examples(str(tmp_path / "a.json"))
    assert [one.answers for one in read if one.group == "a" and one.context == text] == [(Answer("owl", 20),)]
    assert len(read) == 4, "there are only two paragraphs"


def test_questions_with_several_contexts_raise() -> None:
    examples = [Example(f"a#{k}", "Who?", f"text {k}", (), "a", "t") for k in range(2)]
    with pytest.raises(LaminaError, match="several contexts already"):
        with_neighbours(examples, 3)


def test_missing_extra_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(LaminaError, match=r"pip install 'lamina-qa\[contexts\]'"):
        BM25Index(["text"])


def test_neighbours_command(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text(json.dumps(to_squad(corpus())))
    out = tmp_path / "three.jsonl"
    result = lamina("data", "contexts", tmp_path / "dev.json", "--bm25", 3, "--out", out, "--seed", 5)
    expected = with_neighbours(load_examples(str(tmp_path / "dev.json")), 3, seed=5)
    assert result.code == 0 and f"{out}: 60 questions with {expected.paragraphs} contexts" in result.out
    assert f"{expected.hits} other paragraphs hold the text of an answer by chance and are left out" in result.out
    assert [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] == expected.questions
    report: dict[str, Any] = json.loads(
        lamina("data", "contexts", tmp_path / "dev.json", "--bm25", 2, "--out", out, "--hits", "answerable", "--json").out
    )
    assert report["questions"] == 60 and report["contexts"] == 120 and report["out"] == str(out)
    for arguments, message in (
        (("--bm25", 0, "--out", out), "bm25"),
        (("--bm25", 2, "--out", tmp_path / "x.csv"), "Fix: name it .jsonl or .json"),
        (("--bm25", 2, "--out", tmp_path / "x.txt"), "unknown ending"),
        (("--bm25", 2, "--out", tmp_path / "dev.json"), "is the original, which is never overwritten. Fix: name another file"),
    ):
        wrong = lamina("data", "contexts", tmp_path / "dev.json", *arguments)
        assert wrong.code == 2 and message in wrong.err
    assert json.loads((tmp_path / "dev.json").read_text()) == to_squad(corpus())
    again = lamina("data", "contexts", out, "--bm25", 2, "--out", tmp_path / "x.jsonl")
    assert again.code == 2 and "several contexts already" in again.err
