"""How a made question is told from the one that it is made from, and texts taken roughly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, Literal

from lamina.data.examples import Example

Way = Literal["entity", "antonym", "number", "paragraph", "negation"]

MARKS: Final[Mapping[Way, str]] = {
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


def made_from(example: Example, way: Way, **changes: Any) -> Example:
    """A question of its own without an answer."""
    made = example.id + MARKS[way]
    return replace(example, id=made, group=made, answers=(), **changes)


def source_id(made_id: str) -> str:
    """The id of the question that a made one is from."""
    return made_id.rpartition("#")[0]


def squeeze(text: str) -> str:
    """Letters and digits only, in lower case: the same for "9,800 pages" and "9 , 800 pages".

    >>> squeeze("U.S. - based")
    'usbased'
    """
    return "".join(filter(str.isalnum, text.lower()))


@lru_cache(maxsize=4096)  # several questions are asked about a text
def words_of(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in WORD.findall(text))


def stems(text: str) -> list[str]:
    """The words that carry meaning, cut to their beginnings, so that forms of a word are alike."""
    words = (re.sub(r"['’]s?$|(?<=\w\w)s$", "", word) for word in WORD.findall(text.lower()) if word not in _FUNCTION_WORDS)
    return [word[:5] for word in words if len(word) > 1]
