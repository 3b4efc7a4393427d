from __future__ import annotations

import time
import unicodedata

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.answers.quoting import quote, whole_words

FAMILY = "👨\u200d👩\u200d👧"
HAN = unicodedata.normalize("NFD", "한")  # three jamo


@pytest.mark.parametrize(
    ("context", "start", "end", "expected"),
    [
        ("in Paris, today", 3, 8, "Paris"),
        ("the cafe\u0301.", 4, 8, "cafe\u0301"),  # a decomposed é
        ("a\u0302\u0323\u0301 b", 0, 1, "a\u0302\u0323\u0301"),  # several marks
        (f"the {FAMILY} came", 4, 5, FAMILY),  # emojis with zero-width joiners
        (f"the {FAMILY}{FAMILY}", 4, 6, FAMILY),
        ("👍🏽 yes", 0, 1, "👍🏽"),  # skin tone
        ("I ❤\ufe0f it", 2, 3, "❤\ufe0f"),  # variation selector
        ("🇰🇷🇺🇸", 0, 1, "🇰🇷"),  # flags are pairs
        ("🇰🇷🇺🇸", 0, 2, "🇰🇷"),
        ("🇰🇷🇺🇸", 0, 3, "🇰🇷🇺🇸"),
        ("🇰🇷🇺🇸", 1, 2, "🇷"),  # not the flag of Russia
        (HAN + "국", 0, 1, HAN),  # jamo form a syllable
        (HAN + HAN, 0, 3, HAN),
        ("한국", 0, 1, "한"),
        ("कि", 0, 1, "कि"),  # a vowel sign
        ("\xa01889\xa0", 0, 6, "1889"),
        (" \t\u3000x\n", 0, 5, "x"),
        ("a \r\n b", 2, 3, ""),
        ("abc", 1, 1, ""),
        ("cafe\u0301", 0, 5, "cafe\u0301"),
    ],
)
def test_quote(context: str, start: int, end: int, expected: str) -> None:
    begin, stop = quote(context, start, end)
    assert context[begin:stop] == expected


def slow_end(context: str, end: int) -> int:
    return next(int(m.end()) for m in regex.finditer(r"\X", context) if m.end() >= end)


PIECES = [
    "a",
    "e\u0301",
    "\u0301",
    "é",
    "한",
    *HAN,
    "👨",
    "\u200d",
    "👧",
    "🏽",
    "\ufe0f",
    "🇰",
    "🇷",
    "क",
    "्",
    "ि",
    "\u0600",
    "©",
    "\u200c",
]


@settings(max_examples=400)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join), st.data())
def test_the_end_is_a_grapheme_boundary_of_the_whole_text(context: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(context) - 1))
    end = data.draw(st.integers(start + 1, len(context)))
    assert quote(context, start, end) == (start, slow_end(context, end))


def test_the_cost_does_not_depend_on_the_context() -> None:
    context = HAN * 1_000_000
    begun = time.perf_counter()
    for _ in range(1000):
        assert quote(context, 1_500_000, 1_500_001) == (1_500_000, 1_500_003)
    assert time.perf_counter() - begun < 1  # reading the whole text would take minutes


@pytest.mark.parametrize(
    ("context", "part", "expected"),
    [
        ("Ask Odinson twice.", "Odi", "Odinson"),
        ("Ask Odinson twice.", "son tw", "Odinson twice"),
        ("Ask Odinson twice.", "Odinson", "Odinson"),
        ("Ask Odinson twice.", ".", "."),
        ("in the 1990s", "1990", "1990"),  # a digit and a letter
        ("a 5km run", "5", "5"),
        ("the king's men", "king", "king"),
        ("Jean-Luc", "Luc", "Luc"),
        ("re\u0301sume\u0301s", "re\u0301", "re\u0301sume\u0301s"),  # marks belong to the word
        ("Пётр Великий", "лик", "Великий"),
        ("서울에서", "서울", "서울"),  # a particle is no part of the answer
        ("北京大学", "北京", "北京"),
        ("ประเทศไทย", "ไทย", "ไทย"),
        ("abc", "", ""),
    ],
)
def test_whole_words(context: str, part: str, expected: str) -> None:
    start = context.index(part)
    begin, stop = whole_words(context, start, start + len(part))
    assert context[begin:stop] == expected


@given(st.text(st.sampled_from("abÄя1 -'가中\u0301"), min_size=1, max_size=12), st.data())
def test_whole_words_hold_the_span_and_need_no_second_time(context: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(context)))
    end = data.draw(st.integers(start, len(context)))
    begin, stop = whole_words(context, start, end)
    assert begin <= start <= end <= stop
    assert whole_words(context, begin, stop) == (begin, stop)
    added = context[begin:start] + context[end:stop]
    assert not set(added) & set("1 -'가中")
