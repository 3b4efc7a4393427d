"""Make questions from plain texts, for pretraining on spans. Each epoch has other questions.

- ``recurring`` (Splinter, Ram et al. 2021): a span is in several sentences of a passage. All but one occurrence become the
  mask token. The sentence of one of these is the question; the other sentences are the context, with the one occurrence left.
- ``cloze`` (SSPT, Glass et al. 2020): a sentence with a blank instead of a name, a number or a noun is the question. The rest
  of its passage or another passage that holds the span is the context.

Some questions get a context without any word of the span, so that "no answer" is right: sentences of the same passage, or a
similar passage. All questions become an `Example`, and the span head of fine-tuning learns them. Departures:

- Splinter selects a span by the state of the mask token, all questions of a passage at once. Here each has a sequence.
- Glass et al. find passages in a large corpus and accept every occurrence. Here the one with the most words of the question
  is the answer.
- Rules find names and nouns, not a parser.
- Both papers train masked tokens beside the spans. Here they are a pretraining of their own, before this one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Literal

from pydantic import Field

from lamina.augment.synthetic import stems
from lamina.data.examples import Answer, Example
from lamina.pretraining.answer_spans import STOP_WORDS, AnswerSpan, Place, SpanKind, answer_spans, places_of, recurring_spans
from lamina.pretraining.passages import Passage, PassageIndex, cut_passages, parts_of
from lamina.utils.options import Options

QuestionKind = Literal["recurring", "cloze"]
Blank = Literal["mask", "question_word"]

FEWEST_WORDS: Final = 20  # of a context
FEWEST_STEMS: Final = 3  # of a question, beside the span
QUESTION_WORDS: Final = 40  # a longer sentence is cut around its blank
SIMILAR: Final = 12  # passages that are looked at for a context
ROUNDS: Final = 8  # tries to make an unanswerable question from a passage
_QUESTION_WORDS: Final[dict[SpanKind, str]] = {
    "person": "who",
    "place": "where",
    "month": "what month",
    "day": "what day",
    "year": "what year",
    "decade": "what decade",
    "ordinal": "which",
    "percent": "what percentage",
    "number": "how many",
}


class SpanQuestionOptions(Options):
    """Options of the questions that are made from texts."""

    kinds: tuple[QuestionKind, ...] = Field(default=("recurring", "cloze"), min_length=1)
    """Kinds of questions: recurring spans of a passage, and cloze questions about names, numbers and nouns."""
    questions: int = Field(default=3, ge=1)
    """Make at most this many answerable questions of each kind from a passage in an epoch."""
    unanswerable: float = Field(default=0.3, ge=0, lt=1)
    """Share of questions whose context holds no word of the answer, from 0 to below 1."""
    longest: int = Field(default=10, ge=1)
    """Number of words of the longest recurring span."""
    passage: int = Field(default=150, ge=20)
    """Cut texts after sentences into passages of about this many words, at least 20."""
    blank: Blank = "mask"
    """What replaces the span in a question: the mask token, or a question word such as `who` or `what year`."""


class SpanCorpus:
    """The passages of texts, with an index and the spans that questions ask about."""

    def __init__(self, texts: Sequence[str], passage: int, longest: int) -> None:
        cut = [one for number, text in enumerate(texts) for one in cut_passages(text, passage, number)]
        self.passages = [one for one in cut if len(one.sentences) > 1 and len(one.text.split()) >= FEWEST_WORDS]
        self.index = PassageIndex(self.passages)
        self._longest = longest

    @cached_property
    def spans(self) -> list[dict[QuestionKind, list[AnswerSpan]]]:
        """The spans of each passage, by the kind of question that asks about them."""
        return [
            {"recurring": recurring_spans(passage, self._longest), "cloze": answer_spans(passage)} for passage in self.passages
        ]


_corpus = lru_cache(maxsize=2)(SpanCorpus)  # all epochs share the passages; the held-out texts have their own


def make_questions(texts: Sequence[str], options: SpanQuestionOptions, mask: str, *, seed: int, epoch: int) -> list[Example]:
    """Return the questions of one epoch; `mask` is the tokenizer's mask token. Passages that give none are skipped."""
    corpus = _corpus(tuple(texts), options.passage, options.longest)
    makers = [_Maker(corpus, number, options, mask, f"{seed} {epoch}") for number in range(len(corpus.passages))]
    answerable = [question for maker in makers for question in maker.answerable()]
    wanted = round(len(answerable) * options.unanswerable / (1 - options.unanswerable))
    order = random.Random(f"{seed} {epoch}").sample(makers, len(makers))
    unanswerable: list[Example] = []
    for turn in range(ROUNDS):
        for maker in order:
            if len(unanswerable) == wanted:
                break
            unanswerable += maker.unanswerable(turn)
    return [*answerable, *unanswerable]


