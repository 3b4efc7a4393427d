"""The shape of the data tables: what a kind of article is and what can be said and asked about it.

Slots of a plan, of a link and of an aside:

- ``{s}``, ``{p}``, ``{o}``: the entity as subject, possessive and object; by name, pronoun or description. A second
  one in the same sentence is always a pronoun.
- ``{v}``: the value of the plan's relation, which becomes the answer. A slot named after another relation states that
  relation too.
- ``{town}``, ``{person}``, ``{year}``: a passing mention that answers nothing.
- ``{d}``: in a link, the other entity of the same kind that the paragraph turns to.

A question has ``{n}``, the full name. The first letter of every sentence and question is raised afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from lamina.data.fables.names import Split
from lamina.data.fables.values import FreshValues, ValueDraw

Contrast = Literal["antonym", "negation"]


@dataclass(frozen=True, slots=True)
class Relation:
    """One thing that can be known of an entity.

    `opposite` names the relation that this one is easily mistaken for, and `contrast` says how. `detail_of` names the
    relation that this one makes more precise. `implied_by` lists relations whose plans might be read as answering this
    one: where one of them is stated, this one is not asked in vain.
    """

    name: str
    value: ValueDraw
    say: tuple[str, ...]
    say_dev: tuple[str, ...]
    ask: tuple[str, ...]
    ask_dev: tuple[str, ...]
    opposite: str | None = None
    contrast: Contrast = "antonym"
    detail_of: str | None = None
    implied_by: tuple[str, ...] = ()

    def plans(self, split: Split) -> tuple[str, ...]:
        return self.say if split == "train" else self.say_dev

    def questions(self, split: Split) -> tuple[str, ...]:
        return self.ask if split == "train" else self.ask_dev


@dataclass(frozen=True, slots=True)
class Naming:
    """How an entity is called: full name, short name, description, and pronouns (subject, possessive, object)."""

    name: str
    short: str
    noun: str
    pronouns: tuple[str, str, str] = ("it", "its", "it")


@dataclass(frozen=True, slots=True)
class ArticleKind:
    """A kind of article. `intros` open it, `links` bring in another entity, `asides` state nothing that is asked."""

    name: str
    naming: Callable[[FreshValues], Naming]
    relations: tuple[Relation, ...]
    intros: tuple[str, ...]
    intros_dev: tuple[str, ...]
    links: tuple[str, ...]
    links_dev: tuple[str, ...]
    asides: tuple[str, ...]
    asides_dev: tuple[str, ...]

    def relation(self, name: str) -> Relation:
        return next(relation for relation in self.relations if relation.name == name)
