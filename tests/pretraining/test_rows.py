"""Rows: what is in them, how long they are, and which pairs follow each other."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import LaminaError
from lamina.pretraining.sequences import ALONE, NEXT, RANDOM, Rows, make_rows
from tests.tiny import corpus, tokenizer

TEXTS = list(dict.fromkeys(example.context for example in corpus(11)))
CLS, SEP = 101, 102


def row(rows: Rows, number: int) -> list[int]:
    return [int(token) for token in rows.ids[rows.starts[number] : rows.starts[number + 1]]]


def words(rows: Rows, number: int) -> str:
    text = " ".join(tokenizer().token_of(token) for token in row(rows, number))
    return text.replace(" ##", "")


@given(st.lists(st.text("ab .", max_size=60), min_size=1, max_size=12), st.integers(8, 40), st.sampled_from(["join", "none"]))
def test_every_token_is_in_one_row_and_in_order(texts: list[str], length: int, packed: str) -> None:
    tokens = tokenizer().encode(texts).ids.tolist()
    if not tokens:
        with pytest.raises(LaminaError, match="no tokens"):
            make_rows(texts, [], tokenizer(), length=length, packed="join" if packed == "join" else "none")
        return
    rows = make_rows(texts, [], tokenizer(), length=length, packed="join" if packed == "join" else "none")
    assert rows.lengths.max() <= length
    assert [token for token in rows.ids.tolist() if token not in (CLS, SEP)] == tokens
    for number in range(len(rows)):
        assert row(rows, number)[0] == CLS
        assert row(rows, number)[-1] == SEP
    assert (rows.following == ALONE).all()


def test_joined_rows_are_full_and_texts_are_parted() -> None:
    rows = make_rows(TEXTS, [], tokenizer(), length=32, packed="join")
    assert (rows.lengths[:-1] == 32).all()
    assert max(words(rows, number).count("[SEP]") for number in range(len(rows))) == 2
    whole = " ".join(words(rows, number).removeprefix("[CLS] ").removesuffix(" [SEP]") for number in range(len(rows)))
    assert len(whole.split(" [SEP] ")) == len(TEXTS)


def test_a_text_alone_has_a_row_of_its_own() -> None:
    rows = make_rows(TEXTS, [], tokenizer(), length=128, packed="none")
    assert len(rows) == len(TEXTS)
    assert [words(rows, number).count("[SEP]") for number in range(len(rows))] == [1] * len(TEXTS)
    short = make_rows(TEXTS[:1], [], tokenizer(), length=10, packed="none")
    assert len(short) > 1


def sentence(number: int, place: int) -> str:
    return f"text {number} sentence {place}."


def test_neighbours_follow_each_other_and_random_ones_come_from_elsewhere() -> None:
    texts = [" ".join(sentence(number, place) for place in range(6)) for number in range(100, 160)]
    rows = make_rows(texts, [], tokenizer(), length=17, packed="none", nsp=True)
    kinds = [0, 0]
    for number in range(len(rows)):
        found = [(int(a), int(b)) for a, b in re.findall(r"text (\d+) sentence (\d+) \.", words(rows, number))]
        if rows.following[number] == ALONE:
            assert len(found) == 1
            continue
        (first, place), (second, other) = found
        kinds[rows.following[number]] += 1
        if rows.following[number] == NEXT:
            assert (second, other) == (first, place + 1)
        else:
            assert second != first
        types = rows.type_ids[rows.starts[number] : rows.starts[number + 1]]
        middle = row(rows, number).index(SEP)
        assert (types[: middle + 1] == 0).all()
        assert (types[middle + 1 :] == 1).all()
    assert min(kinds) > 0.3 * sum(kinds)
    assert rows.lengths.max() <= 17


@pytest.mark.parametrize("length", [8, 12, 64, 128])
def test_pairs_of_long_texts_fit(length: int) -> None:
    rows = make_rows(TEXTS, [], tokenizer(), length=length, packed="join", nsp=True)
    assert rows.lengths.max() <= length
    assert {NEXT, RANDOM} <= set(rows.following.tolist())
    again = make_rows(TEXTS, [], tokenizer(), length=length, packed="join", nsp=True)
    assert rows.fingerprint == again.fingerprint
    assert rows.fingerprint != make_rows(TEXTS, [], tokenizer(), length=length, packed="join", nsp=True, seed=1).fingerprint


def test_labelled_pairs() -> None:
    pairs = [("a heron", "the bird", True), ("a heron " * 30, "the stone", False)]
    rows = make_rows(["one more text"], pairs, tokenizer(), length=16, packed="none", nsp=True)
    assert rows.following.tolist() == [NEXT, RANDOM, ALONE]
    assert words(rows, 0) == "[CLS] a heron [SEP] the bird [SEP]"
    assert words(rows, 1).endswith("[SEP] the stone [SEP]"), "the longer part is cut"
    assert rows.lengths.max() == 16


def test_a_text_of_one_sentence_has_no_neighbour() -> None:
    single = make_rows(["One. Two."], [], tokenizer(), length=16, packed="none", nsp=True)
    assert single.following.tolist() == [NEXT], "there is no other text to draw from"
    alone = make_rows(["One.", "Two."], [], tokenizer(), length=16, packed="none", nsp=True)
    assert alone.following.tolist() == [ALONE, ALONE]


def test_words_part_at_rows_and_texts() -> None:
    rows = make_rows(["unbelievable unbelievable"], [], tokenizer(), length=16, packed="none")
    inner = rows.words[1:-1]
    assert len(set(inner.tolist())) == 2
    assert np.all(np.diff(inner) >= 0)
