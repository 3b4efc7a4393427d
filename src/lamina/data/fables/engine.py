"""Entities -> paragraphs. A paragraph records every fact that it states, with its place."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from lamina.data.fables.names import Split
from lamina.data.fables.schema import ArticleKind, Naming, Relation
from lamina.data.fables.values import FreshValues, Value

MOST_WORDS: Final = 395
LEAST_WORDS: Final = 62

_SLOT: Final = re.compile(r"\{(\w+)\}")
_MENTIONS: Final = ("s", "p", "o")
_PREPOSITION: Final = re.compile(
    r"\b(of|on|in|to|about|between|after|during|at|from|for|with|before|under|over|into|by|without) $", re.IGNORECASE
)
_PASSING: Final = ("town", "person", "year", "d")


@dataclass(slots=True)
class FableEntity:
    """One person, river, ship … of the fables. `stated` lists the relations that the article has stated."""

    kind: ArticleKind
    naming: Naming
    base: int
    stated: list[str] = field(default_factory=list)

    def open_relations(self) -> list[Relation]:
        return [relation for relation in self.kind.relations if relation.name not in self.stated]


@dataclass(frozen=True, slots=True)
class StatedFact:
    """A fact that a paragraph states about an entity, with its place in the context."""

    entity: FableEntity
    relation: Relation
    text: str
    start: int
    alternatives: tuple[str, ...]


@dataclass(slots=True)
class Paragraph:
    """A context while it is written, with its entities in the order of their first mention."""

    source: FreshValues
    context: str = ""
    entities: list[FableEntity] = field(default_factory=list)
    facts: list[StatedFact] = field(default_factory=list)
    _subject: FableEntity | None = None
    _person_near: bool = False

    @property
    def split(self) -> Split:
        return self.source.split

    def words(self) -> int:
        return len(self.context.split())

    def states(self, entity: FableEntity, relation: str) -> bool:
        return any(fact.entity is entity and fact.relation.name == relation for fact in self.facts)

    def state(self, entity: FableEntity, relation: Relation) -> None:
        """Write a relation of the entity by one of its plans, which may state other relations too."""
        fitting = [plan for plan in relation.plans(self.split) if _extras(plan, entity.kind) <= _open(entity)]
        self.write(self.source.fresh_of(fitting), entity, relation=relation)

    def write(
        self, plan: str, entity: FableEntity, *, relation: Relation | None = None, other: FableEntity | None = None
    ) -> None:
        """Fill the slots of a plan and append it as a sentence."""
        call = self._reference(entity)
        sentence, spans, mentioned, person = "", [], False, False
        position = 0
        for slot in _SLOT.finditer(plan):
            sentence += plan[position : slot.start()]
            position, name = slot.end(), slot.group(1)
            if name in _MENTIONS:
                form = "pronoun" if mentioned else call
                if form == "pronoun" and name == "o" and _PREPOSITION.search(sentence):
                    form = "noun"
                sentence += mention(entity.naming, name, form)
                mentioned = True
                continue
            if name in _PASSING:
                text = other.naming.name if name == "d" and other else getattr(self.source, name)()
                sentence += text
                person |= name in ("person", "d")
                continue
            stated = relation if name == "v" and relation else entity.kind.relation(name)
            value = self._draw(entity, stated)
            spans.append((stated, value, len(sentence)))
            sentence += value.text
            person |= value.person
        sentence += plan[position:]
        sentence = sentence[0].upper() + sentence[1:]
        offset = len(self.context) + 1 if self.context else 0
        self.context = f"{self.context} {sentence}" if self.context else sentence
        for stated, value, start in spans:
            text = sentence[start : start + len(value.text)]
            self.facts.append(StatedFact(entity, stated, text, offset + start, value.alternatives))
            entity.stated.append(stated.name)
        for named in (entity, other) if mentioned else (other,):
            if named is not None and all(named is not known for known in self.entities):
                self.entities.append(named)
        self._subject = entity if mentioned and other is None else None
        self._person_near = person

    def _reference(self, entity: FableEntity) -> str:
        """Return how to mention the entity: by full name at first, by pronoun only after a sentence about it."""
        if all(entity is not known for known in self.entities):
            return "name"
        ambiguous = self._person_near and entity.naming.pronouns[0] != "it"
        if self._subject is not entity or ambiguous:
            return "short"
        return self.source.rng.choices(("pronoun", "noun", "short"), (40, 20, 40))[0]

    def _draw(self, entity: FableEntity, relation: Relation) -> Value:
        self.source.base = entity.base
        return relation.value(self.source)


def _extras(plan: str, kind: ArticleKind) -> set[str]:
    names = {slot for slot in _SLOT.findall(plan) if slot not in (*_MENTIONS, *_PASSING, "v")}
    return names & {relation.name for relation in kind.relations}


def _open(entity: FableEntity) -> set[str]:
    return {relation.name for relation in entity.open_relations()}


def mention(naming: Naming, slot: str, call: str) -> str:
    if call == "pronoun":
        return naming.pronouns[_MENTIONS.index(slot)]
    name = naming.name if call == "name" else naming.short if call == "short" else naming.noun
    return f"{name}'s" if slot == "p" else name
