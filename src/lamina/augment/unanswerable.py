"""Unanswerable questions made from answerable ones, by rules: no model, no network.

A real training set often has fewer of them than the texts to come. Five ways, each of which leaves a question that looks as if
the text might answer it:

``entity``     a name, or a month or day, becomes another of the same kind from the same text (#swap-entity)
``antonym``    a word becomes its opposite (#swap-antonym)
``number``     a number, year or ordinal becomes another (#change-number)
``paragraph``  the question is put to another text that shares words with it but not its answer (#other-paragraph)
``negation``   was -> wasn't (#negate); a model soon learns to look for that, so it is not among the defaults

After Rajpurkar et al. 2018, whose writers did such things by hand, and Gautam et al. 2023 (entities and antonyms). Words and
rules are of English: in other languages only ``paragraph`` finds much.

What keeps the original answer from being right by chance:

- What is swapped must matter: not a part of the answer, and what comes instead stands in no sentence with the answer
  (nor, of an antonym or a changed number, anywhere in the text), since lists share what is said of them.
- A new name must not stand in sentences that speak of what the question asks, must not be another form of the old one, nor be
  what the article is about.
- A bound ("after 1990") may hold for another number too, so numbers behind such words stay.
- Another text must lack the answer, however it is spelled, and some words of the question, of which there must be enough to
  tell what it is about, a name or number among them; and it must not be the same text written differently.
"""

from __future__ import annotations

import math
import random
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise, zip_longest
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from lamina.augment.antonyms import ANTONYMS
from lamina.augment.entities import NUMBERS, ORDINALS, Entity, known_names, names, numerals, sentences
from lamina.data.examples import Example
from lamina.errors import LaminaWarning

Way = Literal["entity", "antonym", "number", "paragraph", "negation"]

MARKS: Final[Mapping[Way, str]] = {
    "entity": "#swap-entity",
    "antonym": "#swap-antonym",
    "number": "#change-number",
    "paragraph": "#other-paragraph",
    "negation": "#negate",
}

_WORD: Final = re.compile(r"\w[\w’'-]*")
_BOUND: Final = re.compile(
    r"\b(?:(?:after|before|since|by|until|over|under|than)(?: \w+)?|least|most|between|and|to|about|almost|nearly)$"
)
_OWNED: Final = re.compile(r"(?:\b(?:the|a|his|her|its|their|what|which)|['’]s?)$")
_ARTICLE: Final = re.compile(r"\b([Aa])n?( +)$")
_NEGATED: Final = re.compile(r"\b(?:not|never|no|none|nobody|nothing|without|except|besides)\b|n't\b", re.IGNORECASE)
_AUXILIARIES: Final = re.compile(
    r"\b(is|are|was|were|do|does|did|has|have|had|could|would|should|can|will)\b(?! n't)", re.IGNORECASE
)
_CONTRACTED: Final = {"can": "can't", "will": "won't"}
_FUNCTION: Final = """
a an the of in on at by to from for with as and or but is are was were be been being do does did has have had can could may
might must shall should will would what which who whom whose when where why how many much that this these those it its he she
his her their they them there than then into about also not no name named called type kind during between after before
purpose meaning mean role term known
"""
_FUNCTION_WORDS: Final = frozenset(_FUNCTION.split())
_BEFORE_MEASURES: Final = ("how", "years", "year", "so", "as")  # "how long" asks for the same as "how short"
_ALSO_VERBS: Final = ("last", "close", "open", "lower", "cool", "slow", "light")
_WORDS_TO_TELL: Final = 4  # a question of fewer words that carry meaning ("Who joined the panel?") fits many texts
_COMMON: Final = 0.05  # a word in more than this share of the texts finds none


