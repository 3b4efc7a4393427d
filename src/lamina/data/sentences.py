"""Labelled sentences and pairs of them, from tables (`lamina.data.tabular`)."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from lamina.data.examples import Sentence
from lamina.data.labels import as_score
from lamina.data.problems import Fault
from lamina.data.tabular import TableRow, cell_text, read_table, text_in
from lamina.data.unique_ids import UniqueIds
from lamina.errors import LaminaError, LaminaWarning

USUAL: Final = {
    "first": ("sentence1", "question1", "text1", "first", "premise", "sentence", "text", "review", "question"),
    "second": ("sentence2", "question2", "text2", "second", "hypothesis"),
    "label": ("label", "sentiment", "is_duplicate", "similarity", "score", "class", "rating"),
    "id": ("id",),
}
RARE: Final = 100  # where one label in so many, or fewer, is no number, it is a slip and no class
SHOWN: Final = 5  # line numbers that a warning gives
LABELS_SHOWN: Final = 8


class ColumnOptions(BaseModel):
    """The columns of a table (keys of JSONL) that hold what is read. What is not named is guessed from usual names; once a
    text is named, no other text is guessed."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

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
    """How a table of sentences is read."""

    columns: ColumnOptions = GUESSED
    skip_broken: bool = False  # skip broken rows with one warning; otherwise the first is an error
    labelled: bool = True  # without it, labels may be missing
    known_labels: bool = False  # without it, a label that is no number, where nearly all others are, breaks its row


USUAL_READING: Final = SentenceReading()


def read_sentences(path: Path, how: SentenceReading = USUAL_READING) -> list[Sentence]:
    """The sentences of a file, each id made unique."""
    whole, broken = _sort_out(path, how)
    if broken:
        _complain(path, broken, len(whole), skip=how.skip_broken)
    if not whole:
        raise LaminaError(f"{path}: holds a header but no rows")
    return _with_unique_ids(whole.values())


@dataclass(frozen=True, slots=True)
class SentenceReport:
    """What a table of sentences holds: its good rows, how often each label occurs, and every broken row by its line."""

    rows: int
    pairs: bool
    labels: dict[str, int]
    broken: dict[int, str]

    def __str__(self) -> str:
        often = sorted(self.labels.items(), key=lambda item: -item[1])[:LABELS_SHOWN]
        more = f" and {len(self.labels) - len(often)} more" if len(self.labels) > len(often) else ""
        labels = ", ".join(f"{label} ({count})" for label, count in often)
        return f"{self.rows} {'pairs' if self.pairs else 'sentences'}, labels {labels}{more}"


def check_sentences(path: Path) -> SentenceReport:
    """Reads a whole table and tells all that is wrong with it."""
    whole, broken = _sort_out(path, USUAL_READING)
    labels = Counter(str(sentence.label) for sentence in whole.values())
    return SentenceReport(len(whole), any(s.second is not None for s in whole.values()), dict(labels), broken)


def _sort_out(path: Path, how: SentenceReading) -> tuple[dict[int, Sentence], dict[int, str]]:
    """The good rows, and what is wrong with the others, each by its line."""
    table = read_table(path)
    chosen = _choose(how.columns, table.header, path, labelled=how.labelled)
    whole: dict[int, Sentence] = {}
    broken: dict[int, str] = {}
    for line, row in table.rows:
        try:
            whole[line] = _sentence(row, chosen, len(whole) + len(broken) + 1, labelled=how.labelled)
        except Fault as fault:
            broken[line] = fault.what
    for line in _odd_labels(whole) if how.labelled and not how.known_labels else ():
        broken[line] = f"the label {whole.pop(line).label!r} is no number, as the others are"
    return whole, dict(sorted(broken.items()))


def holds_sentences(path: Path) -> bool:
    """Whether a file seems to be of labelled sentences, by its ending and its header."""
    try:
        _choose(ColumnOptions(), read_table(path).header, path, labelled=True)
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


def _choose(options: ColumnOptions, header: Sequence[str], path: Path, *, labelled: bool) -> _Columns:
    """The columns to read, by name or by guess."""
    lower = {name.lower(): name for name in reversed(header)}
    if {"question", "context"} <= set(lower):
        raise LaminaError(
            f"{path}: is a file of questions to contexts, which the span heads read: "
            f"heads of sentences need columns such as sentence and label, not {', '.join(header)}"
        )
    named = options.model_dump(exclude_none=True)
    if not labelled and named.get("label") not in header:
        named.pop("label", None)
    for role, name in named.items():
        if name not in header:
            raise LaminaError(f"{path}: no column {name!r} (data.columns.{role}): {_has(header, name)}")
    roles = ["label", "id"] + ([] if "first" in named else ["first"]) + ([] if {"first", "second"} & set(named) else ["second"])
    for role in roles:
        free = [lower[name] for name in USUAL[role] if name in lower and lower[name] not in named.values()]
        if role not in named and free:
            named[role] = free[0]
    for role in ("first", "label") if labelled else ("first",):
        if role not in named:
            what = "text" if role == "first" else "label"
            raise LaminaError(f"{path}: which column is the {what}? Name it with data.columns.{role}: {_has(header)}")
    return _Columns(named["first"], named.get("second"), named.get("label"), named.get("id"))


def _has(header: Sequence[str], name: str = "") -> str:
    close = get_close_matches(name, header, n=1) if name else []
    hint = f": did you mean {close[0]!r}?" if close else ""
    return f"it has {', '.join(filter(None, header)) or 'none'}{hint}"


# Sentences


def _sentence(row: TableRow, columns: _Columns, number: int, *, labelled: bool) -> Sentence:
    if isinstance(row, Fault):
        raise row
    second = None if columns.second is None else text_in(row, columns.second)
    label = None if columns.label is None else cell_text(row.get(columns.label))
    if labelled and not label:
        raise Fault(f"{columns.label} is empty")
    own_id = cell_text(row.get(columns.id)) if columns.id is not None else ""
    return Sentence(own_id or str(number), text_in(row, columns.first), second, label or None)


def _odd_labels(sentences: Mapping[int, Sentence]) -> list[int]:
    """The lines whose label is no number, where the others are scores or where hardly any is not a number."""
    known = {line: as_score(sentence.label) for line, sentence in sentences.items() if sentence.label is not None}
    odd = [line for line, number in known.items() if number is None]
    scores = any(number is not None and number % 1 for number in known.values())
    mostly = len(odd) * RARE <= len(known) or (scores and 2 * len(odd) < len(known))
    return odd if mostly else []


def _complain(path: Path, broken: Mapping[int, str], whole: int, *, skip: bool) -> None:
    first, why = next(iter(broken.items()))
    count = f"{len(broken)} of {whole + len(broken)} rows {'is' if len(broken) == 1 else 'are'} broken"
    if not skip:
        raise LaminaError(f"{path}: line {first}: {why}: {count}: mend them or set data.skip_broken=true")
    if not whole:
        raise LaminaError(f"{path}: line {first}: {why}: all {len(broken)} rows are broken")
    lines = ", ".join(map(str, list(broken)[:SHOWN])) + (" …" if len(broken) > SHOWN else "")
    warnings.warn(f"{path}: {count} and skipped, at line {lines}; the first: {why}", LaminaWarning, stacklevel=3)


def _with_unique_ids(sentences: Iterable[Sentence]) -> list[Sentence]:
    """The sentences with a number behind every repeated id: x, x#2, x#3."""
    ids = UniqueIds("#")
    return [replace(sentence, id=ids.unique(sentence.id)) for sentence in sentences]
