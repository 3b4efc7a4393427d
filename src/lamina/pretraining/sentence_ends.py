"""Find the sentences of a text by rules: marks and line ends, but no abbreviations, initials or names such as "Yahoo!"."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

_CANDIDATE: Final = re.compile(r"\s*\n\s*|(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])(?=\S)")
_LAST_WORD: Final = re.compile(r"[^\s(\[“\"'‘]*$")
_BEFORE_NAMES: Final = """
mr mrs ms dr prof st sr jr rev hon gen col capt lt sgt maj gov sen rep pres vs v cf mt ft dept inc ltd co corp bros etc al eg ie
"""
_BEFORE_NUMBERS: Final = "no nos vol vols p pp op fig figs ca c b d r approx jan feb mar apr jun jul aug sep sept oct nov dec"
_ABBREVIATIONS: Final = frozenset(_BEFORE_NAMES.split())
_OF_NUMBERS: Final = frozenset(_BEFORE_NUMBERS.split())
_OPENING: Final = """
the this that these those he she it they we i you a an in on at by after before during since although while when as if
however but and there his her its their our some many most both each all one for from to with
"""
_OPENERS: Final = frozenset(_OPENING.split())  # words that begin a sentence even after an abbreviation such as "U.S."
_NEXT_WORD: Final = re.compile(r"[\"'“‘(\[]*(\w*)")


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each sentence, without the spaces around it.

    A small letter continues a sentence, unless the whole text has small letters.

    >>> text = "Dr. J. Low left the U.S. in 1901. He was 20."
    >>> [text[start:end] for start, end in sentence_spans(text)]
    ['Dr. J. Low left the U.S. in 1901.', 'He was 20.']
    """
    cased = text != text.lower()
    cuts = [0, *(match.end() for match in _CANDIDATE.finditer(text) if _ends(text, match, cased=cased)), len(text)]
    spans = []
    for low, high in pairwise(cuts):
        piece = text[low:high]
        if stripped := piece.strip():
            start = low + piece.index(stripped[0])
            spans.append((start, start + len(stripped)))
    return spans


def _ends(text: str, match: re.Match[str], *, cased: bool) -> bool:
    """Return whether a sentence ends before the spaces of a match."""
    if "\n" in match.group() or not match.group():  # a line end, or a mark of Chinese or Japanese
        return True
    found = _NEXT_WORD.match(text, match.end())
    following = found[1] if found else ""
    if cased and following[:1].islower():
        return False
    before = text[max(0, match.start() - 40) : match.start()]
    if not before.endswith("."):
        return True
    word = _LAST_WORD.search(before.removesuffix("."))
    last = word[0] if word else ""
    if last.lower() in _OF_NUMBERS:
        return not following[:1].isdigit()
    initial = len(last) == 1 and last.isupper()
    if last.lower() in _ABBREVIATIONS or initial or ("." in last and not last[0].isdigit()):  # Dr. J. Low of the U.S.
        return following.lower() in _OPENERS and not text.startswith(".", match.end() + len(following))
    return True