@dataclass(frozen=True)
class _Context:
    """Sentences of one passage in order, and the places in them that the mask token replaces."""

    passage: Passage
    sentences: Sequence[int]
    masked: Sequence[Place] = ()

    def text(self, mask: str, answer: Place | None = None) -> tuple[str, tuple[Answer, ...]]:
        """Return the text, and the answer with its start in the text."""
        pieces: list[str] = []
        answers: tuple[Answer, ...] = ()
        for number in self.sentences:
            sentence = self.passage.sentences[number]
            own = [place for place in self.masked if place.sentence == number]
            if answer is not None and answer.sentence == number:
                shift = sum(len(mask) - (place.end - place.start) for place in own if place.start < answer.start)
                start = sum(len(piece) + 1 for piece in pieces) + answer.start + shift
                answers = (Answer(sentence[answer.start : answer.end], start),)
            pieces.append(replaced(sentence, own, mask))
        return " ".join(pieces), answers


class _Maker:
    """Makes the questions about one passage in one epoch."""

    def __init__(self, corpus: SpanCorpus, number: int, options: SpanQuestionOptions, mask: str, seed: str) -> None:
        self._corpus, self._number, self._options, self._mask, self._seed = corpus, number, options, mask, seed
        self._passage = corpus.passages[number]

    def answerable(self) -> Iterator[Example]:
        draw = random.Random(f"{self._seed} {self._number}")
        for kind in self._options.kinds:
            make: Callable[[AnswerSpan, random.Random], Example | None] = getattr(self, f"_{kind}")
            made = 0
            for span in weighted_order(self._corpus.spans[self._number][kind], draw):
                question = make(span, draw)
                made += question is not None
                if question is not None:
                    yield question
                if made == self._options.questions:
                    break

    def unanswerable(self, turn: int) -> list[Example]:
        """Return one question whose context does not hold the span; none if this turn finds none."""
        draw = random.Random(f"{self._seed} {self._number} {turn}")
        kind = draw.choice(self._options.kinds)
        spans = weighted_order(self._corpus.spans[self._number][kind], draw)
        if not spans:
            return []
        span, asked = spans[0], draw.choice(spans[0].places)
        question = self._question(span, asked)
        context = None if question is None else self._without(span, asked, kind, draw)
        if question is None or context is None:
            return []
        return [self._example(f"{kind}-none-{turn}", question, context.text(self._mask)[0])]

    def _recurring(self, span: AnswerSpan, draw: random.Random) -> Example | None:
        asked = draw.choice(span.places)
        left = draw.choice([place for place in span.places if place.sentence != asked.sentence])
        context = _Context(self._passage, self._others(asked), [place for place in span.places if place != left])
        return self._answered(span, asked, "recurring", context, left)

    def _cloze(self, span: AnswerSpan, draw: random.Random) -> Example | None:
        asked = draw.choice(span.places)
        own = [(_Context(self._passage, self._others(asked)), span.places)] if span.recurs else []
        found = own if own and draw.random() < 0.5 else [*self._elsewhere(span, asked), *own]
        if not found:
            return None
        context, places = found[0]
        sentence = frozenset(stems(self._passage.sentences[asked.sentence])) - parts_of(" ".join(span.key))

        def shared(place: Place) -> int:
            return len(sentence & parts_of(context.passage.sentences[place.sentence]))

        inside = [place for place in places if place.sentence in context.sentences]
        return self._answered(span, asked, "cloze", context, max(inside, key=shared))

    def _answered(self, span: AnswerSpan, asked: Place, kind: QuestionKind, context: _Context, answer: Place) -> Example | None:
        question = self._question(span, asked)
        text, answers = context.text(self._mask, answer)
        if question is None or len(text.split()) < FEWEST_WORDS:
            return None
        return self._example(f"{kind}-{'_'.join(span.key)}", question, text, answers)

    def _example(self, name: str, question: str, context: str, answers: tuple[Answer, ...] = ()) -> Example:
        own_id = f"{self._number}-{name}"
        return Example(own_id, question, context, answers, group=own_id, article=str(self._passage.source))

    def _question(self, span: AnswerSpan, asked: Place) -> str | None:
        """Return the sentence with its blank; None if it has too few words to tell what is asked."""
        sentence = self._passage.sentences[asked.sentence]
        places = [place for place in span.places if place.sentence == asked.sentence]
        rest = replaced(sentence, places, " ")
        if len(set(stems(rest)) - parts_of(" ".join(span.key))) < FEWEST_STEMS:
            return None
        by_word = self._options.blank == "question_word"
        word = _QUESTION_WORDS.get(span.kind, "what") if by_word else self._mask
        before, after = replaced(sentence[: asked.start], [p for p in places if p.end <= asked.start], word), ""
        later = [Place(p.sentence, p.start - asked.end, p.end - asked.end) for p in places if p.start >= asked.end]
        after = replaced(sentence[asked.end :], later, word)
        question = cut_around(before, word, after, QUESTION_WORDS)
        return question.rstrip(" .!?;:,") + "?" if by_word else question

    def _others(self, asked: Place) -> list[int]:
        return [number for number in range(len(self._passage.sentences)) if number != asked.sentence]

    def _elsewhere(self, span: AnswerSpan, asked: Place) -> Iterator[tuple[_Context, Sequence[Place]]]:
        """Yield similar passages of other texts or of the rest of this text that hold the span, with its places."""
        for passage in self._similar(span, asked):
            if places := places_of(passage, span.key):
                yield _Context(passage, range(len(passage.sentences))), places

    def _similar(self, span: AnswerSpan, asked: Place) -> Iterator[Passage]:
        """Yield the passages that are most like the question. A passage with the same sentence is none."""
        sentence = self._passage.sentences[asked.sentence]
        for number in self._corpus.index.most_like(sentence, SIMILAR, besides=self._number):
            passage = self._corpus.passages[number]
            if sentence not in passage.sentences:
                yield passage

    def _without(self, span: AnswerSpan, asked: Place, kind: QuestionKind, draw: random.Random) -> _Context | None:
        """Return a context that holds no word of the span: of the same passage, or a similar passage."""
        unwanted = parts_of(" ".join(span.key)) - STOP_WORDS
        others = self._others(asked)
        masked = _Context(self._passage, others, span.places if kind == "recurring" else ())
        kept = [number for number in others if unwanted.isdisjoint(parts_of(self._passage.sentences[number]))]
        similar = (_Context(p, range(len(p.sentences))) for p in self._similar(span, asked) if unwanted.isdisjoint(p.parts))
        found = [masked, _Context(self._passage, kept)]
        draw.shuffle(found)
        if draw.random() < 0.5:
            found = [context for context in [next(similar, None)] if context is not None]
        for context in found:
            text, _ = context.text(self._mask)
            long_enough = len(text.split()) >= FEWEST_WORDS and 2 * len(context.sentences) >= len(others)
            if long_enough and unwanted.isdisjoint(parts_of(text)):
                return context
        return None


