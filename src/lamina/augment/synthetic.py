"""Synthetic questions and their ids, and reduced forms of texts for comparisons."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal

from lamina.data.examples import Example

SyntheticKind = Literal["entity", "antonym", "number", "paragraph", "negation"]

ID_SUFFIXES: Final[Mapping[SyntheticKind, str]] = {
    "entity": "#swap-entity",
    "antonym": "#swap-antonym",
    "number": "#change-number",
    "paragraph": "#other-paragraph",
    "negation": "#negate",
}

WORD: Final = re.compile(r"\w[\w’'-]*")
_FUNCTION: Final = """
a an the of in on at by to from for with as and or but is are was were be been being do does did has have had can could may
might must shall should will would what which who whom whose when where why how many much that this these those it its he she
his her their they them there than then into about also not no name named called type kind during between after before
purpose meaning mean role term known
"""
_FUNCTION_WORDS: Final = frozenset(_FUNCTION.split())


def synthetic_from(
    example: Example,
    kind: SyntheticKind,
    *,
    question: str | None = None,
    context: str | None = None,
    article: str | None = None,
) -> Example:
    """Return an unanswerable example: the given one with another question or context, and its own id and group."""
    own_id = example.id + ID_SUFFIXES[kind]
    return Example(
        id=own_id,
        question=example.question if question is None else question,
        context=example.context if context is None else context,
        answers=(),
        group=own_id,
        article=example.article if article is None else article,
    )


def source_id(synthetic_id: str) -> str:
    """Return the id of the example that a synthetic one was made from."""
    return synthetic_id.rpartition("#")[0]


def letters_and_digits(text: str) -> str:
    """Return the letters and digits only, in lower case: the same for "9,800 pages" and "9 , 800 pages".

    >>> letters_and_digits("U.S. - based")
    'usbased'
    """
    return "".join(filter(str.isalnum, text.lower()))


@lru_cache(maxsize=4096)  # a text has several questions
def words_of(text: str) -> frozenset[str]:
    """Return the different words of a text in lower case."""
    return frozenset(word.lower() for word in WORD.findall(text))


def stems(text: str) -> list[str]:
    """Return the first 5 letters of each content word, so that forms of one word are equal."""
    words = (re.sub(r"['’]s?$|(?<=\w\w)s$", "", word) for word in WORD.findall(text.lower()) if word not in _FUNCTION_WORDS)
    return [word[:5] for word in words if len(word) > 1]
