"""Find the spans of a passage that are worth asking about: names, numbers, noun-like words, and spans that recur.

Rules find them, without a model. The rules for names and nouns are for English; any language has recurring spans.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from lamina.augment.entities import EntityKind, names, numerals
from lamina.pretraining.passages import Passage, Word

SpanKind = EntityKind | Literal["noun"]
Key = tuple[str, ...]  # the words of a span, without case

LONGEST_NOUN: Final = 4  # words of a noun-like span
_HYPHENS: Final = frozenset("-–—")
_GAPS: Final = (" ", "-", "–", "'", "’")  # between two words of a span
_STOPS: Final = """
a an the this that these those he she it its they them their his her him we us our i me you your my who whom whose which what
when where why how and but or nor so yet for in on at by to from of with as if than then while after before since during until
although though because however also both each some many most all any no not only just even more less much very too such own
same other another several various there here thus among between despite under over within without through about into upon
against toward towards across along around behind below above near off out up down again further once per via like unlike s t
is are was were be been being am do does did doing done has have had having can could may might must shall should will would
become becomes became began begin begins called known made make makes making used use uses using see seen
including include includes included according later early late often usually sometimes never always still already perhaps
first second last next new old good well back few little long large small great high low different part parts way ways kind
made took take takes taken gave give gives given came come comes went go goes gone got get gets found find finds led lead
following based due rather quite almost nearly one ones unk
"""
STOP_WORDS: Final = frozenset(_STOPS.split())
_DETERMINERS: Final = "a an the this that these those his her its their our my your of by with any each no some"
_BEFORE_NOUNS: Final = frozenset(_DETERMINERS.split())
_NOT_NOUNS: Final = ("ly", "ed", "ing")  # endings of adverbs and of most forms of verbs


@dataclass(frozen=True)
class Place:
    """Where a span is: characters `start` to `end` of a sentence."""

    sentence: int
    start: int
    end: int


@dataclass(frozen=True)
class AnswerSpan:
    """A span that can be an answer, with all of its places in the passage in order."""

    key: Key
    kind: SpanKind
    places: tuple[Place, ...]

    @property
    def weight(self) -> float:
        """How often it is asked about, relative to others: names and figures most, single common words least."""
        if self.kind != "noun":
            return 4.0 if self.key[-1][0].isdigit() or self.kind not in ("number", "ordinal") else 0.5
        return 2.0 if len(self.key) > 1 else 1.0

    @property
    def recurs(self) -> bool:
        """Whether it is in two sentences or more."""
        return bool(self.places) and self.places[0].sentence != self.places[-1].sentence


def answer_spans(passage: Passage) -> list[AnswerSpan]:
    """Return the names, numbers and noun-like spans of a passage, by their first place. Each has all of its places."""
    found = {_key(passage, place): kind for place, kind in sorted(_entities(passage), key=lambda one: _order(one[0]))}
    for key in _nouns(passage):
        found.setdefault(key, "noun")
    found.pop((), None)
    return [AnswerSpan(key, kind, places) for key, kind in found.items() if (places := places_of(passage, key))]


def recurring_spans(passage: Passage, longest: int) -> list[AnswerSpan]:
    """Return the spans of at most `longest` words that are in two sentences or more (Ram et al. 2021).

    A span begins and ends with a content word. It is maximal: if every place of it is within a longer recurring span, only
    the longer one is returned.
    """
    kinds = {_key(passage, place): kind for place, kind in _entities(passage)}
    ngrams: defaultdict[Key, list[tuple[int, int]]] = defaultdict(list)  # (sentence, first word)
    for number, words in enumerate(passage.words):
        for first, last in _content_ngrams(passage.sentences[number], words, longest):
            ngrams[tuple(word.key for word in words[first : last + 1])].append((number, first))
    covered: set[tuple[int, int]] = set()  # (sentence, word) of longer spans
    spans = []
    repeated = [key for key, starts in ngrams.items() if starts[0][0] != starts[-1][0]]
    for key in sorted(repeated, key=lambda one: (-len(one), ngrams[one][0])):
        own = {(sentence, first + nth) for sentence, first in ngrams[key] for nth in range(len(key))}
        span = AnswerSpan(key, kinds.get(key, "noun"), places_of(passage, key))
        if own <= covered or not span.recurs or (span.kind == "noun" and not _is_noun(key)):
            continue
        covered |= own
        spans.append(span)
    return sorted(spans, key=lambda span: _order(span.places[0]))


def places_of(passage: Passage, key: Key) -> tuple[Place, ...]:
    """Return all places of a span in a passage, without overlaps.

    A part of a compound, such as "one" in "forty-one", is no place of it.
    """
    found: list[Place] = []
    for number, first in passage.words_by_key.get(key[0], ()):
        words, sentence, last = passage.words[number], passage.sentences[number], first + len(key) - 1
        if last >= len(words) or any(words[first + nth].key != part for nth, part in enumerate(key)):
            continue
        place = Place(number, words[first].start, words[last].end)
        around = sentence[max(0, place.start - 1) : place.start] + sentence[place.end : place.end + 1]
        overlaps = found and found[-1].sentence == number and place.start < found[-1].end
        if not overlaps and not set(around) & _HYPHENS and all(_joined(sentence, words, n) for n in range(first, last)):
            found.append(place)
    return tuple(found)


def _content_ngrams(sentence: str, words: Sequence[Word], longest: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last word of each run of joined words that begins and ends with a content word."""
    for first in range(len(words)):
        if words[first].key in STOP_WORDS:
            continue
        for last in range(first, min(len(words), first + longest)):
            if last > first and not _joined(sentence, words, last - 1):
                break
            if words[last].key not in STOP_WORDS:
                yield first, last


