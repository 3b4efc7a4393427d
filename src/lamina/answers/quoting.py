"""Tokens -> answer: the characters that a reader would mark in the text.

Tokenizers cut where they like: uncased vocabularies drop the accent of a decomposed "é", byte-level ones stop in the
middle of an emoji. An answer must not, so its end moves to the end of the grapheme (Unicode's UAX 29, as `regex`
implements it: all but the rule for Indic conjuncts, GB9c), and white space around it goes. Characters are only chosen,
never changed: the answer stays a quote.
"""

from __future__ import annotations

from functools import lru_cache

import regex

_GRAPHEME = regex.compile(r"\X")
_SUSPENDS = regex.compile(r"[\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}]")  # what follows depends on what came before
_FIRST_JOINER = "\u0300"  # two characters below it never share a grapheme, except "\r\n", which is stripped anyway
_REACH = 32  # how far before the answer the grapheme that it begins in is looked for


def quote(context: str, start: int, end: int) -> tuple[int, int]:
    r"""The span of the answer whose tokens cover ``context[start:end]``: whole graphemes at its end, no outer space.

    Looks at the answer and its neighbours only, so its cost does not depend on the length of the context. A span
    of nothing but white space gives an empty one.

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


def _grapheme_end(context: str, start: int, end: int) -> int:
    """The end of the grapheme that holds the character before `end`.

    Whether two characters belong together can depend on everything before them in the grapheme (flags are pairs of
    letters, a joiner needs an emoji before it), so this walks back to a sure boundary and cuts graphemes from there.
    """
    anchor, floor = end - 1, max(0, start - _REACH)
    while anchor > floor and not _separate(context[anchor - 1], context[anchor]):
        anchor -= 1
    while anchor < end:
        anchor = _GRAPHEME.match(context, anchor).end()
    return anchor


@lru_cache(maxsize=1 << 16)
def _separate(before: str, after: str) -> bool:
    """Whether a grapheme ends between these two whatever stands around them."""
    return _SUSPENDS.match(before) is None and _GRAPHEME.match(before + after).end() == 1