class UnanswerableOptions(BaseModel):
    """Questions that no text answers are made until they are `share` of all. Where questions have several contexts, these are
    not counted: a question is unanswerable if none of its contexts holds an answer, and each made one is a question more."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    share: float = Field(default=0.4, gt=0, lt=1)  # of unanswerable questions, those of the data included
    kinds: tuple[Way, ...] = Field(default=("entity", "antonym", "number", "paragraph"), min_length=1)
    per_epoch: bool = True  # others in every epoch, instead of the same
    replace: bool = False  # in place of the questions they are made from, so that there are as many as before


def with_unanswerable(
    examples: Sequence[Example], options: UnanswerableOptions, seed: int, *, epoch: int = 0, known: Known | None = None
) -> list[Example]:
    """All that an epoch trains on: the examples and the made ones; with `replace`, the latter in the place of their sources."""
    made = make_unanswerable(examples, options, seed, epoch=epoch, known=known)
    if not options.replace:
        return [*examples, *made]
    instead = {source_id(one.id): one for one in made}
    replaced = {example.group for example in examples if example.id in instead}  # with all of their contexts
    return [instead.get(e.id, e) for e in examples if e.id in instead or e.group not in replaced]


def make_unanswerable(
    examples: Sequence[Example], options: UnanswerableOptions, seed: int, *, epoch: int = 0, known: Known | None = None
) -> list[Example]:
    """Made questions only, as many as reach the share, or as can be made, with a warning. Equal for equal seeds and epochs.

    The ways take turns. A question is used once a way at most, and with `replace` once. `known` is what `Known.of` finds out
    about the examples; given, it is not found out again for every epoch.
    """
    wanted = _how_many(examples, options)
    if wanted <= 0:
        message = f"augment.unanswerable: share = {options.share} of the questions have no answer as they are: none is made"
        warnings.warn(message, LaminaWarning, stacklevel=2)
        return []
    draw = random.Random(f"unanswerable/{seed}/{epoch if options.per_epoch else 0}")
    makers = _makers(known or Known.of(examples))
    sources = [example for example in examples if example.answers]
    draw.shuffle(sources)
    made: list[Example] = []
    counts: Counter[Way] = Counter(dict.fromkeys(options.kinds, 0))
    used: defaultdict[str, set[Way]] = defaultdict(set)
    replaced: set[str] = set()
    for _ in range(1 if options.replace else len(options.kinds)):
        for source in sources:
            if len(made) == wanted:
                return made
            if options.replace and source.group in replaced:
                continue
            for way in sorted(set(options.kinds) - used[source.id], key=lambda way: (counts[way], way)):
                used[source.id].add(way)
                if (one := makers[way](source, draw)) is not None:
                    made.append(one)
                    replaced.add(source.group)
                    counts[way] += 1
                    break
    if len(made) < wanted:
        message = f"augment.unanswerable: {wanted} questions were wanted for share = {options.share}, {len(made)} could be made"
        warnings.warn(message, LaminaWarning, stacklevel=2)
    return made


def source_id(made_id: str) -> str:
    """The id of the question that a made one is from."""
    return made_id.rpartition("#")[0]


def _how_many(examples: Sequence[Example], options: UnanswerableOptions) -> int:
    questions = {example.group for example in examples}
    unanswerable = len(questions) - len({example.group for example in examples if example.answers})
    missing = options.share * len(questions) - unanswerable
    return round(missing if options.replace else missing / (1 - options.share))


Maker = Callable[[Example, random.Random], Example | None]


@dataclass(frozen=True)
class Known:
    """What all examples together tell: which words are names, and which texts there are."""

    names: frozenset[str]
    library: Library

    @classmethod
    def of(cls, examples: Sequence[Example]) -> Known:
        return cls(known_names(dict.fromkeys(example.context for example in examples)), Library(examples))


def _makers(known: Known) -> dict[Way, Maker]:
    return {
        "entity": lambda example, draw: swap_entity(example, draw, known.names),
        "antonym": swap_antonym,
        "number": change_number,
        "paragraph": lambda example, _: other_paragraph(example, known.library, known.names),
        "negation": negate,
    }


# Another question


def swap_entity(example: Example, draw: random.Random, known: frozenset[str] = frozenset()) -> Example | None:
    """A name of the question that stands in the text becomes another of its kind from other sentences of the text."""
    found = _entities(example.context, known)
    pool = _apart_from_the_answer(example, found)
    choices = []
    for old, place in _in_question(example.question, found):
        if _in_answers(old.text, example) or _part_of_the_title(old.text, example):
            continue
        others = (new for new in pool if _kindred(old, new) and not _same_thing(old.text, new.text))
        choices += [(place, old, new) for new in others if _is_new(new.text, example)]
    draw.shuffle(choices)
    for place, old, new in choices:
        if not _speaks_of_it(example, old, new):
            return _asked(example, _replaced(example.question, place, new.text), "entity")
    return None


def swap_antonym(example: Example, draw: random.Random) -> Example | None:
    """A word of the question becomes its opposite, which the text does not use. A question that denies something stays."""
    if _NEGATED.search(example.question):
        return None
    text = _words(example.context)
    choices = []
    words = list(_WORD.finditer(example.question))
    for before, match in pairwise(words):
        word = match.group()
        if word not in ANTONYMS or before.group().lower() in _BEFORE_MEASURES:
            continue
        if word in _ALSO_VERBS and not _OWNED.search(before.group().lower()):  # how long did it last?
            continue
        new = [other for other in ANTONYMS[word] if not text & set(other.split())]
        if new and not _in_answers(word, example):
            choices.append((match.span(), draw.choice(new)))
    if not choices:
        return None
    place, other = draw.choice(choices)
    return _asked(example, _replaced(example.question, place, other), "antonym")


def change_number(example: Example, draw: random.Random) -> Example | None:
    """A number, year, decade or ordinal of the question becomes one that the text does not hold."""
    question = example.question
    text = _words(example.context)
    choices = []
    for entity in numerals(question):
        before = question[: entity.start].rstrip().lower()
        if entity.kind in ("month", "day") or _BOUND.search(before):
            continue
        if entity.text.lower() in ORDINALS and not _OWNED.search(before):  # when did it first begin?
            continue
        for _ in range(8):
            other = _other_number(entity, draw)
            if other is not None and not text & _forms(other) and other not in example.context:
                choices.append((entity, other))
                break
    if not choices:
        return None
    entity, other = draw.choice(choices)
    return _asked(example, question[: entity.start] + other + question[entity.end :], "number")


def negate(example: Example, _: random.Random) -> Example | None:
    """The verb near the beginning of the question is denied."""
    question = example.question
    match = _AUXILIARIES.search(question)
    if match is None or _NEGATED.search(question) or len(_WORD.findall(question[: match.start()])) not in range(1, 6):
        return None
    verb = match.group()
    denied = _CONTRACTED.get(verb.lower(), f"{verb.lower()}n't")
    return _asked(example, _replaced(question, match.span(), denied), "negation")


@lru_cache(maxsize=4096)  # several questions are asked about a text
def _entities(context: str, known: frozenset[str]) -> list[Entity]:
    return [*names(context, known), *(entity for entity in numerals(context) if entity.kind in ("month", "day"))]


@lru_cache(maxsize=4096)
def _words(context: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(context))


def _asked(example: Example, question: str, way: Way) -> Example:
    """Another question to the same text: it is a question of its own."""
    made = example.id + MARKS[way]
    return replace(example, id=made, group=made, question=question, answers=())


def _replaced(question: str, place: tuple[int, int], text: str) -> str:
    """The question with something else at a place, in the case of what stood there."""
    low, high = place
    old = question[low:high]
    if question == question.lower():
        text = text.lower()
    elif old[:1].isupper() and text[:1].islower():
        text = text[:1].upper() + text[1:]
    before = question[:low]
    if _ARTICLE.search(before):
        before = _ARTICLE.sub(r"\1n\2" if text[0].lower() in "aeiou" else r"\1\2", before)
    return before + text + question[high:]


def _in_question(question: str, found: Sequence[Entity]) -> list[tuple[Entity, tuple[int, int]]]:
    """The entities of the text that the question names, in whatever case, the longest of those at one place."""
    places: dict[tuple[int, int], Entity] = {}
    for entity in found:
        for match in re.finditer(rf"(?<!\w){re.escape(entity.text)}(?!\w)", question, re.IGNORECASE):
            places.setdefault(match.span(), entity)
    return [
        (entity, (low, high))
        for (low, high), entity in places.items()
        if not any(other != (low, high) and other[0] <= low and high <= other[1] for other in places)
    ]


def _apart_from_the_answer(example: Example, found: Sequence[Entity]) -> list[Entity]:
    """The entities that stand only in sentences that hold no answer, each text once."""
    spans = [(answer.start, answer.start + len(answer.text)) for answer in example.answers]
    near = [
        example.context[low:high].lower()
        for low, high in sentences(example.context)
        if any(start < high and low < end for start, end in spans)
    ]
    once = {entity.text.lower(): entity for entity in found}
    return [entity for text, entity in once.items() if not any(text in sentence for sentence in near)]


def _in_answers(text: str, example: Example) -> bool:
    squeezed = squeeze(text)
    return any(squeezed in squeeze(answer.text) or squeeze(answer.text) in squeezed for answer in example.answers)


def _is_new(text: str, example: Example) -> bool:
    """It is neither in the question already, nor in an answer, nor what the article is about."""
    squeezed = squeeze(text)
    if squeezed in squeeze(example.question) or _in_answers(text, example):
        return False
    return not set(_stems(text)) & set(_stems(example.article.replace("_", " ")))


def _part_of_the_title(text: str, example: Example) -> bool:
    """A word of a title that the question names as a whole, as in "To Kill a Mockingbird"."""
    title = squeeze(example.article)
    return squeeze(text) in title and squeeze(text) != title and title in squeeze(example.question)


def _kindred(old: Entity, new: Entity) -> bool:
    """Of the same kind, as far as the rules can tell: what is only known to be a name may be a person or a place."""
    unclear = ("name", "person", "place")
    return old.kind == new.kind or (old.kind in unclear and new.kind in unclear and "name" in (old.kind, new.kind))


def _same_thing(one: str, other: str) -> bool:
    """Names with words that begin alike, or of which one is the initials of the other."""
    initials = ["".join(word[0] for word in text.lower().split()) for text in (one, other)]
    plain = [squeeze(text) for text in (one, other)]
    beginnings = [{stem[:4] for stem in _stems(text)} for text in (one, other)]
    return bool(beginnings[0] & beginnings[1]) or initials[0] == plain[1] or initials[1] == plain[0]


def _speaks_of_it(example: Example, old: Entity, new: Entity) -> bool:
    """Do sentences with the new name hold much of what the question asks? Then they may answer it."""
    asked = set(_stems(example.question)) - set(_stems(old.text))
    if not asked:
        return True
    lowered = example.context.lower()
    places = [match.start() for match in re.finditer(re.escape(new.text.lower()), lowered)]
    said: set[str] = set()
    for low, high in sentences(example.context):
        if any(low <= place < high for place in places):
            said |= set(_stems(example.context[low:high]))
    return len(asked & said) > 0.34 * len(asked)


def _other_number(entity: Entity, draw: random.Random) -> str | None:
    text, lower = entity.text, entity.text.lower()
    for words in (ORDINALS, NUMBERS):
        if lower in words:
            other = draw.choice([word for word in words if word != lower])
            return other.capitalize() if text[0].isupper() else other
    digits = re.match(r"[\d,. ]*\d", text)
    if digits is None:
        return None
    figure, rest = digits.group(), text[digits.end() :]
    value = float(re.sub(r"[, ]", "", figure))
    if entity.kind == "year":
        return str(int(value) + (draw.choice((-1, 1)) if value < 1995 else -1) * draw.randint(2, 30))
    if entity.kind == "decade":
        return f"{int(value) + draw.choice((-30, -20, -10, 10, 20))}s"
    if entity.kind == "ordinal":
        return _ordinal(max(1, int(value) + draw.choice((-3, -2, -1, 1, 2, 3, 4))))
    if "." in figure:
        return f"{value * draw.uniform(1.2, 3):.{len(figure.rpartition('.')[2])}f}{rest}"
    new = int(value) + draw.randint(1, 9) if value < 20 else round(value * draw.uniform(1.2, 3))
    return (f"{new:,}".replace(",", " , " if " , " in figure else ",") if "," in figure else str(new)) + rest


def _forms(number: str) -> frozenset[str]:
    """A number as texts may write it.

    >>> sorted(_forms("third")), sorted(_forms("1944"))
    (['3', '3rd', 'third', 'three'], ['1944'])
    """
    lower = number.lower()
    for value, (ordinal, cardinal) in enumerate(zip_longest(ORDINALS, ("one", *NUMBERS), fillvalue=""), 1):
        forms = {ordinal, cardinal, str(value), _ordinal(value)}
        if lower in forms:
            return frozenset(forms - {""})
    return frozenset({lower})


def _ordinal(number: int) -> str:
    """
    >>> _ordinal(3), _ordinal(12), _ordinal(21)
    ('3rd', '12th', '21st')
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


