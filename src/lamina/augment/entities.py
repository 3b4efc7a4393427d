"""Find names, numbers and dates in a text by rules, without a model.

Names are runs of capitalised words. In a lower-cased text, names are the words that other texts write with a capital
(`known_names`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

EntityKind = Literal["name", "place", "person", "group", "month", "day", "year", "decade", "ordinal", "percent", "number"]

MONTHS: Final = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
NUMBERS: Final = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")

# Words that are no names even with a capital, such as first words of sentences and questions.
_COMMON: Final = """
a an the this that these those he she it its they their his her him we our i you your my and but or nor so yet for in on
at by to from of with as if when while where who whom whose what which why how after before since during although though
because however also both each some many most all any no not one two three other another such there here then thus
according among between despite under over within without through about into upon once until unless whether even only
is are was were be been do does did has have had can could may might must shall should will would
early late several various later mr mrs dr sir lord lady st
"""
_NO_NAMES: Final = frozenset(_COMMON.split())
_JOINERS: Final = r"(?:of|de|von|van|der|la|le|du|the|of the|al)"
_CAPITAL: Final = r"[A-ZÀ-ÖØ-ÞŠŽŁ][\w’'-]*(?:\.[A-Z])*"
_NAME: Final = re.compile(rf"{_CAPITAL}(?: (?:{_JOINERS} )?{_CAPITAL})*")
_WORD: Final = re.compile(r"\w[\w’'-]*")
_SENTENCES: Final = re.compile(r"(?<=[.!?])[\"'”’)]*\s+|\n+")
_NUMERAL: Final = re.compile(
    r"(?<![\w.,$£€–-])(?:(?P<decade>1\d\d0|20[0-2]0)s|(?P<year>1[0-9]\d\d|20[0-2]\d)|(?P<ordinal>\d{1,3}(?:st|nd|rd|th))"
    r"|(?P<percent>\d+(?:\.\d+)? ?(?:%|percent\b))|(?P<number>\d+(?:(?: , |,)\d{3})*(?:\.\d+)?))(?![\w–-]|[.,:/]\d| , \d)"
)
_PLACE_BEFORE: Final = re.compile(r"\b(?:in|at|near|from|to|of the city of|across|throughout|into) (?:the )?$", re.IGNORECASE)
_PERSON_BEFORE: Final = re.compile(
    r"\b(?:mr|mrs|ms|dr|sir|lord|lady|king|queen|prince|president|general|saint|st|pope|emperor|professor|captain)\.? $",
    re.IGNORECASE,
)
_BODIES: Final = """
university college school institute museum company corporation inc ltd party union league association committee
council church army navy court act treaty war battle agency bank club society department office ministry
"""
_GROUP_WORDS: Final = frozenset(_BODIES.split())


@dataclass(frozen=True, slots=True)
class Entity:
    """A name, number or date: ``text[start:end]`` of the text that it was found in."""

    text: str
    kind: EntityKind
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each sentence. This is approximate: an abbreviation can end a sentence."""
    cuts = [0, *(match.end() for match in _SENTENCES.finditer(text))]
    return [(low, high) for low, high in zip(cuts, [*cuts[1:], len(text)], strict=True) if text[low:high].strip()]


def numerals(text: str) -> list[Entity]:
    """Return years, decades, ordinals, percentages, other numbers, months and weekdays, as figures or words."""
    found = [Entity(match.group(), _numeral_kind(match), match.start()) for match in _NUMERAL.finditer(text)]
    words = [(match.group(), match.start()) for match in _WORD.finditer(text)]
    found += [Entity(word, kind, start) for word, start in words if (kind := _word_kind(word))]
    return sorted(found, key=lambda entity: entity.start)


def names(text: str, known: Collection[str] = ()) -> list[Entity]:
    """Return runs of capitalised words; in a text without capitals, runs of words in `known`."""
    if text == text.lower():
        return _lower_names(text, known)
    found: list[Entity] = []
    begins = {low for low, _ in sentence_spans(text)}
    inside = {word for match in _NAME.finditer(text) if match.start() not in begins for word in match.group().split()}
    for match in _NAME.finditer(text):
        words = match.group().split(" ")
        start = match.start()
        while words and (words[0].lower() in _NO_NAMES or (start in begins and _opens(words, inside))):
            start += len(words.pop(0)) + 1
        name = re.sub(r"(?:['’]s|['’.-]+)$", "", " ".join(words))
        if len(name) > 1 and name.lower() not in (*MONTHS, *DAYS) and name.lower() not in _NO_NAMES:
            found.append(Entity(name, _name_kind(text, start, name), start))
    return found


def _opens(words: Sequence[str], inside: Collection[str]) -> bool:
    """Return whether the first word probably has a capital only because it starts a sentence: a single word or an adverb."""
    return words[0] not in inside and (len(words) == 1 or words[0].endswith("ly"))


def known_names(texts: Iterable[str], least: int = 3) -> frozenset[str]:
    """Return words, in lower case, that occur inside sentences with a capital at least `least` times and nearly always."""
    capital: Counter[str] = Counter()
    small: Counter[str] = Counter()
    for text in texts:
        if text == text.lower():
            continue
        begins = {low for low, _ in sentence_spans(text)}
        for match in _WORD.finditer(text):
            word = match.group()
            if match.start() not in begins:
                (capital if word[0].isupper() else small)[re.sub(r"['’]s$", "", word.lower())] += 1
    return frozenset(
        word
        for word, count in capital.items()
        if count >= least and small[word] * 20 <= count and word not in _NO_NAMES and word not in (*MONTHS, *DAYS)
    )


def _lower_names(text: str, known: Collection[str]) -> list[Entity]:
    found: list[Entity] = []
    for match in _WORD.finditer(text):
        if match.group() not in known:
            continue
        last = found[-1] if found else None
        if last is not None and text[last.end : match.start()] == " ":
            found[-1] = Entity(text[last.start : match.end()], last.kind, last.start)
        else:
            found.append(Entity(match.group(), "name", match.start()))
    return [Entity(entity.text, _name_kind(text, entity.start, entity.text), entity.start) for entity in found]


def _name_kind(text: str, start: int, name: str) -> EntityKind:
    """Return the kind of a name, guessed from the words in it and before it; "name" if unclear."""
    before = text[max(0, start - 24) : start]
    if _GROUP_WORDS & set(name.lower().split()):
        return "group"
    if _PERSON_BEFORE.search(before):
        return "person"
    return "place" if _PLACE_BEFORE.search(before) else "name"


def _numeral_kind(match: re.Match[str]) -> EntityKind:
    kinds: tuple[EntityKind, ...] = ("decade", "year", "ordinal", "percent", "number")
    return next(kind for kind in kinds if match[kind] is not None)


def _word_kind(word: str) -> EntityKind | None:
    lower = word.lower()
    if lower in MONTHS and (lower not in ("may", "march") or word[0].isupper()):
        return "month"
    if lower in DAYS:
        return "day"
    return "ordinal" if lower in ORDINALS else "number" if lower in NUMBERS else None
