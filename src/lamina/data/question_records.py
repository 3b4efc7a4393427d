"""Questions as files state them: the records of SQuAD JSON, CSV and JSONL, before their answers are checked.

A record knows where it stands, its context and its raw fields. `lamina.data.squad` makes examples of records.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lamina.data.problems import MISSING, Counts, Fault, Problem, describe_value, id_note, short, text_fault
from lamina.data.tabular import NumberedRow, delimited_table, jsonl_rows
from lamina.errors import LaminaError


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """A question as a file states it, nothing checked but its context."""

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
        """Where the record stands, with its id if it has one."""
        return self.where + id_note(self.fields.get("id"))


def question_records(text: str, file: str, ending: str, counts: Counts) -> Iterator[QuestionRecord | Problem]:
    """The records of a file's text, or what is wrong where there is none; adds to `counts`."""
    if ending == ".json":
        return squad_records(parse_json(text, file), file, counts)
    return _table_records(QUESTION_TABLES[ending](text, file), file, counts)


# JSON


def parse_json(text: str, file: str) -> object:
    """The value of a JSON document. A text that is none raises LaminaError with the usual cause by name."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LaminaError(f"{file}: {_json_complaint(text, error)}") from None


def _json_complaint(text: str, error: ValueError | RecursionError) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return "the JSON is nested too deeply" if isinstance(error, RecursionError) else str(error)
    whole = text.strip()
    place = f"line {error.lineno} column {error.colno}"
    if not whole.startswith(("{", "[")):
        return f"not JSON: it starts with {short(whole)!r}: a table is named .csv"
    if error.msg == "Extra data":
        return f"{place}: the JSON ends, but more follows: one object a line is named .jsonl"
    if whole[-1] not in "}]" or error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated"):
        return f"{place}: the JSON ends in the middle (truncated): get the whole file again"
    return f"{place}: not JSON: {error.msg}"


def squad_records(corpus: object, file: str, counts: Counts) -> Iterator[QuestionRecord | Problem]:
    """The questions of a SQuAD object, in their order."""
    if not isinstance(corpus, Mapping) or not isinstance(corpus.get("data"), list):
        found = f"the keys {short(', '.join(corpus))}" if isinstance(corpus, Mapping) else describe_value(corpus)
        raise LaminaError(f'{file}: not SQuAD JSON: expected {{"data": [articles…]}}, found {found}')
    untitled: dict[object, str] = {}
    for i, article in enumerate(corpus["data"]):
        where = f"data[{i}]"
        counts.articles += 1
        if not isinstance(article, dict) or not isinstance(article.get("paragraphs"), list):
            yield Problem(file, where, 'not an article: expected {"title": …, "paragraphs": […]}')
            continue
        title = str(article.get("title") or "") or untitled.setdefault(_first_context(article), where)
        for j, paragraph in enumerate(article["paragraphs"]):
            yield from _paragraph_records(paragraph, file, f"{where}.paragraphs[{j}]", title, counts)


def _paragraph_records(
    paragraph: object, file: str, where: str, title: str, counts: Counts
) -> Iterator[QuestionRecord | Problem]:
    counts.contexts += 1
    if not isinstance(paragraph, dict) or not isinstance(paragraph.get("qas"), list):
        yield Problem(file, where, 'not a paragraph: expected {"context": …, "qas": […]}')
        return
    context = paragraph.get("context", MISSING)
    if fault := text_fault(context, "context"):
        yield Problem(file, where, fault, f"mend it or remove the paragraph ({len(paragraph['qas'])} questions)")
        return
    for k, question in enumerate(paragraph["qas"]):
        at = f"{where}.qas[{k}]"
        if isinstance(question, dict):
            yield QuestionRecord(at, context, title, question, question.get("answers", MISSING))
        else:
            yield Problem(file, at, f"not a question: expected an object, found {describe_value(question)}")


def _first_context(article: Mapping[str, list[object]]) -> object:
    """What identifies an untitled article: the text that it starts with, or else the object itself."""
    first = article["paragraphs"][0] if article["paragraphs"] else None
    context = first.get("context") if isinstance(first, dict) else None
    return context if isinstance(context, str) else id(article)


# Tables


def question_jsonl_rows(text: str, file: str) -> Iterator[NumberedRow]:
    """The rows of JSONL. A whole SQuAD object on one line raises LaminaError: its file has the wrong ending."""
    for line, row in jsonl_rows(text, file):
        if not isinstance(row, Fault) and isinstance(row.get("data"), list):
            raise LaminaError(f"{file}: line {line}: this is SQuAD JSON: name it .json")
        yield line, row


def _question_csv_rows(text: str, file: str) -> Iterator[NumberedRow]:
    """The rows of CSV, each cell as the value that JSONL would have."""
    table = delimited_table(text, file)
    columns = [name.lower() for name in table.header]
    if not {"question", "context"} <= set(columns) or not {"answer", "answers"} & set(columns):
        found = short(", ".join(table.header))
        raise LaminaError(
            f"{file}: line 1: the header needs the columns question, context, answer (or answers): found {found!r}"
        )
    for line, row in table.rows:
        yield line, row if isinstance(row, Fault) else _json_values({name.lower(): str(row[name]) for name in row})


def _json_values(cells: Mapping[str, str]) -> dict[str, object]:
    row: dict[str, object] = dict(cells)
    row["answer_start"] = _converted(cells.get("answer_start", ""), _csv_start)
    row["is_impossible"] = _converted(cells.get("is_impossible", ""), _csv_truth)
    if cells.get("answers", "").startswith(("[", "{")):
        row["answers"] = _converted(cells["answers"], json.loads)
    return row


def _converted(cell: str, convert: Callable[[str], object]) -> object:
    """The cell's value; None for an empty cell. A cell that cannot be converted stays text, to be checked later."""
    try:
        return convert(cell) if cell.strip() else None
    except ValueError:
        return cell


