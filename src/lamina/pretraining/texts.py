"""Read the texts of pretraining: columns of tables, plain text files, contexts of questions."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from pydantic import Field, model_validator

from lamina.data.problems import Fault
from lamina.data.sources import Bundled, load_examples, locate_data
from lamina.data.table_formats import read_table
from lamina.data.tabular import label_in, text_in
from lamina.errors import LaminaError, LaminaWarning
from lamina.pretraining.sentence_ends import sentence_spans
from lamina.utils.files import expanded, holds, read_text
from lamina.utils.options import Options

T = TypeVar("T")

_PACKINGS: Final = (".xz", ".gz")
_PLAIN: Final = (".txt", ".text", ".md")
_BLANK_LINE: Final = re.compile(r"\n\s*\n")


class TableOptions(Options):
    """How to read a table (CSV, TSV or JSONL). Its first line decides which separator it has."""

    source: str
    """Path of a file, or a name in $LAMINA_DATA."""
    skip_every: int | None = Field(default=None, ge=2)
    """Skip rows 0, n, 2n and so on, if these are a dev set; n is at least 2."""
    skip_broken: bool = False
    """Skip broken rows with a warning instead of an error."""


class TextSource(TableOptions):
    """A source of texts.

    With `columns`, the texts are cells of a table. In a plain text file, they are the blocks between blank lines. A folder
    means all plain text files in it. In other files, they are the contexts of questions.
    """

    columns: tuple[str, ...] = ()
    """Columns of a table to read texts from; without them, the file is plain text or SQuAD."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, values: object) -> object:
        """Accept a name instead of a table with the field `source`."""
        return {"source": values} if isinstance(values, str) else values


class PairSource(TableOptions):
    """A table of pairs of texts. The label is 1 (or true) if the second can follow the first, such as a paraphrase."""

    columns: tuple[str, str]
    """The two columns that hold the texts of a pair."""
    label: str
    """Column that is 1 or true if the second text can follow the first."""


TextPair = tuple[str, str, bool]  # and whether the second follows the first


def read_texts(sources: Iterable[TextSource]) -> list[str]:
    """Return the texts of all sources in their order, without duplicates."""
    return list(dict.fromkeys(text for source in sources for text in _texts_of(source)))


def exclude_texts(texts: Iterable[str], excluded: Iterable[TextSource]) -> list[str]:
    """Return the texts that are not among those of the excluded sources."""
    unwanted = set(read_texts(excluded))
    return [text for text in texts if text not in unwanted]


def read_pairs(source: PairSource) -> list[TextPair]:
    """Return the pairs of a table, with their labels."""
    first, second = source.columns
    found = []
    for place, row in _rows(source, [first, second, source.label], source.label):
        try:
            follows = {"true": 1.0, "false": 0.0}.get(row[source.label].lower())
            follows = float(row[source.label]) if follows is None else follows
        except ValueError:
            raise LaminaError(f"{place}: {source.label} = {row[source.label]!r} is not a label. Fix: write 1 or 0") from None
        found.append((row[first], row[second], follows >= 0.5))
    return found


def split_texts(texts: Sequence[T], share: float, seed: int) -> tuple[list[T], list[T]]:
    """Return the texts to train on and the held-out texts. If `share` is not 0, each has at least one text."""
    if share == 0:
        return list(texts), []
    if len(texts) < 2:
        raise LaminaError("holdout: there is only one text, so none can be held out. Fix: set holdout = 0")
    count = min(len(texts) - 1, max(1, round(share * len(texts))))
    held = set(np.random.default_rng([seed, 3]).permutation(len(texts))[:count].tolist())
    return [t for i, t in enumerate(texts) if i not in held], [t for i, t in enumerate(texts) if i in held]


def split_sentences(text: str) -> list[str]:
    """Split a text at sentence marks and line ends.

    >>> split_sentences("It rains. Does it? Yes\\nno")
    ['It rains.', 'Does it?', 'Yes', 'no']
    """
    return [text[start:end] for start, end in sentence_spans(text)]


def _texts_of(source: TextSource) -> Iterator[str]:
    if source.columns:
        yield from (row[column] for _, row in _rows(source, source.columns) for column in source.columns)
        return
    if files := _plain_files(expanded(source.source)):
        for file in files:
            yield from _blocks(file)
        return
    place = locate_data(source.source)
    if not isinstance(place, Bundled) and _ending(place) in _PLAIN:
        yield from _blocks(place)
        return
    if not isinstance(place, Bundled) and _ending(place) == ".tsv":
        raise LaminaError(f'{source.source}: the columns with texts are not known. Fix: name them with columns = ["…"]')
    examples = load_examples(source.source, duplicate_ids="rename", answers="ignore")
    yield from (text for example in examples if (text := example.context.strip()))


def _plain_files(folder: Path) -> list[Path]:
    """Return the plain text files of a folder and its subfolders, in the order of their paths."""
    if not holds(folder.is_dir):
        return []
    return sorted(file for file in folder.rglob("*") if _ending(file) in _PLAIN and file.is_file())


def _blocks(file: Path) -> Iterator[str]:
    """Yield the blocks of a text file that blank lines separate."""
    yield from filter(None, (block.strip() for block in _BLANK_LINE.split(read_text(file))))


def _rows(source: TableOptions, wanted: Sequence[str], label: str | None = None) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows of a table that are not broken, each with its place.

    A row is broken if its cells do not fit the header or one is empty.
    """
    place = locate_data(source.source)
    if isinstance(place, Bundled):
        raise LaminaError(f"{source.source}: has no columns. Fix: leave columns out to read its contexts")
    table = read_table(place)
    if missing := [column for column in wanted if column not in table.header]:
        choices = ", ".join(filter(None, table.header))
        raise LaminaError(f"{place}: has no column {missing[0]!r}. Fix: choose one of {choices}")
    broken: list[str] = []
    position = 0
    for line, row in table.rows:
        try:
            if isinstance(row, Fault):
                raise row
            cells = {name: label_in(row, name) if name == label else text_in(row, name) for name in wanted}
            if empty := [name for name in table.header if name and row.get(name) in ("", None)]:
                raise Fault(f"{empty[0]} is empty")
        except Fault as fault:
            broken.append(f"line {line}: {fault}")
            if not source.skip_broken:
                raise LaminaError(
                    f"{place}: {broken[0]}. Fix: correct the row, or skip broken rows with skip_broken = true"
                ) from None
            continue
        if source.skip_every is None or position % source.skip_every:
            yield f"{place}: line {line}", cells
        position += 1
    if broken:
        warnings.warn(f"{place}: skipped {len(broken)} broken rows, the first at {broken[0]}", LaminaWarning, stacklevel=2)
    if not position:
        raise LaminaError(f"{place}: has no rows to read. Fix: name a table with rows")


def _ending(path: Path) -> str:
    """Return the ending that names a file's format, without the ending of a packing.

    >>> _ending(Path("a/b.csv.xz")), _ending(Path("b.TXT"))
    ('.csv', '.txt')
    """
    endings = [ending.lower() for ending in path.suffixes]
    return next((ending for ending in reversed(endings) if ending not in _PACKINGS), "")
