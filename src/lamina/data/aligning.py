"""Find the place of an answer in its context."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from lamina.data.examples import Answer


def nearest(context: str, text: str, start: int | None = None) -> Answer | None:
    """Return the occurrence of `text` nearest to `start` (default: the first), as the context spells it, or None.

    If the exact text is not in the context, then case, white space and composed or decomposed characters may differ.

    >>> nearest("an owl, two owls", "owl", 9)
    Answer(text='owl', start=12)
    >>> nearest("The Barn  Owl", "barn owl")
    Answer(text='Barn  Owl', start=4)
    """
    start = max(start or 0, 0)
    places = (context.rfind(text, 0, start + len(text)), context.find(text, start))
    exact = [Answer(text, place) for place in places if place >= 0]
    return min(exact or _forgiving(context, text), key=lambda answer: abs(answer.start - start), default=None)


def _forgiving(context: str, text: str) -> Iterator[Answer]:
    """Yield the occurrences that differ in case, white space or composition. They are whole graphemes."""
    wanted, _ = _fold(text)
    wanted = wanted.strip()
    folded, origins = _fold(context)
    at = folded.find(wanted) if wanted else -1
    while at >= 0:
        end = at + len(wanted)
        first, last = origins[at], origins[end]
        if (at == 0 or origins[at - 1] != first) and origins[end - 1] != last:
            quoted = context[first:last].rstrip()
            yield Answer(quoted, first)
        at = folded.find(wanted, at + 1)


@lru_cache(maxsize=8)
def _fold(text: str) -> tuple[str, list[int]]:
    """Return a text without case, decomposed, with runs of white space as one space, and the origins of its characters.

    The origin of a character is the place of its grapheme in the text. The last origin is the length of the text.
    """
    import regex

    folded: list[str] = []
    origins: list[int] = []
    for match in regex.finditer(r"\s+|\X", text):
        grapheme = match.group()
        plain = " " if grapheme.isspace() else unicodedata.normalize("NFD", unicodedata.normalize("NFD", grapheme).casefold())
        folded.append(plain)
        origins.extend([match.start()] * len(plain))
    return "".join(folded), [*origins, len(text)]
