"""Labelled sentences and pairs of sentences, from tables in all formats of `lamina.data.table_formats`."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from lamina.data.examples import Sentence
from lamina.data.labels import as_score
from lamina.data.problems import Fault, Problem
from lamina.data.question_columns import by_key, column_clause, column_key, holds_questions, note_once, twins
from lamina.data.table_formats import read_table
from lamina.data.tabular import Table, TableRow, label_in, text_in
from lamina.data.unique_ids import UniqueIds
from lamina.errors import LaminaError, LaminaWarning
from lamina.utils.options import Options

USUAL: Final = {
    "first": ("sentence1", "question1", "text1", "first", "premise", "sentence", "text", "review", "question"),
    "second": ("sentence2", "question2", "text2", "second", "hypothesis"),
    "label": ("label", "sentiment", "is_duplicate", "similarity", "score", "class", "rating"),
    "id": ("id",),
}
STANDARD: Final = frozenset(("sentence", "sentence1", "sentence2", "text", "label", "id"))  # taken without a note
RARE: Final = 100  # if at most one label in 100 is no number, it is a typing error and no class
SHOWN: Final = 5  # line numbers that a warning gives
LABELS_SHOWN: Final = 8


class ColumnOptions(Options):
    """The names of the columns to read. A column that is not named is guessed from the usual names in `USUAL`.

    If several usual names occur, the first in the order of `USUAL` is taken. If `first` is named, `second` is not guessed.
    """

    first: str | None = None
    """Column of the text, or of the first text of a pair; guessed if not given."""
    second: str | None = None
    """Column of the second text of a pair; guessed if neither text is given."""
    label: str | None = None
    """Column of the label; guessed if not given."""
    id: str | None = None
    """Column of the id; guessed if not given."""


GUESSED: Final = ColumnOptions()


@dataclass(frozen=True, slots=True)
class SentenceReading:
    """How to read a table of sentences."""

    columns: ColumnOptions = GUESSED
    skip_broken: bool = False  # skip broken rows with one warning; otherwise the first is an error
    labelled: bool = True  # without it, labels may be missing
    known_labels: bool = False  # otherwise a label that is no number, if nearly all others are, breaks its row
    can_skip: bool = True  # whether messages name the field skip_broken, which only recipes have


USUAL_READING: Final = SentenceReading()


def read_sentences(path: Path, how: SentenceReading = USUAL_READING) -> list[Sentence]:
    """Return the sentences of a file, with unique ids."""
    return sentences_in(read_table(path), str(path), how)


def sentences_in(table: Table, file: str, how: SentenceReading = USUAL_READING) -> list[Sentence]:
    """Return the sentences of a table, with unique ids; `file` is its name in messages."""
    whole, broken = sort_out(table, file, how)
    if broken:
        _complain(file, table, broken, len(whole), how)
    if not whole:
        raise LaminaError(f"{file}: holds a header but no rows. Fix: add rows")
    return with_unique_ids(whole.values())


@dataclass(frozen=True, slots=True)
class SentenceReport:
    """The number of good rows of a table, the number of rows of each label, and the broken rows by their numbers."""

    rows: int
    pairs: bool
    labels: dict[str, int]
    broken: dict[int, str]
    unit: str = "line"  # what the numbers of broken rows count

    def problems(self, file: str) -> list[Problem]:
        """Return the broken rows as problems of a file."""
        return [Problem(file, f"{self.unit} {number}", what) for number, what in self.broken.items()]

    def __str__(self) -> str:
        often = sorted(self.labels.items(), key=lambda item: -item[1])[:LABELS_SHOWN]
        more = f" and {len(self.labels) - len(often)} more" if len(self.labels) > len(often) else ""
        labels = ", ".join(f"{label} ({count})" for label, count in often)
        return f"{self.rows} {'pairs' if self.pairs else 'sentences'}, labels {labels}{more}"


def check_sentences(path: Path) -> SentenceReport:
    """Return what a table holds and all of its broken rows."""
    table = read_table(path)
    whole, broken = sort_out(table, str(path), USUAL_READING)
    return replace(report_of(whole.values()), broken=broken, unit=table.unit)


def report_of(sentences: Collection[Sentence]) -> SentenceReport:
    """Return the report of sentences without broken rows."""
    labels = Counter(str(sentence.label) for sentence in sentences)
    return SentenceReport(len(sentences), any(sentence.second is not None for sentence in sentences), dict(labels), {})


def sort_out(table: Table, file: str, how: SentenceReading) -> tuple[dict[int, Sentence], dict[int, str]]:
    """Return the good rows, and what is wrong with the others, by their numbers."""
    chosen = _choose(how.columns, table.header, file, labelled=how.labelled)
    _note_columns(file, how.columns, chosen, table.header)
    whole: dict[int, Sentence] = {}
    broken: dict[int, str] = {}
    for line, row in table.rows:
        try:
            whole[line] = _sentence(row, chosen, len(whole) + len(broken) + 1, labelled=how.labelled)
        except Fault as fault:
            broken[line] = fault.what
    for line in _odd_labels(whole) if how.labelled and not how.known_labels else ():
        broken[line] = f"the label {whole.pop(line).label!r} is no number, but the others are"
    return whole, dict(sorted(broken.items()))


def holds_sentences(path: Path) -> bool:
    """Return whether a file seems to hold labelled sentences, by its ending and its header."""
    try:
        return fits_sentences(read_table(path).header)
    except LaminaError:
        return False


def fits_sentences(header: Sequence[str], columns: ColumnOptions = GUESSED) -> bool:
    """Return whether a table with this header seems to hold labelled sentences."""
    try:
        _choose(columns, header, "", labelled=True)
    except LaminaError:
        return False
    return True


# Columns


@dataclass(frozen=True, slots=True)
class _Columns:
    first: str
    second: str | None
    label: str | None
    id: str | None


def _choose(options: ColumnOptions, header: Sequence[str], file: str, *, labelled: bool) -> _Columns:
    """Return the columns to read, by name or by guess."""
    lower = by_key(header)
    if options.first is None and holds_questions(header):
        raise LaminaError(
            f"{file}: is a file of questions to contexts, which the span heads read: it has {', '.join(header)}. "
            "Fix: use a head for questions, or name the columns to read with data.columns"
        )
    named = options.model_dump(exclude_none=True)
    if not labelled and named.get("label") not in header:
        named.pop("label", None)
    for role, name in named.items():
        if name not in header:
            close = get_close_matches(name, header, n=1)
            fix = f"did you mean {close[0]!r}?" if close else "choose one of them"
            raise LaminaError(f"{file}: no column {name!r} (data.columns.{role}): {_has(header)}. Fix: {fix}")
    roles = ["label", "id"] + ([] if "first" in named else ["first"]) + ([] if {"first", "second"} & set(named) else ["second"])
    for role in roles:
        free = [lower[name] for name in USUAL[role] if name in lower and lower[name] not in named.values()]
        if role not in named and free:
            named[role] = free[0]
    for role in ("first", "label") if labelled else ("first",):
        if role not in named:
            what = "text" if role == "first" else "label"
            raise LaminaError(f"{file}: no column is surely the {what}: {_has(header)}. Fix: name it with data.columns.{role}")
    return _Columns(named["first"], named.get("second"), named.get("label"), named.get("id"))


def _has(header: Sequence[str]) -> str:
    return f"it has {', '.join(filter(None, header)) or 'none'}"


def _note_columns(file: str, options: ColumnOptions, chosen: _Columns, header: Sequence[str]) -> None:
    """Log which columns were guessed, if their names are not standard or if several fit."""
    lower = by_key(header)
    taken = {"first": chosen.first, "second": chosen.second, "label": chosen.label, "id": chosen.id}
    named = options.model_dump(exclude_none=True)
    clauses = []
    for role, column in taken.items():
        if column is None or role in named:
            continue
        rest = [lower[name] for name in USUAL[role] if name in lower and lower[name] not in taken.values()]
        unused = [*twins(column, header), *rest]
        if column_key(column) not in STANDARD or unused:
            clauses.append(column_clause({"first": "text", "second": "second text"}.get(role, role), column, unused))
    note_once(file, clauses)


# Sentences


def _sentence(row: TableRow, columns: _Columns, number: int, *, labelled: bool) -> Sentence:
    if isinstance(row, Fault):
        raise row
    second = None if columns.second is None else text_in(row, columns.second)
    label = None if columns.label is None else label_in(row, columns.label)
    if labelled and not label:
        raise Fault(f"{columns.label} is empty")
    own_id = label_in(row, columns.id) if columns.id is not None else ""
    return Sentence(own_id or str(number), text_in(row, columns.first), second, label or None)


def _odd_labels(sentences: Mapping[int, Sentence]) -> list[int]:
    """Return the rows whose label is no number, if the others are scores or nearly all others are numbers."""
    known = {line: as_score(sentence.label) for line, sentence in sentences.items() if sentence.label is not None}
    odd = [line for line, number in known.items() if number is None]
    scores = any(number is not None and number % 1 for number in known.values())
    mostly = len(odd) * RARE <= len(known) or (scores and 2 * len(odd) < len(known))
    return odd if mostly else []


def _complain(file: str, table: Table, broken: Mapping[int, str], whole: int, how: SentenceReading) -> None:
    first, why = next(iter(broken.items()))
    count = f"{len(broken)} of {whole + len(broken)} rows {'is' if len(broken) == 1 else 'are'} broken"
    if not how.skip_broken:
        fix = "correct them, or set data.skip_broken=true" if how.can_skip else "correct them or remove them"
        raise LaminaError(f"{file}, {table.place(first)}: {why}: {count}. Fix: {fix}")
    if not whole:
        raise LaminaError(f"{file}, {table.place(first)}: {why}: all {len(broken)} rows are broken. Fix: correct them")
    lines = ", ".join(map(str, list(broken)[:SHOWN])) + (" …" if len(broken) > SHOWN else "")
    warnings.warn(f"{file}: {count} and skipped, at {table.unit} {lines}; the first: {why}", LaminaWarning, stacklevel=4)


def with_unique_ids(sentences: Iterable[Sentence]) -> list[Sentence]:
    """Return the sentences with a number after every repeated id: x, x#2, x#3."""
    ids = UniqueIds("#")
    return [replace(sentence, id=ids.unique(sentence.id)) for sentence in sentences]
