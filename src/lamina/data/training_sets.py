"""Several sets of questions to train on as one: the options of each set, the draw from it, copies and unique ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, model_validator

from lamina.data.examples import Example
from lamina.data.splits import questions_of, sample_questions
from lamina.data.unique_ids import UniqueIds
from lamina.utils.options import Options


class TrainingSet(Options):
    """One of several sets to train on. A text alone is its name.

    `share` and `questions` draw questions with `train.seed`, whatever the other sets are. A larger draw contains every smaller
    one.
    """

    name: str
    """Name, file or hub id of the set."""
    share: float | None = Field(default=None, gt=0, le=1)
    """Take this share of its questions, above 0 to 1; without it, all."""
    questions: int | None = Field(default=None, ge=1)
    """Take at most this many of its questions; without it, all."""
    repeat: int = Field(default=1, ge=1)
    """Train on its questions this many times in an epoch; held-out questions are not repeated."""

    @model_validator(mode="before")
    @classmethod
    def _of_name(cls, value: Any) -> Any:
        if not isinstance(value, str | Mapping | TrainingSet):
            raise ValueError("is no set. Fix: give a name in quotes, or a table with a name")
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_limit(self) -> TrainingSet:
        if self.share is not None and self.questions is not None:
            raise ValueError("share and questions both limit the set. Fix: give one of them")
        return self

    def count(self, questions: int) -> int | None:
        """Return how many of its questions to take; None for all."""
        return self.questions if self.share is None else max(1, round(self.share * questions))


def _form(value: object) -> str:
    return "sets" if isinstance(value, list | tuple) else "one"


# The field `data.train` of a task: the name of one set, or a list of sets.
OneOrSets = Annotated[
    Annotated[str, Tag("one")] | Annotated[tuple[TrainingSet, ...], Tag("sets")], Field(discriminator=Discriminator(_form))
]


class _Renaming:
    """Gives examples ids that no earlier example has. The contexts of a question keep a common group."""

    def __init__(self) -> None:
        self._ids, self._groups = UniqueIds("~"), UniqueIds("~")

    def renamed(self, examples: Sequence[Example]) -> list[Example]:
        groups = {group: self._groups.unique(group) for group in questions_of(examples)}
        return [replace(e, id=self._ids.unique(e.id), group=groups[e.group]) for e in examples]


def mixed(sets: Iterable[tuple[TrainingSet, Sequence[Example]]], seed: int) -> list[Example]:
    """Return the questions drawn from all sets, set by set, with the name of their set as `source`.

    An id that an earlier set has gets a number. This does not depend on the draw: all questions are renamed first.
    """
    renaming, found = _Renaming(), list[Example]()
    for one, examples in sets:
        renamed = renaming.renamed(examples)
        drawn = sample_questions(renamed, one.count(len(questions_of(renamed))), seed)
        found += [replace(example, source=one.name) for example in drawn]
    return found


def repeated(examples: Sequence[Example], sets: Sequence[TrainingSet]) -> list[Example]:
    """Return the examples, then the copies of those whose set has a `repeat` above 1. Copies have ids of their own."""
    times = {one.name: one.repeat for one in sets}
    if max(times.values()) == 1:
        return list(examples)
    renaming = _Renaming()
    rounds = (
        [example for example in examples if number < times.get(example.source, 1)] for number in range(max(times.values()))
    )
    return [example for chosen in rounds for example in renaming.renamed(chosen)]


def sources_of(examples: Iterable[Example]) -> list[str]:
    """Return the names of the sets that examples come from, in the order of their first examples."""
    return list(dict.fromkeys(example.source for example in examples))
