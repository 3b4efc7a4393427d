"""Cut texts into passages of a few sentences, and find the passages that are most like a sentence."""

from __future__ import annotations

import math
import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

import numpy as np

from lamina.augment.synthetic import stems
from lamina.pretraining.texts import split_sentences
from lamina.utils.arrays import Longs

_WORD: Final = re.compile(r"\d+(?:[.,]\d+)*[A-Za-z]*|\w+")
_COMMON: Final = 0.1  # a stem in more than this share of the passages is not searched for


class Word(NamedTuple):
    """A word of a sentence: ``sentence[start:end]`` without case is `key`."""

    key: str
    start: int
    end: int


def words_in(sentence: str) -> list[Word]:
    """Return the words of a sentence. A number is one word; an apostrophe or a hyphen separates two.

    >>> [word.key for word in words_in("The Owl's 1,000 well-fed chicks of the 8th day.")]
    ['the', 'owl', 's', '1,000', 'well', 'fed', 'chicks', 'of', 'the', '8th', 'day']
    """
    found = _WORD.finditer(sentence)
    return [Word(sys.intern(match.group().casefold()), match.start(), match.end()) for match in found]


@lru_cache(maxsize=1 << 14)  # several questions look at the same sentences
def parts_of(text: str) -> frozenset[str]:
    """Return the words and stems of a text, to find out whether another text holds a part of it.

    >>> sorted(parts_of("The owl's 15 chicks"))
    ['15', 'chick', 'chicks', 'owl', 's', 'the']
    """
    keys = [word.key for word in words_in(text)]
    return frozenset(map(sys.intern, [*keys, *(key.replace(",", "") for key in keys), *stems(text)]))


@dataclass(frozen=True)
class Passage:
    """Consecutive sentences of a text. `source` is the number of the text."""

    sentences: tuple[str, ...]
    source: int

    @cached_property
    def text(self) -> str:
        return " ".join(self.sentences)

    @cached_property
    def words(self) -> tuple[list[Word], ...]:
        """The words of each sentence."""
        return tuple(map(words_in, self.sentences))

    @cached_property
    def words_by_key(self) -> dict[str, list[tuple[int, int]]]:
        """The sentence and the index of every word, by its key."""
        found: dict[str, list[tuple[int, int]]] = {}
        for number, words in enumerate(self.words):
            for index, word in enumerate(words):
                found.setdefault(word.key, []).append((number, index))
        return found

    @cached_property
    def parts(self) -> frozenset[str]:
        """The words and stems of all sentences, as `parts_of` returns them."""
        return parts_of(self.text)

    def starts(self) -> list[int]:
        """Return where each sentence begins in `text`."""
        lengths = [len(sentence) + 1 for sentence in self.sentences]
        return [sum(lengths[:number]) for number in range(len(lengths))]


def cut_passages(text: str, words: int, source: int = 0) -> list[Passage]:
    """Cut a text after sentences into passages of about equal length, of at most `words` words if the sentences allow it.

    >>> [passage.text for passage in cut_passages("It rained. We left. It got dark. We slept.", 5)]
    ['It rained. We left.', 'It got dark. We slept.']
    """
    sentences = split_sentences(text)
    lengths = [len(sentence.split()) for sentence in sentences]
    share = sum(lengths) / max(1, math.ceil(sum(lengths) / words))  # words of each passage
    passages: list[list[str]] = []
    seen = 0.0
    for sentence, length in zip(sentences, lengths, strict=True):
        if not passages or (seen + length / 2) // share >= len(passages):  # most of it belongs to the next passage
            passages.append([])
        passages[-1].append(sentence)
        seen += length
    return [Passage(tuple(found), source) for found in passages]


class PassageIndex:
    """Passages, found by the rare stems that they share with a sentence."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = passages
        holders: defaultdict[str, list[int]] = defaultdict(list)
        for number, passage in enumerate(passages):
            for stem in dict.fromkeys(stems(passage.text)):
                holders[stem].append(number)
        common = max(10, _COMMON * len(passages))
        self._holders: dict[str, Longs] = {
            stem: np.array(numbers, np.int64) for stem, numbers in holders.items() if len(numbers) <= common
        }

    def most_like(self, sentence: str, count: int, *, besides: int) -> list[int]:
        """Return the numbers of the `count` passages that are most like a sentence, without the passage `besides`.

        They share two stems with it or more, and are ranked by the sum of the stems' inverse document frequencies.
        """
        scores = np.zeros(len(self.passages))
        shared = np.zeros(len(self.passages), np.int64)
        for stem in dict.fromkeys(stems(sentence)):
            if (numbers := self._holders.get(stem)) is not None:
                scores[numbers] += math.log(1 + len(self.passages) / len(numbers))
                shared[numbers] += 1
        shared[besides] = 0
        found = np.flatnonzero(shared > 1)
        ranked: list[int] = found[np.argsort(-scores[found], kind="stable")][:count].tolist()
        return ranked
