"""The types of the tables: kinds of articles, their relations, and templates of sentences and questions.

Slots of a plan, of a link and of an aside:

- ``{s}``, ``{p}``, ``{o}``: the entity as subject, possessive and object, by name, pronoun or description. The second in a
  sentence is always a pronoun.
- ``{v}``: the value of the plan's relation, which is the answer. A slot with the name of another relation states that one
  too.
- ``{town}``, ``{person}``, ``{year}``: a mention that answers no question.
- ``{d}``: in a link, the other entity of the same kind.

A question has ``{n}``, the full name. The first letter of every sentence and question becomes upper case.
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
    """A kind of fact about an entity.

    `opposite` is the relation that is easily confused with this one, and `contrast` is the difference. `detail_of` is the
    relation that this one makes more precise. `implied_by` lists relations whose plans may seem to answer this one: if one of
    them is stated, no unanswerable question asks for this one.
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
    """The names of an entity: full name, short name, description, and pronouns (subject, possessive, object)."""

    name: str
    short: str
    noun: str
    pronouns: tuple[str, str, str] = ("it", "its", "it")


@dataclass(frozen=True, slots=True)
class ArticleKind:
    """A kind of article. `intros` start it, `links` add another entity, `asides` state no fact that a question asks for."""

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
