"""Make unanswerable questions by asking a question about another text that shares words with it.

Okapi BM25 over stems ranks the texts. The two constants are those of `lamina.data.bm25`. That module computes with `bm25s`,
an extra that training does not need.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from lamina.augment.synthetic import WORD, is_east_asian, letters_and_digits, stems, synthetic_from
from lamina.data.bm25 import K1, B
from lamina.data.examples import Example

_FEWEST_STEMS: Final = 4  # a question with fewer content words ("Who joined the panel?") fits many texts
_COMMON: Final = 0.05  # a word in more than this share of the texts is not searched for


@dataclass(frozen=True)
class IndexedText:
    """A context of the data with its article, its stems, and its letters and digits without all else."""

    context: str
    article: str
    stems: frozenset[str]
    letters: str

    def holds_answer(self, answer: str) -> bool:
        """Return whether the text has the answer in any spelling, or half of its words, such as a surname."""
        words = set(stems(answer))
        return letters_and_digits(answer) in self.letters or len(words & self.stems) >= 0.5 * max(1, len(words))


class TextIndex:
    """An index of all contexts of the data, to rank them by similarity to a question (Okapi BM25 over stems)."""

    def __init__(self, examples: Sequence[Example]) -> None:
        articles = {example.context: example.article for example in reversed(examples)}
        # An example with an answer overwrites the others: its context surely belongs to its article.
        articles |= {example.context: example.article for example in reversed(examples) if example.answers}
        self._texts = [
            IndexedText(context, article, frozenset(stems(context)), letters_and_digits(context))
            for context, article in articles.items()
        ]
        self._contexts_of: defaultdict[str, set[str]] = defaultdict(set)  # by question
        for example in examples:
            self._contexts_of[example.group].add(example.context)
        self._weights: defaultdict[str, dict[int, float]] = defaultdict(dict)  # of each stem in each text
        counts = [Counter(stems(text.context)) for text in self._texts]
        mean = sum(map(Counter.total, counts)) / max(1, len(counts))
        for number, count in enumerate(counts):
            size = K1 * (1 - B + B * count.total() / max(1.0, mean))
            for stem, times in count.items():
                self._weights[stem][number] = times * (K1 + 1) / (times + size)

    def most_similar(self, example: Example) -> IndexedText | None:
        """Return the most similar text that does not answer the question, or None.

        Texts of the question's own article come first.
        """
        # A dict keeps the question's order: sums of floats must be equal in every process, and the order of a set varies.
        asked = {stem: self._rarity(stem) for stem in dict.fromkeys(stems(example.question))}
        total = sum(asked.values())
        if len(asked) < _FEWEST_STEMS:
            return None
        scores: defaultdict[int, float] = defaultdict(float)
        common = max(50, _COMMON * len(self._texts))
        for stem, rarity in asked.items():
            weights = self._weights.get(stem, {})
            if len(weights) <= common:
                for number, weight in weights.items():
                    scores[number] += rarity * weight
        own = frozenset(stems(example.context))
        ranked = sorted(scores, key=lambda number: (self._texts[number].article != example.article, -scores[number], number))
        for number in ranked[:50]:
            text = self._texts[number]
            shared = [stem for stem in asked if stem in text.stems]
            covered = sum(asked[stem] for stem in shared)
            if len(shared) < 2 or not 0.25 * total <= covered <= 0.65 * total:
                continue
            if text.context in self._contexts_of[example.group] or any(
                text.holds_answer(answer.text) for answer in example.answers
            ):
                continue
            if len(own & text.stems) <= 0.5 * min(len(own), len(text.stems)):
                return text
        return None

    def _rarity(self, stem: str) -> float:
        """Return BM25's inverse document frequency."""
        count = len(self._weights.get(stem, ()))
        return math.log(1 + (len(self._texts) - count + 0.5) / (count + 0.5))


def other_paragraph(example: Example, texts: TextIndex, known: Collection[str] = ()) -> Example | None:
    """Return the same question with another, similar text as its context, or None.

    A question without a name or a number gives None: another text may answer it about something else.
    """
    text = texts.most_similar(example) if _names_something(example.question, known) else None
    if text is None:
        return None
    return synthetic_from(example, "paragraph", context=text.context, article=text.article)


def _names_something(question: str, known: Collection[str]) -> bool:
    """Return whether a word after the first has a capital, is a figure, or is a known name.

    A question in a script without capitals gives True, because nothing is known.
    """
    rest = WORD.findall(question)[1:]
    if question.lower() == question.upper() or is_east_asian(question):
        return True
    return any(word[0].isupper() or word[0].isdigit() or word.lower() in known for word in rest)
