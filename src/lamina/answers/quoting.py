"""Turn the characters of an answer's tokens into a quote that a person would mark in the text.

Tokens can end inside a character: uncased vocabularies drop the accent of a decomposed "é", and byte-level ones split an
emoji. So the end of an answer moves to the end of its grapheme, and outer white space is removed. Graphemes are those of
Unicode's UAX 29, as `regex` implements it: without the rule for Indic conjuncts, GB9c. Characters are never changed: the
answer stays a quote.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import regex

_GRAPHEME = regex.compile(r"\X")
_SUSPENDS = regex.compile(
    r"[\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}]"
)  # the boundary after these depends on earlier characters
_FIRST_JOINER = "\u0300"  # two characters below it never share a grapheme, except "\r\n", which is stripped
_REACH = 32  # characters before the answer in which its first grapheme may start


def quote(context: str, start: int, end: int) -> tuple[int, int]:
    r"""Return the span of an answer whose tokens cover ``context[start:end]``, with whole graphemes and no outer space.

    The cost does not depend on the length of the context, because only the answer and its neighbours are read. A span
    of white space only gives an empty span.

    >>> quote("Visit the cafe\u0301 today", 10, 14)  # the token is "cafe", the accent is a character of its own
    (10, 15)
    >>> quote("in \xa01889\xa0 .", 2, 9)  # no-break spaces
    (4, 8)
    """
    if start < end < len(context):
        before, after = context[end - 1], context[end]
        if (before >= _FIRST_JOINER or after >= _FIRST_JOINER) and not _separate(before, after):
            end = _grapheme_end(context, start, end)
    text = context[start:end]
    bare = text.lstrip()
    start += len(text) - len(bare)
    return start, start + len(bare.rstrip())


def whole_words(context: str, start: int, end: int) -> tuple[int, int]:
    """Return a span extended to whole words, if its first or last letters are a part of a word.

    A word is a run of letters that have capitals, as in Latin, Greek or Cyrillic script. Other scripts write words together,
    or put endings to names. Digits end a word, so that 1990 remains an answer in "the 1990s".

    >>> whole_words("Ask Odinson twice", 4, 7)  # the token is "Odi"
    (4, 11)
    >>> whole_words("in the 1990s", 7, 11)
    (7, 11)
    """
    if start == end:
        return start, end
    while start > 0 and _in_word(context[start - 1]) and _in_word(context[start]):
        start -= 1
    while end < len(context) and _in_word(context[end]) and _in_word(context[end - 1]):
        end += 1
    return start, end


def _in_word(character: str) -> bool:
    return character.lower() != character.upper() or unicodedata.combining(character) != 0


def _grapheme_end(context: str, start: int, end: int) -> int:
    """Return the end of the grapheme that contains the character before `end`.

    Whether two characters share a grapheme can depend on all earlier characters in it: flags are pairs of letters, and a
    joiner needs an emoji before it. So this goes back to a certain boundary and finds graphemes from there.
    """
    anchor, floor = end - 1, max(0, start - _REACH)
    while anchor > floor and not _separate(context[anchor - 1], context[anchor]):
        anchor -= 1
    while anchor < end:
        anchor = _GRAPHEME.match(context, anchor).end()
    return anchor


@lru_cache(maxsize=1 << 16)
def _separate(before: str, after: str) -> bool:
    """Return whether a grapheme always ends between these two characters, whatever the characters around them are."""
    return _SUSPENDS.match(before) is None and _GRAPHEME.match(before + after).end() == 1
