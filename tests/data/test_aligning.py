"""Find the place of an answer in its context."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.data.aligning import nearest
from lamina.data.examples import Answer


@pytest.mark.parametrize(
    ("context", "text", "start", "found"),
    [
        ("owl owl owl", "owl", 5, Answer("owl", 4)),
        ("owl owl owl", "owl", 7, Answer("owl", 8)),
        ("owl owl owl", "owl", 99, Answer("owl", 8)),
        ("owl owl owl", "owl", -5, Answer("owl", 0)),
        ("owl owl owl", "owl", None, Answer("owl", 0)),
        ("OWL owl", "owl", 0, Answer("owl", 4)),  # the exact text comes first
        ("Owl OWL", "owl", 5, Answer("OWL", 4)),
        ("a barn\n\u00a0owl", " barn  owl ", 0, Answer("barn\n\u00a0owl", 2)),
        ("un cafe\u0301 noir", "caf\u00e9", 0, Answer("cafe\u0301", 3)),
        ("un caf\u00e9 noir", "cafe\u0301", 0, Answer("caf\u00e9", 3)),
        ("un caf\u00e9 noir", "Cafe", 0, None),  # an accent is not a difference of case
        ("un cafe\u0301 noir", "CAFE", 0, None),
        ("\u1100\u1161\u11a8", "\uac01", 0, Answer("\u1100\u1161\u11a8", 0)),
        ("\u1100\u1161\u11a8", "\uac00", 0, None),  # half a Hangul syllable
        ("Stra\u00dfe", "STRASSE", 0, Answer("Stra\u00dfe", 0)),
        ("Stra\u00dfe", "STRAS", 0, None),
        ("owl", "  ", 0, None),
        ("owl", "cat", 0, None),
    ],
)
def test_nearest(context: str, text: str, start: int | None, found: Answer | None) -> None:
    assert nearest(context, text, start) == found


plain = st.text(alphabet="aB\u00e9\u1100\uac01 \n.", max_size=20)


@given(plain, st.integers(0, 20), st.integers(1, 8), st.sampled_from(["NFC", "NFD"]), st.integers(-3, 30))
def test_nearest_quotes_the_context(context: str, first: int, length: int, form: Any, start: int) -> None:
    text = unicodedata.normalize(form, context[first : first + length]).upper()
    found = nearest(context, text, start)
    if found is not None:
        assert context.startswith(found.text, found.start)
    if text.strip() and context[first : first + length].strip() == context[first : first + length]:
        assert found is not None or "\u1100" in context  # a lone Hangul consonant may join the next letter