def _csv_start(cell: str) -> object:
    if cell.strip().startswith("["):
        return json.loads(cell)
    number = float(cell)
    return int(number) if number.is_integer() else cell


def _csv_truth(cell: str) -> object:
    return {"true": True, "1": True, "false": False, "0": False}.get(cell.strip().lower(), cell)


def _table_records(rows: Iterable[NumberedRow], file: str, counts: Counts) -> Iterator[QuestionRecord | Problem]:
    """The questions of a table. Equal contexts are one article where no title or article is given."""
    articles: dict[str, str] = {}  # context -> the name that stands for it
    names: set[str] = set()
    for line, row in rows:
        where = f"line {line}"
        if isinstance(row, Fault):
            yield Problem(file, where, row.what, row.fix)
            continue
        context = row.get("context", MISSING)
        if not isinstance(context, str) or text_fault(context, "context"):
            what = str(text_fault(context, "context"))
            yield Problem(file, where + id_note(row.get("id")), what, "mend it or remove the line")
            continue
        if context not in articles:
            articles[context] = "context-" + hashlib.blake2b(context.encode(), digest_size=8).hexdigest()
        article = str(row.get("title") or row.get("article") or articles[context])
        names.add(article)
        counts.articles, counts.contexts = len(names), len(articles)
        yield QuestionRecord(
            where,
            context,
            article,
            row,
            given_answers(row),
            starts=row.get("answer_start"),
            fallback_id=f"row-{line}",
            needs_starts=False,
        )


def given_answers(fields: Mapping[str, object]) -> object:
    """What a row gives as its answers, under either name. Null is no answer where the other name has one."""
    return fields["answer"] if fields.get("answers") is None and "answer" in fields else fields.get("answers", MISSING)


# The tables of questions by their endings: a function of the text and the name of the file. A new one needs a line here.
QUESTION_TABLES: Final[Mapping[str, Callable[[str, str], Iterator[NumberedRow]]]] = {
    ".jsonl": question_jsonl_rows,
    ".csv": _question_csv_rows,
}
QUESTION_FORMATS: Final = (".json", *QUESTION_TABLES)