def weighted_order(spans: Sequence[AnswerSpan], draw: random.Random) -> list[AnswerSpan]:
    """Return the spans in a random order; those with more weight tend to come first (Efraimidis and Spirakis 2006)."""
    keys = [draw.random() ** (1 / span.weight) for span in spans]
    return [spans[place] for place in sorted(range(len(spans)), key=lambda place: -keys[place])]


def replaced(sentence: str, places: Sequence[Place], word: str) -> str:
    """Return a sentence with `word` instead of the characters of each place.

    >>> replaced("The owl saw an owl.", [Place(0, 4, 7), Place(0, 15, 18)], "[MASK]")
    'The [MASK] saw an [MASK].'
    """
    for place in sorted(places, key=lambda one: -one.start):
        sentence = sentence[: place.start] + word + sentence[place.end :]
    return sentence


def cut_around(before: str, word: str, after: str, most: int) -> str:
    """Return ``before + word + after`` without the words that are furthest from `word`, if there are more than `most`.

    >>> cut_around("a b c d ", "?", " e f.", 4)
    'c d ? e'
    """
    left, right = before.split(), (word + after).split()
    if len(left) + len(right) <= most:
        return before + word + after
    kept = max(most // 2, most - len(right))  # words before the blank
    return " ".join([*left[-kept:], *right[: max(0, most - min(kept, len(left)))]])
