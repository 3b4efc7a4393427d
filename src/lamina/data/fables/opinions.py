"""Opinions about things in the fables: sentences of five degrees of praise, 0 (worst) to 4 (best).

A single word does not decide the degree. It may be denied, intensified, contrasted, or the opinion of other people; only the
opinion of the writer counts. The splits share about two thirds of the words of praise, and no template.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from lamina.data.fables.kinds import KINDS
from lamina.data.fables.names import Split
from lamina.data.fables.values import FreshValues

DEGREES: Final = 5


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Words by their value, from -2 to 2: those of both splits, and those of one split.
SHARED: Final[dict[int, tuple[str, ...]]] = {
    2: _words("wonderful superb magnificent brilliant delightful splendid"),
    1: _words("good pleasant enjoyable decent likeable agreeable"),
    0: _words("average ordinary unremarkable passable"),
    -1: _words("dull weak disappointing poor tedious clumsy"),
    -2: _words("dreadful horrible appalling terrible awful atrocious"),
}
OWN: Final[dict[Split, dict[int, tuple[str, ...]]]] = {
    "train": {
        2: _words("marvellous glorious enchanting"),
        1: _words("charming nice worthwhile"),
        0: _words("commonplace middling"),
        -1: _words("bland tiresome shabby"),
        -2: _words("abysmal miserable disgraceful"),
    },
    "dev": {
        2: _words("exquisite dazzling breathtaking"),
        1: _words("satisfying appealing commendable"),
        0: _words("unexceptional tolerable"),
        -1: _words("uninspired feeble lacklustre"),
        -2: _words("ghastly dire wretched"),
    },
}

# Aspects that are judged, and how a thing of that kind has them.
ASPECTS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "books": ("of", _words("plot ending preface binding")),
    "festivals": ("at", _words("music food procession dancing")),
    "ships": ("on", _words("service crew cooking bedding")),
    "towers": ("in", _words("staircase tour garden library")),
    "engines": ("of", _words("design finish manual noise")),
    "towns": ("in", _words("market inn bathhouse welcome")),
}


@dataclass(frozen=True, slots=True)
class Phrases:
    """Templates. ``{t}`` is the judged aspect, ``{u}`` another aspect, ``{a}`` and ``{b}`` are words of praise or blame.

    ``{n}`` is the whole thing. ``{town}`` and ``{person}`` are mentions without meaning for the degree.
    """

    plain: tuple[str, ...]  # the value of the word
    raised: tuple[str, ...]  # a mild word, intensified
    denied: tuple[str, ...]  # a mild value of the opposite sign
    mixed: tuple[str, ...]  # the middle of two values
    overruled: tuple[str, ...]  # others say {a}, the writer says {b}
    neutral: tuple[str, ...]  # no opinion at all


PHRASES: Final[dict[Split, Phrases]] = {
    "train": Phrases(
        plain=(
            "We all agreed that {t} was {a}.",
            "In my honest opinion {t} is {a}.",
            "{t} was {a}, from the first minute to the last.",
            "My aunt and I thought {t} {a}.",
            "After two days in the rain we found {t} {a}.",
            "To put it in one word, {t} is {a}.",
        ),
        raised=(
            "We all agreed that {t} was extremely {a}.",
            "{t} turned out to be remarkably {a}.",
            "I have seldom seen anything as {a} as {t}.",
            "{t} was so {a} that we spoke of nothing else all week.",
        ),
        denied=(
            "{t} was by no means {a}.",
            "I would not call {t} {a}, whatever the posters claim.",
            "There was nothing {a} about {t}.",
            "Far from being {a}, {t} surprised the whole company.",
        ),
        mixed=(
            "{t} was {a}, but {u} was {b}.",
            "While {t} was {a}, {u} was {b}.",
            "I found {t} {a} and {u} {b}.",
            "We thought {t} {a}; on the other hand {u} was {b}.",
        ),
        overruled=(
            "Everybody had called {t} {a}, but I found it {b}.",
            "The guidebook says that {t} is {a}; in truth it is {b}.",
            "I had expected {t} to be {a}, and it was {b}.",
            "{person} thinks {t} {a}, yet to me it was simply {b}.",
        ),
        neutral=(
            "{person} wrote to us about {t} at the end of the month.",
            "We came from {town} by coach to see {n}.",
            "Tickets for {n} are sold at the gate in {town}.",
            "{t} is mentioned twice in the letters of {person}.",
        ),
    ),
    "dev": Phrases(
        plain=(
            "As far as I can judge, {t} was {a}.",
            "Anyone who travels this way will find {t} {a}.",
            "My companions considered {t} {a} and said so loudly.",
            "{t} struck me as {a}.",
        ),
        raised=(
            "Every guest found {t} exceedingly {a}.",
            "How {a} {t} was, beyond all measure!",
            "{t} was more than {a}, as the whole table noticed.",
        ),
        denied=(
            "{t} was in no way {a}.",
            "Nobody in our party thought {t} {a}.",
            "{t} was anything but {a}, I must say.",
        ),
        mixed=(
            "Although {t} was {a}, {u} struck me as {b}.",
            "{t} proved {a}, whereas {u} proved {b}.",
            "I remember {t} as {a}, and I remember {u} as {b}.",
        ),
        overruled=(
            "My brother describes {t} as {a}, which is wrong: it is {b}.",
            "Friends in {town} speak of {t} as {a}; we thought it {b}.",
            "{t} has the name of being {a}, though for us it was {b}.",
        ),
        neutral=(
            "There is a paragraph on {t} in the almanac of {person}.",
            "{n} can be reached on foot from {town} before noon.",
            "Last spring {person} made a drawing of {n}.",
        ),
    ),
}

# Degree -> its expressions: the name of the templates and the values of the words in them.
WAYS: Final[dict[int, tuple[tuple[str, tuple[int, ...]], ...]]] = {
    0: (("plain", (-2,)), ("raised", (-1,)), ("overruled", (2, -2)), ("overruled", (1, -2))),
    1: (("plain", (-1,)), ("denied", (2,)), ("denied", (1,)), ("mixed", (-2, 1)), ("mixed", (1, -2)), ("overruled", (2, -1))),
    2: (("plain", (0,)), ("neutral", ()), ("mixed", (2, -2)), ("mixed", (-2, 2)), ("mixed", (1, -1)), ("mixed", (-1, 1))),
    3: (("plain", (1,)), ("denied", (-1,)), ("denied", (-1,)), ("mixed", (2, -1)), ("mixed", (-1, 2)), ("overruled", (-2, 1))),
    4: (("plain", (2,)), ("raised", (1,)), ("overruled", (-2, 2)), ("overruled", (-1, 2))),
}


def opinion(degree: int, rng: random.Random, split: Split) -> str:
    """Return a sentence of a degree of praise."""
    source = FreshValues(rng, split)
    kind = rng.choice([kind for kind in KINDS if kind.name in ASPECTS])
    name = kind.naming(source).name
    joint, aspects = ASPECTS[kind.name]
    first, second = rng.sample(aspects, 2)
    way, levels = rng.choice(WAYS[degree])
    words = [rng.choice(SHARED[level] + OWN[split][level]) for level in levels]
    template = rng.choice(getattr(PHRASES[split], way))
    text = template.format(
        t=f"the {first} {joint} {name}",
        u=f"the {second}",
        n=name,
        a=words[0] if words else "",
        b=words[1] if len(words) > 1 else "",
        town=source.town(),
        person=source.person(),
    )
    return str(text[0].upper() + text[1:])
