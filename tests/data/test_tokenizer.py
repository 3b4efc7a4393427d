from __future__ import annotations

import dataclasses
import json
import re
import tempfile
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import tokenizers
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, processors

from lamina.data.tokenizer import Layout, Tokenizer, _blocks
from lamina.errors import LaminaError
from tests.golden import checkpoints
from tests.tiny import tokenizer


@pytest.fixture
def roberta(tmp_path: Path) -> Path:
    """Write a byte-level vocabulary of single letters with the special tokens of RoBERTa."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *letters])}
    built = tokenizers.Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    built.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    path = tmp_path / "roberta.json"
    built.save(str(path))
    return path


def test_layout_of_bert() -> None:
    layout = tokenizer().layout
    assert layout == Layout(before=(101,), between=(102,), after=(102,), types=(0, 0, 0, 1, 1))
    assert layout.specials == 3


def test_layout_of_roberta_has_two_separators_and_one_type(roberta: Path) -> None:
    found = Tokenizer(roberta)
    assert found.layout == Layout(before=(0,), between=(2, 2), after=(2,), types=(0, 0, 0, 0, 0))
    assert found.layout.specials == 4
    assert (found.pad, found.unknown) == (1, 3)


def test_special_ids_of_bert() -> None:
    assert (tokenizer().pad, tokenizer().unknown, tokenizer().vocabulary) == (0, 100, 30522)


def test_the_layout_rebuilds_an_encoded_pair() -> None:
    ours = tokenizer()
    raw = tokenizers.Tokenizer.from_file(str(ours.path))
    raw.no_truncation()
    raw.no_padding()
    pair = raw.encode("Who was it?", "It was the second mouse.")
    tokens = ours.encode(["Who was it?", "It was the second mouse."])
    first, second = (tokens.ids[tokens.text(i)].tolist() for i in range(2))
    parts = (ours.layout.before, first, ours.layout.between, second, ours.layout.after)
    assert [i for part in parts for i in part] == pair.ids
    assert [kind for kind, part in zip(ours.layout.types, parts, strict=True) for _ in part] == pair.type_ids


def test_encode_gives_each_text_its_own_tokens_and_offsets() -> None:
    texts = ["one", "", "Two words", "  "]
    tokens = tokenizer().encode(texts)
    assert tokens.starts.tolist() == [0, 1, 1, 3, 3]
    quoted = [[texts[i][a:b] for a, b in tokens.offsets[tokens.text(i)]] for i in range(4)]
    assert quoted == [["one"], [], ["Two", "words"], []]


def test_encode_without_texts() -> None:
    tokens = tokenizer().encode([])
    assert tokens.starts.tolist() == [0]
    assert tokens.offsets.shape == (0, 2)


def test_truncation_and_padding_of_the_file_are_off() -> None:
    definition = json.loads(tokenizer().path.read_text())
    assert definition["truncation"]["max_length"] == 128, "this test needs a file with truncation"
    assert definition["padding"] is not None
    tokens = tokenizer().encode(["mouse " * 300, "mouse"])
    assert tokens.starts.tolist() == [0, 300, 301]


def test_fingerprint_is_that_of_the_file(tmp_path: Path) -> None:
    definition = json.loads(tokenizer().path.read_text())
    definition["normalizer"]["lowercase"] = False
    other = tmp_path / "tokenizer.json"
    other.write_text(json.dumps(definition))
    assert Tokenizer(other).fingerprint != tokenizer().fingerprint
    assert Tokenizer(tokenizer().path).fingerprint == tokenizer().fingerprint


@pytest.mark.parametrize("content", [b"", b"{}", b'{"model": 3}', b"\xff\xfe", b"not json"])
def test_a_broken_file_raises_lamina_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(LaminaError, match=r"tokenizer\.json: not a tokenizer\.json that can be read"):
        Tokenizer(path)


def test_missing_file_raises(tmp_path: Path) -> None:
    with pytest.raises(LaminaError, match=r"nothing\.json: not a tokenizer"):
        Tokenizer(tmp_path / "nothing.json")


def test_pair_without_a_classifier_token_raises(tmp_path: Path) -> None:
    built = tokenizers.Tokenizer(models.WordLevel({"a": 0, "<unk>": 1}, unk_token="<unk>"))
    path = tmp_path / "plain.json"
    built.save(str(path))
    with pytest.raises(LaminaError, match="without a classifier token"):
        Tokenizer(path)


def test_scripts_are_those_of_the_vocabulary() -> None:
    assert tokenizer().scripts == {"LATIN"}, "MiniLM has letters of other scripts, but no words"


PARTS = ["the", "mill", "of", "", "Ada,", "서울이", "بيت", "e\u0301te", "🏭", "\n\n", "a\u00a0b", "can't", "[SEP]", "x"]
WORDS = st.lists(st.sampled_from(PARTS), max_size=40)


@pytest.mark.parametrize("name", ["bert-cased", "roberta", "xlm-roberta", "albert"])
@given(texts=st.lists(WORDS.map(" ".join), max_size=4), size=st.integers(3, 30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
def test_blocks_give_the_tokens_of_the_whole_text(name: str, texts: list[str], size: int) -> None:
    cuts = [(text, start) for text in texts for start, _ in _blocks(text, size) if start]
    assume(all(re.fullmatch(r"\S \S", text[start - 1 : start + 2]) for text, start in cuts))
    found = checkpoint_tokenizer(name)
    whole = found.encode(texts, words=True)
    with patch("lamina.data.tokenizer.BLOCK", size), patch("lamina.data.tokenizer.AT_ONCE", 2 * size):
        cut = found.encode(texts, words=True)
    for one, other in zip(dataclasses.astuple(cut)[:3], dataclasses.astuple(whole)[:3], strict=True):
        np.testing.assert_array_equal(one, other)
    assert cut.words is not None and whole.words is not None
    np.testing.assert_array_equal(np.diff(cut.words) == 0, np.diff(whole.words) == 0)  # the same words with other numbers


@given(st.text(max_size=200), st.integers(1, 20))
def test_blocks_cover_every_text(text: str, size: int) -> None:
    blocks = list(_blocks(text, size))
    assert "".join(text[a:b] for a, b in blocks) == text
    assert all(b - a <= 2 * size for a, b in blocks)


@cache
def checkpoint_tokenizer(name: str) -> Tokenizer:
    with tempfile.TemporaryDirectory() as folder:
        return Tokenizer(checkpoints.write(name, Path(folder)) / "tokenizer.json")


def test_words_of_different_texts_are_different() -> None:
    found = tokenizer().encode(["unbelievable mills", "", "mills"], words=True)
    assert found.words is not None
    first, second, third = (found.words[found.text(number)].tolist() for number in range(3))
    assert second == [] and len(set(first)) == 2 and not set(first) & set(third)


def test_a_sentence_end_at_the_limit_does_not_make_a_block_longer() -> None:
    assert list(_blocks("00000000.", 1))[-1] == (8, 9)
    assert list(_blocks("ab.cdefg", 2)) == [(0, 3), (3, 7), (7, 8)]
