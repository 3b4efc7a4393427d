"""Sentences that state facts of the fables, and pairs of sentences that share some or all facts.

The facts of a pair decide what it shares, not its words. Different templates state the same fact. The same templates state
different facts, with swapped values, another number or the opposite relation.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from lamina.data.fables.engine import mention
from lamina.data.fables.kinds import KINDS
from lamina.data.fables.names import Split
from lamina.data.fables.schema import ArticleKind, Naming, Relation
from lamina.data.fables.values import FreshValues

# How much each shared element of two statements adds to their similarity of at most 5.
KIND, NAME, RELATIONS, VALUES = 1.0, 1.6, 1.2, 1.2
STEP: Final = 0.2

FRAMES: Final[dict[Split, tuple[str, ...]]] = {
    "train": (
        "{}",
        "{}",
        "It is well known that {}",
        "As the old books have it, {}",
        "Travellers report that {}",
        "In the words of the chronicle, {}",
    ),
    "dev": ("{}", "{}", "Learned people hold that {}", "According to the almanac, {}", "Every child can tell you that {}"),
}
_SLOT: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Fact:
    """A relation and its value."""

    relation: Relation
    value: str


@dataclass(frozen=True, slots=True)
class Statement:
    """One or two facts about one thing."""

    kind: ArticleKind
    naming: Naming
    facts: tuple[Fact, ...]

    @property
    def relations(self) -> set[str]:
        return {fact.relation.name for fact in self.facts}

    @property
    def values(self) -> set[tuple[str, str]]:
        return {(fact.relation.name, fact.value) for fact in self.facts}


def statement(source: FreshValues, facts: int, *, unlike: ArticleKind | None = None) -> Statement:
    """Return a statement with some facts about a new thing, of another kind than `unlike`."""
    kind = source.rng.choice([kind for kind in KINDS if kind is not unlike])
    source.base = source.rng.randint(1100, 1650)
    return Statement(kind, kind.naming(source), _facts(kind, source, facts))


def _facts(kind: ArticleKind, source: FreshValues, count: int, *, without: frozenset[str] = frozenset()) -> tuple[Fact, ...]:
    relations = source.rng.sample([relation for relation in kind.relations if relation.name not in without], count)
    return tuple(_fact(relation, source) for relation in relations)


def _fact(relation: Relation, source: FreshValues) -> Fact:
    return Fact(relation, relation.value(source).text)


def opposed(source: FreshValues) -> Statement:
    """Return a statement of two facts that are easily confused, such as who won and who lost."""
    kind = source.rng.choice([kind for kind in KINDS if any(relation.opposite for relation in kind.relations)])
    source.base = source.rng.randint(1100, 1650)
    relation = source.rng.choice([relation for relation in kind.relations if relation.opposite])
    other = kind.relation(relation.opposite or "")
    return Statement(kind, kind.naming(source), (_fact(relation, source), _fact(other, source)))


# Changed statements


def renamed(given: Statement, source: FreshValues) -> Statement:
    return replace(given, naming=given.kind.naming(source))


def revalued(given: Statement, source: FreshValues) -> Statement:
    """Return the statement with one value changed."""
    place = source.rng.randrange(len(given.facts))
    old = given.facts[place]
    fact = _fact(old.relation, source)
    for _ in range(20):
        if fact.value != old.value:
            break
        fact = _fact(old.relation, source)
    return replace(given, facts=(*given.facts[:place], fact, *given.facts[place + 1 :]))


def swapped(given: Statement) -> Statement:
    """Return the statement with the values of its two facts exchanged."""
    first, second = given.facts
    return replace(given, facts=(replace(first, value=second.value), replace(second, value=first.value)))


def turned(given: Statement, source: FreshValues) -> Statement:
    """Return the statement with the opposite of its first fact that has one, and the same value; else with another fact."""
    for place, fact in enumerate(given.facts):
        if fact.relation.opposite and fact.relation.opposite not in given.relations:
            other = replace(fact, relation=given.kind.relation(fact.relation.opposite))
            return replace(given, facts=(*given.facts[:place], other, *given.facts[place + 1 :]))
    return with_other_facts(given, source, keep=len(given.facts) - 1)


def with_other_facts(given: Statement, source: FreshValues, *, keep: int) -> Statement:
    """Return the statement with `keep` of its facts, and other relations for the rest."""
    fresh = _facts(given.kind, source, len(given.facts) - keep, without=frozenset(given.relations))
    return replace(given, facts=given.facts[:keep] + fresh)


# Sentences


def tell(given: Statement, source: FreshValues, *, plans: Sequence[str] = ()) -> tuple[str, tuple[str, ...]]:
    """Return a sentence of the facts, and its templates. They are not among `plans` if there are others."""
    chosen = tuple(_plan(fact.relation, source, plans) for fact in given.facts)
    return tell_by(given, chosen, source), chosen


def tell_by(given: Statement, plans: Sequence[str], source: FreshValues) -> str:
    """Return a sentence of the facts by these templates, one a fact."""
    clauses = [
        _fill(plan, given.naming, fact.value, first=place == 0)
        for place, (plan, fact) in enumerate(zip(plans, given.facts, strict=True))
    ]
    frame = source.rng.choice(FRAMES[source.split])
    text = frame.format(", and ".join(clauses)) + "."
    return text[0].upper() + text[1:]


def _plan(relation: Relation, source: FreshValues, plans: Sequence[str]) -> str:
    usable = [plan for plan in relation.plans(source.split) if set(_SLOT.findall(plan)) <= set("spov")]
    return source.rng.choice([plan for plan in usable if plan not in plans] or usable)


def _fill(plan: str, naming: Naming, value: str, *, first: bool) -> str:
    """Return a clause without its full stop. The thing has its name at first, then a noun or a pronoun."""
    named = not first

    def slot(match: re.Match[str]) -> str:
        nonlocal named
        if match.group(1) == "v":
            return value
        call, named = ("pronoun" if match.group(1) == "p" else "noun") if named else "name", True
        return mention(naming, match.group(1), call)

    lower = plan if plan.startswith("{") else plan[0].lower() + plan[1:]
    return _SLOT.sub(slot, lower).removesuffix(".")


# Pairs


def paraphrase_pair(same: bool, rng: random.Random, split: Split) -> tuple[str, str]:
    """Return two sentences that state the same facts, or that only look alike."""
    source = FreshValues(rng, split)
    one = opposed(source) if rng.random() < 0.4 else statement(source, 1)
    first, plans = tell(one, source)
    if same:
        again = plans if rng.random() < 0.25 else ()
        return first, tell_by(one, again, source) if again else tell(one, source, plans=plans)[0]
    other = _lookalike(one, source)
    if other.relations == one.relations and rng.random() < 0.4:
        return first, tell_by(other, plans, source)
    return first, tell(other, source, plans=plans)[0]


def _lookalike(one: Statement, source: FreshValues) -> Statement:
    """Return another statement, mostly of nearly the same words, sometimes only of the same thing or relations."""
    if source.rng.random() < 0.3:
        again = with_other_facts(one, source, keep=0)
        return again if source.rng.random() < 0.5 else renamed(revalued(one, source), source)
    turns = 0.35 if len(one.facts) == 1 and one.facts[0].relation.opposite else 0.0
    chance = source.rng.random()
    if chance < turns:
        return turned(one, source)
    if len(one.facts) == 2 and chance < 0.6:
        return swapped(one)
    return revalued(one, source) if chance < 0.8 else renamed(one, source)


def similar_pair(rng: random.Random, split: Split) -> tuple[str, str, float]:
    """Return two sentences and their similarity, 0 to 5."""
    source = FreshValues(rng, split)
    facts = rng.choice((1, 2))
    one = opposed(source) if facts == 2 and rng.random() < 0.4 else statement(source, facts)
    other = _relative(one, source)
    if len(other.facts) == 2 and rng.random() < 0.3:
        other = replace(other, facts=other.facts[:1])
    first, plans = tell(one, source)
    if other.relations <= one.relations and rng.random() < 0.25:
        second = tell_by(other, plans[: len(other.facts)], source)
    else:
        second = tell(other, source, plans=plans)[0]
    return first, second, similarity(one, other)


def _relative(one: Statement, source: FreshValues) -> Statement:
    """Return another statement of random similarity."""
    near = source.rng.random()
    if near < 0.14:
        return one
    if near < 0.3:
        return revalued(one, source)
    if near < 0.4:
        return turned(one, source)
    if near < 0.5:
        return with_other_facts(one, source, keep=len(one.facts) - 1)
    if near < 0.56:
        return with_other_facts(one, source, keep=0)
    if near < 0.66:
        return renamed(one, source)
    if near < 0.76:
        return renamed(revalued(one, source), source)
    if near < 0.86:
        return renamed(with_other_facts(one, source, keep=0), source)
    return statement(source, len(one.facts), unlike=one.kind)


def similarity(one: Statement, other: Statement) -> float:
    """Return how much two statements share of kind, name, relations and values: 0 to 5 in steps of 0.2.

    A value counts only with its relation: the winner of one battle is not the loser of another.
    """
    if one.kind is not other.kind:
        return 0.0
    score = KIND + NAME * (one.naming == other.naming)
    score += RELATIONS * _shared(one.relations, other.relations) + VALUES * _shared(one.values, other.values)
    return round(round(score / STEP) * STEP, 1)


def _shared(one: AbstractSet[object], other: AbstractSet[object]) -> float:
    """Return the share of all elements that both sets have."""
    return 2 * len(one & other) / (len(one) + len(other))