# Another text


@dataclass(frozen=True)
class Text:
    """A text of the library: of which article it is, what it says, and that without spaces and marks."""

    context: str
    article: str
    stems: frozenset[str]
    squeezed: str

    def tells(self, answer: str) -> bool:
        """Does it hold the answer, however it is spelled, or more than half of its words?"""
        words = set(_stems(answer))
        return squeeze(answer) in self.squeezed or len(words & self.stems) > 0.5 * max(1, len(words))


class Library:
    """All texts of the data, to find those that share rare words with a question."""

    def __init__(self, examples: Sequence[Example]) -> None:
        articles = {example.context: example.article for example in reversed(examples)}
        self._texts = [
            Text(context, article, frozenset(_stems(context)), squeeze(context)) for context, article in articles.items()
        ]
        self._given: defaultdict[str, set[str]] = defaultdict(set)  # the contexts that a question has already
        for example in examples:
            self._given[example.group].add(example.context)
        self._holding: defaultdict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(self._texts):
            for stem in text.stems:
                self._holding[stem].append(number)

    def alike(self, example: Example) -> Text | None:
        """The text most like what is asked that does not answer it: of the same article if there is one, else of any."""
        asked = {stem: self._rarity(stem) for stem in set(_stems(example.question))}
        total = sum(asked.values())
        if len(asked) < _WORDS_TO_TELL:
            return None
        scores: defaultdict[int, float] = defaultdict(float)
        common = max(50, _COMMON * len(self._texts))
        for stem, rarity in asked.items():
            holding = self._holding.get(stem, [])
            if len(holding) <= common:
                for number in holding:
                    scores[number] += rarity
        own = frozenset(_stems(example.context))
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
        """As in BM25: what few texts hold weighs more."""
        holding = len(self._holding.get(stem, []))
        return math.log(1 + (len(self._texts) - holding + 0.5) / (holding + 0.5))


