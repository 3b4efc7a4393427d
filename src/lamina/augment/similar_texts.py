"""A question -> the same, put to another text that looks as if it might answer it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from lamina.augment.synthetic import WORD, made_from, squeeze, stems
from lamina.data.examples import Example

_WORDS_TO_TELL: Final = 4  # a question of fewer words that carry meaning ("Who joined the panel?") fits many texts
_COMMON: Final = 0.05  # a word in more than this share of the texts finds none
_SATURATION: Final = 1.5  # BM25's k1: how soon one more of the same word says nothing new
_LENGTH: Final = 0.75  # and its b: how much longer texts must hold more of it


@dataclass(frozen=True)
class Text:
    """A text of the library: of which article it is, what it says, and that without spaces and marks."""

    context: str
    article: str
    stems: frozenset[str]
    squeezed: str

    def tells(self, answer: str) -> bool:
        """Does it hold the answer, however it is spelled, or more than half of its words?"""
        words = set(stems(answer))
        return squeeze(answer) in self.squeezed or len(words & self.stems) > 0.5 * max(1, len(words))


class Library:
    """All texts of the data, to find those that are most like a question (Okapi BM25 over beginnings of words)."""

    def __init__(self, examples: Sequence[Example]) -> None:
        articles = {example.context: example.article for example in reversed(examples)}
        articles |= {example.context: example.article for example in reversed(examples) if example.answers}  # its own, surely
        self._texts = [
            Text(context, article, frozenset(stems(context)), squeeze(context)) for context, article in articles.items()
        ]
        self._given: defaultdict[str, set[str]] = defaultdict(set)  # the contexts that a question has already
        for example in examples:
            self._given[example.group].add(example.context)
        self._holding: defaultdict[str, dict[int, float]] = defaultdict(dict)  # of each word, how much it says of a text
        counts = [Counter(stems(text.context)) for text in self._texts]
        mean = sum(map(Counter.total, counts)) / max(1, len(counts))
        for number, count in enumerate(counts):
            size = _SATURATION * (1 - _LENGTH + _LENGTH * count.total() / max(1.0, mean))
            for stem, times in count.items():
                self._holding[stem][number] = times * (_SATURATION + 1) / (times + size)

    def alike(self, example: Example) -> Text | None:
        """The text most like what is asked that does not answer it: of the same article if there is one, else of any."""
        # In the question's order, not a set's: sums of rarities must come out alike in every process.
        asked = {stem: self._rarity(stem) for stem in dict.fromkeys(stems(example.question))}
        total = sum(asked.values())
        if len(asked) < _WORDS_TO_TELL:
            return None
        scores: defaultdict[int, float] = defaultdict(float)
        common = max(50, _COMMON * len(self._texts))
        for stem, rarity in asked.items():
            holding = self._holding.get(stem, {})
            if len(holding) <= common:
                for number, weight in holding.items():
                    scores[number] += rarity * weight
        own = frozenset(stems(example.context))
        ranked = sorted(scores, key=lambda number: (self._texts[number].article != example.article, -scores[number], number))
        for number in ranked[:50]:
            text = self._texts[number]
            shared = [stem for stem in asked if stem in text.stems]
            covered = sum(asked[stem] for stem in shared)
            if len(shared) < 2 or not 0.25 * total <= covered <= 0.65 * total:
                continue
            if text.context in self._given[example.group] or any(text.tells(answer.text) for answer in example.answers):
                continue
            if len(own & text.stems) <= 0.5 * min(len(own), len(text.stems)):
                return text
        return None

    def _rarity(self, stem: str) -> float:
        """What few texts hold weighs more."""
        holding = len(self._holding.get(stem, ()))
        return math.log(1 + (len(self._texts) - holding + 0.5) / (holding + 0.5))


def other_paragraph(example: Example, library: Library, known: Collection[str] = ()) -> Example | None:
    """The same question, put to a text that looks as if it might answer it. A question without a name or a number stays: what
    it asks may be told of something else there."""
    text = library.alike(example) if _names_something(example.question, known) else None
    if text is None:
        return None
    return made_from(example, "paragraph", context=text.context, article=text.article)


def _names_something(question: str, known: Collection[str]) -> bool:
    """Has it a capital behind its first word, a figure, or a known name? Scripts without capitals do not tell."""
    rest = WORD.findall(question)[1:]
    if question.lower() == question.upper():
        return True
    return any(word[0].isupper() or word[0].isdigit() or word.lower() in known for word in rest)
