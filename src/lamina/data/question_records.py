"""Files -> records of questions: a place, a context and raw fields, before answers are checked.

SQuAD JSON and tables of questions become records here. `lamina.data.squad` makes examples of records.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lamina.data.json_tables import list_table, parse_json
from lamina.data.problems import MISSING, Counts, Fault, Problem, describe_value, id_note, short, text_fault
from lamina.data.question_columns import question_columns
from lamina.data.table_formats import TABLES, read_unpacked
from lamina.data.tabular import Table, files_of
from lamina.errors import LaminaError
from lamina.utils.files import decode_text


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """A question as a file has it. Only its context is checked."""

    file: str
    where: str
    context: str
    article: str
    fields: Mapping[str, object]
    answers: object
    starts: object = None
    fallback_id: str | None = None
    needs_starts: bool = True  # answers must give their start

    @property
    def place(self) -> str:
        """The place of the record in its file, with its id if it has one."""
        return self.where + id_note(self.fields.get("id"))


class QuestionRecords:
    """Yields the records of files and tables, and adds to `counts` what they hold."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._articles: dict[str, str] = {}  # context -> its name as an article
        self._names: set[str] = set()
        self._rows = 0  # the last number of the tables before

    def of_files(self, path: Path) -> Iterator[QuestionRecord | Problem]:
        """Yield the records of all files that a path names, or a problem in place of each broken record."""
        for file in files_of(path):
            ending, data = read_unpacked(file)
            if ending == ".json":
                yield from self.of_value(parse_json(decode_text(file, data), str(file)), str(file))
            else:
                yield from self.of_table(TABLES[ending].read(data, str(file)), str(file))

    def of_value(self, value: object, file: str) -> Iterator[QuestionRecord | Problem]:
        """Yield the records of a JSON value: a SQuAD object, a list of its articles, or a list of rows."""
        if not isinstance(value, list):
            yield from self._of_corpus(value, file)
        elif value and isinstance(value[0], Mapping) and "paragraphs" in value[0] and "qa" not in value[0]:
            yield from self._of_corpus({"data": value}, file)
        elif value:
            yield from self.of_table(list_table(value), file)

    def of_table(self, table: Table, file: str) -> Iterator[QuestionRecord | Problem]:
        """Yield the records of a table. Rows with equal contexts are one article if they have no title."""
        names = question_columns(table.header, file) if table.header else {}
        backwards = list(reversed(names))
        before = number = self._rows
        for own_number, row in table.rows:
            where, number = table.place(own_number), before + own_number
            if isinstance(row, Fault):
                yield Problem(file, where, row.what, row.fix)
                continue
            fields = {names[column]: row[column] for column in backwards if column in row}  # the first of a name is last
            yield self._of_row(_parsed(fields) if table.cells_are_texts else fields, file, where, number)
        self._rows = number

    def _of_row(self, row: Mapping[str, object], file: str, where: str, number: int) -> QuestionRecord | Problem:
        context = row.get("context", MISSING)
        if not isinstance(context, str) or text_fault(context, "context"):
            return Problem(file, where + id_note(row.get("id")), str(text_fault(context, "context")))
        if context not in self._articles:
            self._articles[context] = "context-" + hashlib.blake2b(context.encode(), digest_size=8).hexdigest()
        article = str(row.get("title") or row.get("article") or self._articles[context])
        self._names.add(article)
        self._counts.articles, self._counts.contexts = len(self._names), len(self._articles)
        start = row.get("answer_start")  # a column with missing values holds floats in pandas and parquet
        return QuestionRecord(
            file,
            where,
            context,
            article,
            row,
            given_answers(row),
            starts=int(start) if isinstance(start, float) and start.is_integer() else start,
            fallback_id=f"row-{number}",
            needs_starts=False,
        )

    def _of_corpus(self, corpus: object, file: str) -> Iterator[QuestionRecord | Problem]:
        """Yield the questions of a SQuAD object, in their order. Untitled articles with the same text are one article."""
        if not isinstance(corpus, Mapping) or not isinstance(corpus.get("data"), list):
            found = f"the keys {short(', '.join(corpus))}" if isinstance(corpus, Mapping) else describe_value(corpus)
            raise LaminaError(
                f'{file}: not SQuAD JSON: found {found}. Fix: write {{"data": [articles…]}}, or a list of rows with the '
                "columns question, context and answers"
            )
        untitled: dict[object, str] = {}
        for i, article in enumerate(corpus["data"]):
            where = f"data[{i}]"
            self._counts.articles += 1
            if not isinstance(article, Mapping) or not isinstance(article.get("paragraphs"), list):
                yield Problem(file, where, "not an article", 'write {"title": …, "paragraphs": […]}')
                continue
            title = str(article.get("title") or "") or untitled.setdefault(_first_context(article), where)
            for j, paragraph in enumerate(article["paragraphs"]):
                yield from self._of_paragraph(paragraph, file, f"{where}.paragraphs[{j}]", title)

    def _of_paragraph(self, paragraph: object, file: str, where: str, title: str) -> Iterator[QuestionRecord | Problem]:
        self._counts.contexts += 1
        if not isinstance(paragraph, Mapping) or not isinstance(paragraph.get("qas"), list):
            yield Problem(file, where, "not a paragraph", 'write {"context": …, "qas": […]}')
            return
        context = paragraph.get("context", MISSING)
        if fault := text_fault(context, "context"):
            yield Problem(file, where, fault, f"correct it or remove the paragraph ({len(paragraph['qas'])} questions)")
            return
        for k, question in enumerate(paragraph["qas"]):
            at = f"{where}.qas[{k}]"
            if isinstance(question, Mapping):
                yield QuestionRecord(file, at, str(context), title, question, question.get("answers", MISSING))
            else:
                yield Problem(file, at, f"not a question, but {describe_value(question)}", "write an object")