def other_paragraph(example: Example, library: Library, known: Collection[str] = ()) -> Example | None:
    """The same question, put to a text that looks as if it might answer it. A question without a name or a number stays: what
    it asks may be told of something else there."""
    text = library.alike(example) if _names_something(example.question, known) else None
    if text is None:
        return None
    made = example.id + MARKS["paragraph"]
    return replace(example, id=made, context=text.context, answers=(), article=text.article)


def _names_something(question: str, known: Collection[str]) -> bool:
    """Has it a capital behind its first word, a figure, or a known name? Scripts without capitals do not tell."""
    rest = _WORD.findall(question)[1:]
    if question.lower() == question.upper():
        return True
    return any(word[0].isupper() or word[0].isdigit() or word.lower() in known for word in rest)


# Texts, roughly


def squeeze(text: str) -> str:
    """Letters and digits only, in lower case: the same for "9,800 pages" and "9 , 800 pages".

    >>> squeeze("U.S. - based")
    'usbased'
    """
    return "".join(filter(str.isalnum, text.lower()))


def _stems(text: str) -> list[str]:
    """The words that carry meaning, cut to their beginnings, so that forms of a word are alike."""
    words = (re.sub(r"['’]s?$|(?<=\w\w)s$", "", word) for word in _WORD.findall(text.lower()) if word not in _FUNCTION_WORDS)
    return [word[:5] for word in words if len(word) > 1]
