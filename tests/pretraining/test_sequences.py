"""Sequences: their tokens, their lengths, and which segments follow each other."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import LaminaError
from lamina.pretraining.sequences import ALONE, NEXT, RANDOM, TokenSequences, make_sequences
from tests.tiny import corpus, tokenizer

TEXTS = list(dict.fromkeys(example.context for example in corpus(11)))
CLS, SEP = 101, 102


def sequence(sequences: TokenSequences, number: int) -> list[int]:
    return [int(token) for token in sequences.ids[sequences.starts[number] : sequences.starts[number + 1]]]


def words(sequences: TokenSequences, number: int) -> str:
    text = " ".join(tokenizer().token_of(token) for token in sequence(sequences, number))
    return text.replace(" ##", "")


@given(st.lists(st.text("ab .", max_size=60), min_size=1, max_size=12), st.integers(8, 40), st.sampled_from(["join", "none"]))
def test_every_token_is_in_one_sequence_and_in_order(texts: list[str], length: int, packed: str) -> None:
    tokens = tokenizer().encode(texts).ids.tolist()
    if not tokens:
        with pytest.raises(LaminaError, match="no tokens"):
            make_sequences(texts, [], tokenizer(), length=length, packed="join" if packed == "join" else "none")
        return
    sequences = make_sequences(texts, [], tokenizer(), length=length, packed="join" if packed == "join" else "none")
    assert sequences.lengths.max() <= length
    assert [token for token in sequences.ids.tolist() if token not in (CLS, SEP)] == tokens
    for number in range(len(sequences)):
        assert sequence(sequences, number)[0] == CLS
        assert sequence(sequences, number)[-1] == SEP
    assert (sequences.following == ALONE).all()


def test_joined_sequences_are_full_and_have_separators() -> None:
    sequences = make_sequences(TEXTS, [], tokenizer(), length=32, packed="join")
    assert (sequences.lengths[:-1] == 32).all()
    assert max(words(sequences, number).count("[SEP]") for number in range(len(sequences))) == 2
    whole = " ".join(words(sequences, number).removeprefix("[CLS] ").removesuffix(" [SEP]") for number in range(len(sequences)))
    assert len(whole.split(" [SEP] ")) == len(TEXTS)


def test_packed_none_gives_every_text_its_own_sequence() -> None:
    sequences = make_sequences(TEXTS, [], tokenizer(), length=128, packed="none")
    assert len(sequences) == len(TEXTS)
    assert [words(sequences, number).count("[SEP]") for number in range(len(sequences))] == [1] * len(TEXTS)
    short = make_sequences(TEXTS[:1], [], tokenizer(), length=10, packed="none")
    assert len(short) > 1


def sentence(number: int, place: int) -> str:
    return f"text {number} sentence {place}."


def test_next_segments_follow_and_random_ones_are_from_other_texts() -> None:
    texts = [" ".join(sentence(number, place) for place in range(6)) for number in range(100, 160)]
    sequences = make_sequences(texts, [], tokenizer(), length=17, packed="none", nsp=True)
    kinds = [0, 0]
    for number in range(len(sequences)):
        found = [(int(a), int(b)) for a, b in re.findall(r"text (\d+) sentence (\d+) \.", words(sequences, number))]
        if sequences.following[number] == ALONE:
            assert len(found) == 1
            continue
        (first, place), (second, other) = found
        kinds[sequences.following[number]] += 1
        if sequences.following[number] == NEXT:
            assert (second, other) == (first, place + 1)
        else:
            assert second != first
        types = sequences.type_ids[sequences.starts[number] : sequences.starts[number + 1]]
        middle = sequence(sequences, number).index(SEP)
        assert (types[: middle + 1] == 0).all()
        assert (types[middle + 1 :] == 1).all()
    assert min(kinds) > 0.3 * sum(kinds)
    assert sequences.lengths.max() <= 17


@pytest.mark.parametrize("length", [8, 12, 64, 128])
def test_pairs_of_long_texts_fit(length: int) -> None:
    sequences = make_sequences(TEXTS, [], tokenizer(), length=length, packed="join", nsp=True)
    assert sequences.lengths.max() <= length
    assert {NEXT, RANDOM} <= set(sequences.following.tolist())
    again = make_sequences(TEXTS, [], tokenizer(), length=length, packed="join", nsp=True)
    assert sequences.fingerprint == again.fingerprint
    assert (
        sequences.fingerprint
        != make_sequences(TEXTS, [], tokenizer(), length=length, packed="join", nsp=True, seed=1).fingerprint
    )


def test_labelled_pairs() -> None:
    pairs = [("a heron", "the bird", True), ("a heron " * 30, "the stone", False)]
    sequences = make_sequences(["one more text"], pairs, tokenizer(), length=16, packed="none", nsp=True)
    assert sequences.following.tolist() == [NEXT, RANDOM, ALONE]
    assert words(sequences, 0) == "[CLS] a heron [SEP] the bird [SEP]"
    assert words(sequences, 1).endswith("[SEP] the stone [SEP]"), "the longer text is cut"
    assert sequences.lengths.max() == 16


def test_text_of_one_sentence_has_no_second_segment() -> None:
    single = make_sequences(["One. Two."], [], tokenizer(), length=16, packed="none", nsp=True)
    assert single.following.tolist() == [NEXT], "there is no other text to draw from"
    alone = make_sequences(["One.", "Two."], [], tokenizer(), length=16, packed="none", nsp=True)
    assert alone.following.tolist() == [ALONE, ALONE]


def test_word_numbers_differ_between_sequences_and_texts() -> None:
    sequences = make_sequences(["unbelievable unbelievable"], [], tokenizer(), length=16, packed="none")
    inner = sequences.words[1:-1]
    assert len(set(inner.tolist())) == 2
    assert np.all(np.diff(inner) >= 0)
