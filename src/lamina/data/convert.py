"""Convert files of questions or sentences between all formats that can be written.

Questions are written as SQuAD JSON (`.json`), or as rows with the columns id, title, context, question, answers. In JSONL and
parquet `answers` is ``{"text": […], "answer_start": […]}``, as in datasets of the hub. In CSV and TSV `answers` and
`answer_start` are JSON lists. They are plain cells, `answer` and `answer_start`, if no question has several answers and no
answer looks like JSON.

Tables of sentences are copied with all of their columns; only parquet can hold columns of bytes. Groups of questions with
several contexts get a column `group`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from lamina.data import multi_context, sentences, squad
from lamina.data.examples import Example
from lamina.data.plain_values import is_plain
from lamina.data.problems import Fault
from lamina.data.sentences import SentenceReading
from lamina.data.sources import Bundled, check_writes, load_examples, load_sentences, locate_data
from lamina.data.table_formats import FORMATS, TABLES, read_table
from lamina.data.tabular import format_of, listed
from lamina.errors import LaminaError
from lamina.utils.files import compress, write_atomically

_TEXT_FORMATS: Final = (".csv", ".tsv")
Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of `convert`: what was written, how many, and the fields that were not copied."""

    kind: Literal["questions", "sentences"]
    rows: int
    not_copied: tuple[str, ...] = ()


def convert(name: str, out: Path, *, duplicate_ids: squad.DuplicateIds = "error") -> Conversion:
    """Write the data of a name to `out`, in the format of its ending, atomically.

    Args:
        name: A file, or any other name of data (`lamina.data.sources`).
        out: The new file. An existing file is replaced, but never the file that is read.
        duplicate_ids: "error" or "rename", for ids of questions that occur twice.

    Raises:
        LaminaError: If a row has a problem, or if the format of `out` cannot be written.
    """
    ending = format_of(out, FORMATS)
    if TABLES[ending].write is None:
        endings = listed([name for name, table in TABLES.items() if table.write], "or")
        raise LaminaError(f"{out}: {ending} files are only read. Fix: name it {endings}")
    check_writes(name, [out])
    if _holds_sentences(name):
        header, copied = _sentence_rows(name)
        binary = () if ending == ".parquet" else tuple(c for c in header if any(not is_plain(row[c]) for row in copied))
        write_atomically(out, compress(out, _table_bytes(out, *_without_columns(header, copied, binary))))
        return Conversion("sentences", len(copied), binary)
    examples, not_copied = _examples(name, duplicate_ids)
    if ending == ".json":
        content = squad.squad_bytes(examples)
    else:
        rows = question_rows(examples, texts=ending in _TEXT_FORMATS)
        content = _table_bytes(out, list(rows[0]), rows)
    write_atomically(out, compress(out, content))
    return Conversion("questions", len(examples), not_copied)


def _table_bytes(out: Path, header: Sequence[str], rows: Sequence[Row]) -> bytes:
    """Return rows in the format of a file. A package that the format lacks raises LaminaError."""
    write = TABLES[format_of(out, FORMATS)].write
    assert write is not None
    try:
        return write(header, rows)
    except LaminaError as error:
        raise LaminaError(f"{out}: {error}") from None


def question_rows(examples: Sequence[Example], *, texts: bool) -> list[Row]:
    """Return examples as rows. With `texts` all cells are texts or numbers, as CSV needs."""
    several = any(len(example.answers) > 1 or any(a.text.startswith("[{") for a in example.answers) for example in examples)
    grouped = any(example.group != example.id for example in examples)
    rows = []
    for example in examples:
        row: Row = {"id": example.id, "title": example.article, "context": example.context, "question": example.question}
        row |= _answer_cells(example, several=several) if texts else {"answers": _hub_answers(example)}
        rows.append(row | ({"group": example.group} if grouped else {}))
    return rows


def _hub_answers(example: Example) -> Row:
    return {
        "text": [answer.text for answer in example.answers],
        "answer_start": [answer.start for answer in example.answers],
    }


def _answer_cells(example: Example, *, several: bool) -> Row:
    if several:
        return {name: json.dumps(values, ensure_ascii=False) for name, values in _answer_lists(example).items()}
    first = example.answers[0] if example.answers else None
    return {"answer": first.text if first else "", "answer_start": first.start if first else None}


def _answer_lists(example: Example) -> Row:
    lists = _hub_answers(example)
    return {"answers": lists["text"], "answer_start": lists["answer_start"]}


def _without_columns(header: Sequence[str], rows: list[Row], columns: Sequence[str]) -> tuple[list[str], list[Row]]:
    kept = [column for column in header if column not in columns]
    return kept, [{column: row[column] for column in kept} for row in rows]


def _holds_sentences(name: str) -> bool:
    place = locate_data(name)
    return place.task is not None if isinstance(place, Bundled) else sentences.holds_sentences(place)


def _examples(name: str, duplicate_ids: squad.DuplicateIds) -> tuple[list[Example], tuple[str, ...]]:
    """Return the examples of a name, and the names of fields that examples do not have."""
    place = locate_data(name)
    if isinstance(place, Bundled):
        return load_examples(name, duplicate_ids=duplicate_ids), ()
    if multi_context.holds_contexts(place):
        return load_examples(name, duplicate_ids=duplicate_ids), tuple(sorted(multi_context.extra_fields(place)))
    found = list(squad.walk_files(place, duplicate_ids, "check"))
    return squad.examples_without_problems(found), tuple(sorted({field for each in found for field in each.extra}))


def _sentence_rows(name: str) -> tuple[list[str], list[Row]]:
    """Return the columns and rows of a table of sentences after a check. A broken row raises LaminaError."""
    place = locate_data(name)
    checked = load_sentences(name, SentenceReading(can_skip=False))
    if isinstance(place, Bundled):
        columns = {"sentence1": "first", "sentence2": "second"} if checked[0].second is not None else {"sentence": "first"}
        names = {"id": "id", **columns, "label": "label"}
        return list(names), [{column: getattr(each, field) for column, field in names.items()} for each in checked]
    table = read_table(place)
    header = list(dict.fromkeys(filter(None, table.header)))
    rows = [{column: row.get(column) for column in header} for _, row in table.rows if not isinstance(row, Fault)]
    return header, rows
