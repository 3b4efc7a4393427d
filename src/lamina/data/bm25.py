"""Search paragraphs by BM25, and give SQuAD questions several paragraphs with it.

BM25 is in Lucene's form (Kamphuis et al. 2020), ``k1 = 1.5``, ``b = 0.75``, by `bm25s`, the extra `contexts`. Words are runs
of letters and digits without case. Scripts without spaces between words are cut into pairs of characters. So is Hangul,
because its particles have no space before them. There is no list of stop words and no stemming.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal

import numpy as np

from lamina.data.examples import Example
from lamina.data.multi_context import ContextParagraph, MultiContextQuestion, QuestionText, find_first
from lamina.data.squad_format import answers_of
from lamina.errors import LaminaError
from lamina.utils.arrays import Floats
from lamina.utils.progress import Progress, Silent

Hits = Literal["drop", "answerable", "impossible"]

K1: Final = 1.5
B: Final = 0.75
_DENSE: Final = r"[\p{Han}\p{Hangul}\p{Hiragana}\p{Katakana}ー]"


def search_terms(text: str) -> list[str]:
    """Return the search terms of a text.

    >>> search_terms("The owl's 2 eyes"), search_terms("서울에서 A4")
    (['the', 'owl', 's', '2', 'eyes'], ['서울', '울에', '에서', 'a4'])
    """
    import regex

    found: list[str] = []
    for run in regex.findall(rf"{_DENSE}+|(?:(?!{_DENSE})\w)+", unicodedata.normalize("NFC", text).casefold()):
        if regex.match(_DENSE, run) and len(run) > 1:
            found += (run[n : n + 2] for n in range(len(run) - 1))
        else:
            found.append(run)
    return found


class BM25Index:
    """An index of texts for search."""

    def __init__(self, texts: Sequence[str]) -> None:
        try:
            import bm25s
        except ImportError:
            raise LaminaError("search by BM25: needs bm25s. Fix: pip install 'lamina-qa[contexts]'") from None
        tokens = [search_terms(text) for text in texts]
        self._count = len(texts)
        self._index: Any = bm25s.BM25(k1=K1, b=B, method="lucene") if any(tokens) else None
        if self._index is not None:
            self._index.index(tokens, show_progress=False)

    def scores(self, query: str) -> Floats:
        """Return [texts] the score of each text for the query; 0 if they share no word."""
        asked = search_terms(query)
        if self._index is None or not asked:
            return np.zeros(self._count, np.float32)
        found: Floats = self._index.get_scores(asked)
        return found

    def best(self, query: str, at_once: int = 32) -> Iterator[int]:
        """Yield the indices of all texts, best first, the earlier of two equals first. Only what is taken is sorted."""
        scores = self.scores(query)
        given, size = 0, at_once
        while given < len(scores):
            least = np.partition(scores, -min(size, len(scores)))[-min(size, len(scores))]
            chosen = np.flatnonzero(scores >= least)
            order = chosen[np.argsort(-scores[chosen], kind="stable")]
            yield from order[given:].tolist()
            given, size = len(order), 4 * len(order)


@dataclass(frozen=True)
class Neighbours:
    """Questions with several paragraphs, in the form of `lamina.data.multi_context`, and counts."""

    questions: list[MultiContextQuestion]
    paragraphs: int  # of all questions together
    hits: int  # other paragraphs among the best that hold the text of an answer by chance


def with_neighbours(
    examples: Sequence[Example], count: int, *, seed: int = 0, hits: Hits = "drop", progress: Progress | None = None
) -> Neighbours:
    """Return each question with its own paragraph and the `count` - 1 most similar others, in a random order.

    Another paragraph may hold the text of an answer by chance ("two", "1990") without answering the question. `hits` chooses
    what to do with such a paragraph:

    - ``drop``: the next best paragraph replaces it
    - ``answerable``: it counts as holding the answer, as in paper 004
    - ``impossible``: it stays and counts as holding no answer

    The own paragraph keeps its answers with their starts.
    """
    progress = progress or Silent()
    if len({example.group for example in examples}) < len(examples):
        raise LaminaError("the data: its questions have several contexts already. Fix: name questions with one context each")
    articles: dict[str, str] = {}  # the article of every paragraph
    for example in examples:
        articles.setdefault(example.context, example.article)
    paragraphs = list(articles)
    search = BM25Index(paragraphs)
    met = 0
    questions: list[MultiContextQuestion] = []
    progress.start("searching", len(examples))
    for number, example in enumerate(examples):
        own: ContextParagraph = {"title": example.article, "contents": example.context, "answers": answers_of(example)}
        others = _OtherParagraphs(example, paragraphs, articles, hits)
        chosen = [own, *islice(others.among(search.best(example.question)), count - 1)]
        met += others.met
        order = np.random.default_rng([seed, number]).permutation(len(chosen))
        qa: QuestionText = {
            "id": example.id,
            "question": example.question,
            "answers": list(dict.fromkeys(answer.text for answer in example.answers)),
            "article": example.article,
        }
        questions.append({"qa": qa, "paragraphs": [chosen[place] for place in order]})
        progress.advance(1)
    return Neighbours(questions, sum(len(question["paragraphs"]) for question in questions), met)


class _OtherParagraphs:
    """Yields the other paragraphs of a question, and counts those that hold the text of an answer."""

    def __init__(self, example: Example, paragraphs: Sequence[str], articles: dict[str, str], hits: Hits) -> None:
        self._example, self._paragraphs, self._articles, self._hits = example, paragraphs, articles, hits
        self.met = 0

    def among(self, numbers: Iterator[int]) -> Iterator[ContextParagraph]:
        """Yield the paragraphs with these indices that may be used, in the same order."""
        for context in map(self._paragraphs.__getitem__, numbers):
            if context == self._example.context:
                continue
            paragraph: ContextParagraph = {"title": self._articles[context], "contents": context}
            if any(find_first(context, answer.text) for answer in self._example.answers):
                self.met += 1
                if self._hits == "drop":
                    continue
                if self._hits == "impossible":
                    paragraph["answers"] = []
            yield paragraph
