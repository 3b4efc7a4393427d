"""Where an answer stands in its context."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from lamina.data.examples import Answer


def nearest(context: str, text: str, start: int | None = None) -> Answer | None:
    """The occurrence of `text` nearest to `start` (without one, the first), as the context quotes it.

    If the text does not stand in the context to the letter, case, white space and composed or decomposed characters
    are forgiven.

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
    """Where the text stands in the context but for case, white space and (de)composition; whole graphemes only."""
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
    """A text without case, decomposed, runs of white space as one space; and for each of its characters the place
    of the grapheme that it is from, with the text's length at the end."""
    import regex

    folded: list[str] = []
    origins: list[int] = []
    for match in regex.finditer(r"\s+|\X", text):
        grapheme = match.group()
        plain = " " if grapheme.isspace() else unicodedata.normalize("NFD", unicodedata.normalize("NFD", grapheme).casefold())
        folded.append(plain)
        origins.extend([match.start()] * len(plain))
    return "".join(folded), [*origins, len(text)]
