"""Synthetic questions and their ids, and reduced forms of texts for comparisons."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal

from lamina.data.examples import Example
from lamina.data.particles import is_syllable, split_particle

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
_KOREAN_FUNCTION: Final = """
누구 언제 어디 무엇 어떤 어느 얼마 무슨 이름 사람 것은 곳은 있는 했던 하는 이다 한다 위해 대해
"""
_KOREAN_FUNCTION_WORDS: Final = tuple(_KOREAN_FUNCTION.split())  # how such words begin
_EAST_ASIAN: Final = re.compile("[\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7a3]")  # Hangul, kana, Han


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
        source=example.source,
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


def is_east_asian(text: str) -> bool:
    """Return whether a text has letters of Korean, Japanese or Chinese, to which rules for English do not apply."""
    return _EAST_ASIAN.search(text) is not None


def stems(text: str) -> list[str]:
    """Return the first 5 letters of each content word, so that forms of one word are equal. Korean particles are cut.

    >>> stems("The rivers of Wells"), stems("서울에서 누구를 만났나?")
    (['river', 'well'], ['서울', '만났나'])
    """
    return [stem[:5] for word in WORD.findall(text.lower()) if len(stem := _stem(word)) > 1]


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    """Return a lower-case word without its ending, or "" for a word that tells nothing about the subject."""
    if is_syllable(word[-1]):
        return "" if word.startswith(_KOREAN_FUNCTION_WORDS) else split_particle(word)[0]
    return "" if word in _FUNCTION_WORDS else re.sub(r"['’]s?$|(?<=\w\w)s$", "", word)
