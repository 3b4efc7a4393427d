"""Tokens of the Korean encoders lie where their characters are: composed, decomposed, Hanja and mixed scripts."""

from __future__ import annotations

import unicodedata
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.answers.quoting import quote
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import WindowOptions, make_windows, tokens_of
from tests import tiny

ENCODERS = ("multilingual-e5-small-ko-en", "albert-kor-base")
FORMS = ("NFC", "NFD", "NFKC", "NFKD")
SENTENCE = "수도는 서울이다. 大韓民國의 首都(수도)는 서울특별시에서 Seoul로 적는다; 인구는 9,411,000명(2024년)이다."


@cache
def tokenizer(folder: Path, name: str) -> Tokenizer:
    return Tokenizer(folder / "encoders" / name / "tokenizer.json")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ENCODERS)
def test_every_word_is_quoted_from_its_tokens(shared: Path, name: str, form: str) -> None:
    text = unicodedata.normalize(form, SENTENCE)  # type: ignore[arg-type]
    offsets = tokenizer(shared, name).encode([text]).offsets
    place = 0
    for word in text.split():
        start = text.index(word, place)
        place = start + len(word)
        first, last = tokens_of(offsets, start, place)
        begin, end = quote(text, int(offsets[first, 0]), int(offsets[last, 1]))
        assert text[begin:end] == word


@pytest.mark.parametrize("name", ENCODERS)
def test_decomposed_texts_have_the_tokens_of_composed_ones(shared: Path, name: str) -> None:
    composed, decomposed = (
        tokenizer(shared, name).encode([unicodedata.normalize(form, SENTENCE)]).ids.tolist() for form in ("NFC", "NFD")
    )
    assert decomposed == composed
    assert tokenizer(shared, name).unknown not in composed[:4]


def test_a_run_keeps_how_its_tokenizer_composes_texts(shared: Path, tmp_path: Path) -> None:
    """Check that the stored definition, which an export has too, gives the same tokens."""
    original = tokenizer(shared, "albert-kor-base")
    (tmp_path / "tokenizer.json").write_text(original.definition, encoding="utf-8")
    stored = Tokenizer(tmp_path / "tokenizer.json")
    for form in ("NFC", "NFD"):
        text = unicodedata.normalize(form, SENTENCE)
        assert stored.encode([text]).ids.tolist() == original.encode([text]).ids.tolist()
    assert stored.definition == original.definition, "texts are composed once"


WORDS = (
    "서울",
    "한글은",
    "책을",
    "大韓民國",
    "李舜臣의",
    "Seoul에서",
    "café",
    "ﬁn",
    "3.1운동",
    "㈜한국",
    "ㅋㅋ",
    "👍",
    "1,234명",
    "ᄒ",
)


@pytest.mark.filterwarnings("ignore::lamina.errors.LaminaWarning")  # one of the vocabularies has no Hanja
@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=8),
    st.lists(st.sampled_from(FORMS), min_size=8, max_size=8),
    st.data(),
)
def test_gold_answers_are_quoted_whole(shared: Path, words: list[str], forms: list[str], data: st.DataObject) -> None:
    """Put words in any normal form together, make some of them the answer, and quote its gold tokens."""
    parts = [unicodedata.normalize(form, word) for word, form in zip(words, forms, strict=False)]  # type: ignore[arg-type]
    low = data.draw(st.integers(0, len(parts) - 1))
    high = data.draw(st.integers(low + 1, len(parts)))
    context, answer = " ".join(parts), " ".join(parts[low:high])
    start = len(" ".join(parts[:low])) + bool(low)
    example = tiny.example(context, answer, question="무엇인가?", start=start)
    for name in ENCODERS:
        windows = make_windows([example], tokenizer(shared, name), WindowOptions(length=128, query=16, step=64))
        (gold,) = windows.gold
        first, last = windows.offsets[gold]
        begin, end = quote(context, int(first[0]), int(last[1]))
        assert context[begin:end] == answer
        assert windows.context[gold].all()