def _joined(sentence: str, words: Sequence[Word], place: int) -> bool:
    """Return whether nothing but a space, a hyphen or an apostrophe is between a word and the next."""
    return sentence[words[place].end : words[place + 1].start] in _GAPS


def _entities(passage: Passage) -> Iterator[tuple[Place, SpanKind]]:
    """Yield the names, numbers and dates of a passage."""
    starts = passage.starts()
    entities = [*names(passage.text), *numerals(passage.text)]
    for number, (start, sentence) in enumerate(zip(starts, passage.sentences, strict=True)):
        for entity in entities:
            if start <= entity.start and entity.end <= start + len(sentence):
                yield Place(number, entity.start - start, entity.end - start), entity.kind


def _key(passage: Passage, place: Place) -> Key:
    """Return the words of a span; no words if the span does not begin and end with whole words."""
    words = [word for word in passage.words[place.sentence] if place.start <= word.start and word.end <= place.end]
    whole = words and (words[0].start, words[-1].end) == (place.start, place.end)
    return tuple(word.key for word in words) if whole else ()


def _nouns(passage: Passage) -> Iterator[Key]:
    """Yield runs of content words after an article or a like word: "a large , yellow `oil lamp` is"."""
    for sentence, words in zip(passage.sentences, passage.words, strict=True):
        for place, word in enumerate(words):
            if word.key not in _BEFORE_NOUNS:
                continue
            last = place
            while last + 1 < len(words) and words[last + 1].key not in STOP_WORDS and _joined(sentence, words, last):
                last += 1
            key = tuple(one.key for one in words[place + 1 : last + 1])
            if 0 < len(key) <= LONGEST_NOUN and _is_noun(key):
                yield key


def _is_noun(key: Key) -> bool:
    """Return whether a span may be a noun, by the ending of its last word. Words of two letters are too vague."""
    last = key[-1]
    return last.isalpha() and len(last) > 2 and not last.endswith(_NOT_NOUNS)


def _order(place: Place) -> tuple[int, int]:
    return place.sentence, place.start
