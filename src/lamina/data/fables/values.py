"""The values of facts: a source of names and numbers without repeats, and functions that draw from it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from lamina.data.fables.names import LEXICONS, Lexicon, Split


@dataclass(frozen=True, slots=True)
class Value:
    """The text of a value in its sentence, and shorter forms that are right answers too."""

    text: str
    alternatives: tuple[str, ...] = ()
    person: bool = False


@dataclass(slots=True)
class FreshValues:
    """A random source for one article. It draws nothing twice, so no two facts share a value."""

    rng: random.Random
    split: Split
    used: list[str] = field(default_factory=list)
    base: int = 1400

    @property
    def lexicon(self) -> Lexicon:
        return LEXICONS[self.split]

    def fresh(self, draw: Callable[[], str]) -> str:
        """Return the first draw that is new; after many attempts, a repeat."""
        text = draw()
        for _ in range(50):
            if text not in self.used:
                break
            text = draw()
        self.used.append(text)
        return text

    def fresh_of(self, options: Sequence[str]) -> str:
        """Return a random option, if possible one that was not taken before."""
        text = self.rng.choice([option for option in options if option not in self.used] or options)
        self.used.append(text)
        return text

    def joined(self, heads: tuple[str, ...], tails: tuple[str, ...]) -> str:
        """Return a head and a tail, joined. The head ends neither with the tail nor with its first letter."""
        head = self.fresh_of(heads)
        fitting = [tail for tail in tails if tail[0] != head[-1] and not head.lower().endswith(tail)]
        return head + self.rng.choice(fitting)

    def surname(self) -> str:
        return self.fresh(lambda: self.joined(self.lexicon.surname_heads, self.lexicon.surname_tails))

    def town(self) -> str:
        return self.fresh(lambda: self.joined(self.lexicon.town_heads, self.lexicon.town_tails))

    def river(self) -> str:
        return self.fresh(lambda: self.joined(self.lexicon.river_heads, self.lexicon.river_tails))

    def person(self) -> str:
        first = self.fresh(lambda: self.rng.choice(self.lexicon.men + self.lexicon.women))
        return f"{first} {self.surname()}"

    def year(self, low: int = 90, high: int = 260) -> str:
        return self.fresh(lambda: str(self.base + self.rng.randint(low, high)))


ValueDraw = Callable[[FreshValues], Value]


def _bare(text: str) -> tuple[str, ...]:
    """Return the text without its article, or nothing if it has none."""
    for article in ("a ", "an ", "the "):
        if text.startswith(article):
            return (text[len(article) :],)
    return ()


def town(source: FreshValues) -> Value:
    return Value(source.town())


def river(source: FreshValues) -> Value:
    name = source.river()
    return Value(f"the {name}", (name,))


def _named(forms: tuple[str, ...]) -> ValueDraw:
    """Return a draw of landmarks: one of the forms with a synthetic name in it."""

    def draw(source: FreshValues) -> Value:
        text = source.rng.choice(forms).format(source.surname())
        return Value(text, _bare(text))

    return draw


hills: Final = _named(("the {} Hills", "the {} Moors", "the {} Downs", "the {} Woods", "the heights of {}"))
waters: Final = _named(("Lake {}", "the Bay of {}", "the Gulf of {}", "the {} Sea", "the {} Lagoon", "the Sound of {}"))


def languages(source: FreshValues) -> Value:
    """Return two languages, such as ``Lorverish and Old Tanethish``."""
    first, second = (source.river().removesuffix("e") for _ in range(2))
    return Value(f"{first}ish and Old {second}ish")


def person(source: FreshValues) -> Value:
    return Value(source.person(), person=True)


def year(low: int, high: int) -> ValueDraw:
    """Return a draw of years, `low` to `high` years after the birth of the entity."""
    return lambda source: Value(source.year(low, high))


def month(source: FreshValues) -> Value:
    months = "January February March April May June July August September October November December"
    return Value(source.fresh(lambda: source.rng.choice(months.split())))


def count(low: int, high: int, unit: str = "", *, step: int = 1) -> ValueDraw:
    """Return a draw of numbers with a unit, such as ``1,200 sheep``; the number alone is right too."""

    def draw(source: FreshValues) -> Value:
        number = source.fresh(lambda: f"{source.rng.randrange(low, high + 1, step):,}")
        return Value(f"{number} {unit}", (number,)) if unit else Value(number)

    return draw


def pick(*options: str) -> ValueDraw:
    """Return a draw of one option. The shorter form of an option leaves out its article."""

    def draw(source: FreshValues) -> Value:
        text = source.fresh(lambda: source.rng.choice(options))
        return Value(text, _bare(text))

    return draw


def listing(size: int, *options: str) -> ValueDraw:
    """Return a draw of several options, such as ``copper, wool and salted fish``."""

    def draw(source: FreshValues) -> Value:
        chosen = [source.fresh(lambda: source.rng.choice(options)) for _ in range(size)]
        while len(set(chosen)) < size:
            chosen = source.rng.sample(options, size)
        return Value(f"{', '.join(chosen[:-1])} and {chosen[-1]}")

    return draw
