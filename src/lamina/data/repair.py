"""Read all that can be used of data with problems: repair what is safe, and list the rest.

`lamina data clean` writes a repaired file. This module repairs in memory, for questions and sentences, of files and of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Generic, TypeVar

from lamina.data import multi_context, squad
from lamina.data.examples import Example, Sentence
from lamina.data.in_memory import examples_of, rows_of, sentences_of, without_command
from lamina.data.json_tables import list_table
from lamina.data.plain_values import plain_value
from lamina.data.problems import Problem
from lamina.data.question_columns import holds_questions
from lamina.data.sentences import ColumnOptions, SentenceReading, fits_sentences, holds_sentences, sort_out, with_unique_ids
from lamina.data.sources import Bundled, load_examples, load_sentences, locate_data
from lamina.data.table_formats import read_table
from lamina.data.tabular import Table
from lamina.errors import LaminaError

T = TypeVar("T")
ROWS: Final = "data"  # the name of rows in memory in messages


@dataclass(frozen=True)
class Repaired(Generic[T]):
    """The usable examples of data, the problems that were repaired, and those whose rows are left out."""

    examples: list[T]
    repaired: list[Problem]
    left_out: list[Problem]


def are_sentences(data: object, columns: ColumnOptions) -> bool:
    """Return whether data holds labelled sentences, not questions. Named columns of texts mean sentences."""
    if columns != ColumnOptions():
        return True
    if isinstance(data, str | Path):
        place = locate_data(str(data))
        return place.task is not None if isinstance(place, Bundled) else holds_sentences(place)
    if isinstance(data, Sequence) and data and isinstance(data[0], Example | Sentence):
        return isinstance(data[0], Sentence)
    if isinstance(data, Mapping) and isinstance(data.get("data"), list):  # a SQuAD object
        return False
    header = list_table(rows_of(data, ROWS)).header
    return fits_sentences(header) and not holds_questions(header)


def repair_questions(data: object) -> Repaired[Example]:
    """Return the usable questions of a file, a named dataset or data in memory.

    Answers move to the nearest place of their text, and duplicate ids are renamed, as in `squad.clean`.
    """
    if isinstance(data, str | Path):
        place = locate_data(str(data))
        if isinstance(place, Bundled):
            return Repaired(load_examples(str(data)), [], [])
        if multi_context.holds_contexts(place):
            examples, problems = multi_context.repair_multi_context(place)
            return _usable(Repaired(examples, [], problems), str(data))
        return _usable(_sorted(list(squad.walk_files(place, "error", "check"))), str(data))
    if isinstance(data, Sequence) and data and isinstance(data[0], Example):
        return Repaired(examples_of(data), [], [])
    corpus = isinstance(data, Mapping) and isinstance(data.get("data"), list)
    value = plain_value(data) if corpus else rows_of(data, ROWS)
    found = [
        replace(each, problems=tuple(replace(problem, fix=without_command(problem.fix)) for problem in each.problems))
        for each in squad.walk_value(value, ROWS, "error", "check")
    ]
    return _usable(_sorted(found), ROWS)


def repair_sentences(data: object, columns: ColumnOptions) -> Repaired[Sentence]:
    """Return the usable sentences of a file, a named dataset or data in memory. Broken rows are left out."""
    how, name = SentenceReading(columns), str(data) if isinstance(data, str | Path) else ROWS
    if isinstance(data, str | Path):
        place = locate_data(name)
        if isinstance(place, Bundled):
            return Repaired(load_sentences(name, how), [], [])
        table: Table = read_table(place)
    elif isinstance(data, Sequence) and data and isinstance(data[0], Sentence):
        return Repaired(sentences_of(data), [], [])
    else:
        table = list_table(rows_of(data, ROWS))
    whole, broken = sort_out(table, name, how)
    problems = [Problem(name, table.place(number), what) for number, what in broken.items()]
    return _usable(Repaired(with_unique_ids(whole.values()), [], problems), name)


def _sorted(found: Sequence[squad.CheckedQuestion]) -> Repaired[Example]:
    return Repaired(
        [each.example for each in found if each.example is not None],
        repaired=[problem for each in found if each.example is not None for problem in each.problems],
        left_out=[problem for each in found if each.example is None for problem in each.problems],
    )


def _usable(found: Repaired[T], name: str) -> Repaired[T]:
    """Return what was found, or raise LaminaError if nothing can be used."""
    if found.examples:
        return found
    first = f" (first problem: {found.left_out[0]})" if found.left_out else ""
    raise LaminaError(f"{name}: holds nothing that can be used{first}. Fix: correct the data")