def _first_context(article: Mapping[str, list[object]]) -> object:
    """Return what identifies an untitled article: its first context, or the identity of the object without one."""
    first = article["paragraphs"][0] if article["paragraphs"] else None
    context = first.get("context") if isinstance(first, Mapping) else None
    return context if isinstance(context, str) else id(article)


def given_answers(fields: Mapping[str, object]) -> object:
    """Return what a row has as its answers: `answers`, or `answer` if that is null or missing."""
    return fields["answer"] if fields.get("answers") is None and "answer" in fields else fields.get("answers", MISSING)


# Cells of texts


def _parsed(cells: Mapping[str, object]) -> dict[str, object]:
    """Return a row of texts with the values that JSONL would have."""
    row = dict(cells)
    row["answer_start"] = _converted(row.get("answer_start"), _start)
    row["is_impossible"] = _converted(row.get("is_impossible"), _truth)
    for name, marks in (("answers", ("[", "{")), ("answer", ("[{",))):  # a plain answer may start with a bracket
        if str(row.get(name, "")).startswith(marks):
            value = _converted(row[name], json.loads)
            row[name] = value if name == "answers" or _are_answers(value) else row[name]
    return row


def _are_answers(value: object) -> bool:
    """Return whether a value is a list of answers as objects. Otherwise the cell is the text of an answer."""
    return isinstance(value, list) and all(isinstance(item, Mapping) and "text" in item for item in value)


def _converted(cell: object, convert: Callable[[str], object]) -> object:
    """Return the value of a cell, or None for an empty cell. A cell that cannot be converted stays a text."""
    text = str(cell or "")
    try:
        return convert(text) if text.strip() else None
    except ValueError:
        return text


def _start(cell: str) -> object:
    if cell.strip().startswith("["):
        return json.loads(cell)
    number = float(cell)
    return int(number) if number.is_integer() else cell


def _truth(cell: str) -> object:
    return {"true": True, "1": True, "false": False, "0": False}.get(cell.strip().lower(), cell)
