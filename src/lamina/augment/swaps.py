"""Make unanswerable questions by replacing a name, a word or a number of a question, or by negating it."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, zip_longest
from typing import Final

from lamina.augment.antonyms import ANTONYMS
from lamina.augment.entities import NUMBERS, ORDINALS, Entity, names, numerals, sentence_spans
from lamina.augment.synthetic import WORD, letters_and_digits, stems, synthetic_from, words_of
from lamina.data.examples import Example

_BOUND: Final = re.compile(
    r"\b(?:(?:after|before|since|by|until|over|under|than|prior to)(?: \w+)?|least|most|between|and|to|about|almost|nearly)$"
)
_OWNED: Final = re.compile(r"(?:\b(?:the|a|his|her|its|their|what|which)|['’]s?)$")
_ARTICLE: Final = re.compile(r"\b([Aa])n?( +)$")
_NEGATED: Final = re.compile(r"\b(?:not|never|no|none|nobody|nothing|without|except|besides)\b|n't\b", re.IGNORECASE)
_AUXILIARIES: Final = re.compile(
    r"\b(is|are|was|were|do|does|did|has|have|had|could|would|should|can|will)\b(?! n't)", re.IGNORECASE
)
_CONTRACTED: Final = {"can": "can't", "will": "won't"}
_UNITS: Final = (
    r"(?:years?|months?|weeks?|days?|hours?|feet|foot|inch(?:es)?|yards?|miles?|(?:kilo|centi|milli)?met(?:er|re)s?)"
)
# "how long" and "ten feet tall" have the same answer as "how short" and "ten feet short"
_MEASURED: Final = re.compile(rf"\b(?:how|so|as|{_UNITS})(?: \w+ly)? +$", re.IGNORECASE)
_BEFORE_A_NAME: Final = re.compile(r" +[A-ZÀ-ÖØ-ÞŠŽŁ]")
_LARGEST: Final = 1e15  # longer runs of digits are no amount
_ALSO_VERBS: Final = ("last", "close", "open", "lower", "cool", "slow", "light", "cause", "causes")
_IRREGULAR: Final = ("little less lesser least few fewer fewest", "many more most", "good better best", "bad worse worst")
_FORMS: Final = {word: frozenset(forms.split()) for forms in _IRREGULAR for word in forms.split()}


def swap_entity(example: Example, draw: random.Random, known: frozenset[str] = frozenset()) -> Example | None:
    """Return the question with a name of the text replaced by another of its kind from other sentences, or None."""
    found = _entities(example.context, known)
    pool = _apart_from_the_answer(example, found)
    choices = []
    for old, place in _in_question(example.question, found):
        if _in_answers(old.text, example) or _part_of_the_title(old.text, example):
            continue
        longer = " | ".join(entity.text for entity in found if old.text in entity.text)  # such as "Kingdom of Portugal"
        others = (new for new in pool if _kindred(old, new) and not _same_thing(old.text, new.text) and new.text not in longer)
        choices += [(place, old, new) for new in others if _is_new(new.text, example)]
    draw.shuffle(choices)
    for place, old, new in choices:
        if not _may_answer(example, old, new):
            return synthetic_from(example, "entity", question=_replaced(example.question, place, new.text))
    return None


def swap_antonym(example: Example, draw: random.Random) -> Example | None:
    """Return the question with a word replaced by an opposite, or None.

    The text must have the word and none of its opposites, in any form: else it does not contradict the new question, or
    answers it. The same holds for both sides of a comparison. A word before a name stays: it often only describes it, as in
    "the old London". A question with a negation gives None.
    """
    question, context = example.question, example.context
    if _NEGATED.search(question):
        return None
    choices = []
    for before, match in pairwise(WORD.finditer(question)):
        word = match.group()
        if word not in ANTONYMS or _MEASURED.search(question[: match.start()]) or _BEFORE_A_NAME.match(question, match.end()):
            continue
        if word in _ALSO_VERBS and not _OWNED.search(before.group().lower()):  # how long did it last?
            continue
        if not _stated(word, context) or any(_stated(other, context) for other in ANTONYMS[word]):
            continue
        if not _compared(word, context) and not _in_answers(word, example):
            choices.append((match.span(), draw.choice(ANTONYMS[word])))
    if not choices:
        return None
    place, other = draw.choice(choices)
    return synthetic_from(example, "antonym", question=_replaced(example.question, place, other))


def change_number(example: Example, draw: random.Random) -> Example | None:
    """Return the question with a number, year, decade or ordinal of the text replaced by one that is not in it, or None.

    A number that the text does not have stays: the text answers the question without it.
    """
    question = example.question
    text = words_of(example.context)
    choices = []
    for entity in numerals(question):
        before = question[: entity.start].rstrip().lower()
        if entity.kind in ("month", "day") or _BOUND.search(before):
            continue
        if text.isdisjoint(_forms(entity.text)) and entity.text not in example.context:
            continue
        if entity.text.lower() in ORDINALS and not _OWNED.search(before):  # when did it first begin?
            continue
        for _ in range(8):
            other = _other_number(entity, draw)
            if other is not None and other != entity.text and not text & _forms(other) and other not in example.context:
                choices.append((entity, other))
                break
    if not choices:
        return None
    entity, other = draw.choice(choices)
    return synthetic_from(example, "number", question=question[: entity.start] + other + question[entity.end :])


def negate(example: Example, _: random.Random) -> Example | None:
    """Return the question with the first auxiliary verb negated, or None."""
    question = example.question
    match = _AUXILIARIES.search(question)
    if match is None or _NEGATED.search(question) or len(WORD.findall(question[: match.start()])) not in range(1, 6):
        return None
    verb = match.group()
    denied = _CONTRACTED.get(verb.lower(), f"{verb.lower()}n't")
    return synthetic_from(example, "negation", question=_replaced(question, match.span(), denied))


@lru_cache(maxsize=4096)  # a text has several questions
def _entities(context: str, known: frozenset[str]) -> list[Entity]:
    return [*names(context, known), *(entity for entity in numerals(context) if entity.kind in ("month", "day"))]


def _stated(words: str, context: str) -> bool:
    """Return whether the text has one of the words, or another form of it.

    >>> _stated("large", "It uses larger stones."), _stated("reduced", "It reduces pain."), _stated("after", "It is late.")
    (True, True, False)
    """
    forms = {form for word in words.split() for form in _FORMS.get(word, {word})}
    return not words_of(context).isdisjoint(forms) or not _stems_of(context).isdisjoint(stems(words))


def _compared(word: str, context: str) -> bool:
    """Return whether the text compares two things by a word: "A is thicker than B"."""
    return re.search(rf"\b{word}\b[^.!?]*\bthan\b", context, re.IGNORECASE) is not None


@lru_cache(maxsize=4096)  # a text has several questions
def _stems_of(text: str) -> frozenset[str]:
    return frozenset(stems(text))


def _replaced(question: str, place: tuple[int, int], text: str) -> str:
    """Return the question with `text` at a place, with the capital of the replaced text and the right article before it."""
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
    """Return the entities of the text that are in the question, in any case, and their places. The longest one wins."""
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
    """Return the entities that no sentence with an answer has, nor its neighbours, each text once.

    An answer counts in every place of the text.
    """
    places = [(answer.start, answer.start + len(answer.text)) for answer in example.answers]
    texts = [answer.text.lower() for answer in example.answers]
    spans = sentence_spans(example.context)
    sentences = [example.context[low:high].lower() for low, high in spans]
    answers = {
        number
        for number, ((low, high), sentence) in enumerate(zip(spans, sentences, strict=True))
        if any(start < high and low < end for start, end in places) or any(text in sentence for text in texts)
    }
    near = [sentence for number, sentence in enumerate(sentences) if answers & {number - 1, number, number + 1}]
    once = {entity.text.lower(): entity for entity in found}
    return [entity for text, entity in once.items() if not any(text in sentence for sentence in near)]


def _in_answers(text: str, example: Example) -> bool:
    letters = letters_and_digits(text)
    return any(
        letters in letters_and_digits(answer.text) or letters_and_digits(answer.text) in letters for answer in example.answers
    )


def _is_new(text: str, example: Example) -> bool:
    """Return whether the text is not in an answer, and shares no word with the question or the title of the article."""
    letters = letters_and_digits(text)
    if letters in letters_and_digits(example.question) or _in_answers(text, example):
        return False
    return _stems_of(text).isdisjoint(stems(f"{example.question} {example.article.replace('_', ' ')}"))


def _part_of_the_title(text: str, example: Example) -> bool:
    """Return whether the text is a part of a title that the question has in full, such as "To Kill a Mockingbird"."""
    title = letters_and_digits(example.article)
    return (
        letters_and_digits(text) in title
        and letters_and_digits(text) != title
        and title in letters_and_digits(example.question)
    )


def _kindred(old: Entity, new: Entity) -> bool:
    """Return whether two entities may be of the same kind. A "name" may be a person or a place."""
    unclear = ("name", "person", "place")
    return old.kind == new.kind or (old.kind in unclear and new.kind in unclear and "name" in (old.kind, new.kind))


def _same_thing(one: str, other: str) -> bool:
    """Return whether two names share the beginning of a word, or one is the initials of the other.

    >>> _same_thing("Rome", "Roman law"), _same_thing("United Nations", "UN"), _same_thing("Rome", "Ravenna")
    (True, True, False)
    """
    initials = ["".join(word[0] for word in text.lower().split()) for text in (one, other)]
    plain = [letters_and_digits(text) for text in (one, other)]
    alike = any(
        first.startswith(second[: _beginning(second)]) or second.startswith(first[: _beginning(first)])
        for first in stems(one)
        for second in stems(other)
    )
    return alike or initials[0] == plain[1] or initials[1] == plain[0]


def _beginning(word: str) -> int:
    """Return how many first letters other forms of a word share: 4, and 3 of a short word such as Rome."""
    return 4 if len(word) > 4 else 3


def _may_answer(example: Example, old: Entity, new: Entity) -> bool:
    """Return whether the sentences with the new name share so many words with the question that they may answer it."""
    asked = set(stems(example.question)) - set(stems(old.text))
    if not asked:
        return True
    lowered = example.context.lower()
    places = [match.start() for match in re.finditer(re.escape(new.text.lower()), lowered)]
    stated: set[str] = set()
    for low, high in sentence_spans(example.context):
        if any(low <= place < high for place in places):
            stated |= set(stems(example.context[low:high]))
    return len(asked & stated) > 0.34 * len(asked)


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
    if value > _LARGEST:
        return None
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
    """Return a number in all forms that a text may have.

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
    """Return the ordinal of a number.

    >>> _ordinal(3), _ordinal(12), _ordinal(21)
    ('3rd', '12th', '21st')
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
