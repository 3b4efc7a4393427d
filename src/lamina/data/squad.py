"""Files of questions -> examples. One walker reads, checks and repairs them.

It reads SQuAD 1.1 and 2.0 JSON (also with the extra keys of Haystack's annotation tool) and tables of questions in all
formats of `lamina.data.table_formats`. For each question the walker yields the example and its problems: `read` stops at
the first problem, `check` lists them all, `clean` writes what could be repaired.

Choices where the formats leave room:

- A question without answers is unanswerable, unless ``is_impossible`` is false. ``plausible_answers`` are ignored.
- An answer whose text is empty is a problem, not an unanswerable question. Files with withheld answers look like that, and
  scoring against them would reward "no answer". To predict on such a file, read it with ``answers="ignore"``.
- Renamed duplicates are questions of their own (``id``, ``id~2``, …). They share a group only if the text of the question
  is the same too: then it is one question with several contexts.
- Untitled articles with the same text count as one article. Otherwise held-out texts could be in the training split.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from lamina.data.examples import Example
from lamina.data.gold_answers import gold_answers
from lamina.data.problems import CLEAN, MISSING, RENAME, Counts, Fault, Problem, Report, text_fault
from lamina.data.question_columns import fits_questions
from lamina.data.question_records import QuestionRecord, QuestionRecords
from lamina.data.squad_format import SquadCorpus, SquadQuestion, answers_of
from lamina.data.table_formats import FORMATS, read_table
from lamina.data.tabular import files_of, format_of
from lamina.data.unique_ids import UniqueIds
from lamina.errors import LaminaError
from lamina.utils.files import check_apart, compress, write_atomically

DuplicateIds = Literal["error", "rename"]
AnswerChecking = Literal["check", "ignore", "optional"]  # "optional": a question may have no field for answers
_KNOWN_FIELDS: Final = frozenset(
    ("id", "question", "context", "answers", "answer", "answer_start", "is_impossible", "title", "article", "group")
)


@dataclass(frozen=True, slots=True)
class CleanReport:
    """The result of `clean`: counts of the original, the number of questions kept, and the problems repaired or dropped."""

    counts: Counts
    kept: int
    repaired: list[Problem]
    dropped: list[Problem]


@dataclass(frozen=True, slots=True)
class CheckedQuestion:
    """A question after the check: its example, repaired if needed, and its problems."""

    example: Example | None  # None if it cannot be repaired
    problems: tuple[Problem, ...] = ()
    extra: frozenset[str] = frozenset()  # the fields that no example has


# Read, check, clean


def read(path: Path, *, duplicate_ids: DuplicateIds = "error", answers: AnswerChecking = "check") -> list[Example]:
    """Return all examples of a file. The first problem raises LaminaError.

    ``answers="ignore"`` reads the questions without their answers, for predicting. With ``answers="optional"`` a question
    without any field for answers has none.
    """
    return examples_without_problems(walk_files(Path(path), duplicate_ids, answers))


def parse_corpus(
    corpus: Mapping[str, object], name: str, *, duplicate_ids: DuplicateIds = "error", answers: AnswerChecking = "check"
) -> list[Example]:
    """Return all examples of a SQuAD object in memory, as `read` does; `name` is the file in messages."""
    return examples_without_problems(walk_value(corpus, name, duplicate_ids, answers))


def check(path: Path) -> Report:
    """Return the counts and all problems of a file. Only a file that cannot be parsed at all raises LaminaError."""
    counts = Counts()
    found = walk_files(Path(path), "error", "check", counts)
    return Report(str(path), counts, [problem for each in found for problem in each.problems])


def clean(path: Path, out: Path) -> CleanReport:
    """Write a repaired copy as SQuAD 2.0 JSON, atomically. The original is never changed.

    Answers move to the nearest place of their text in the context. If there is none, case, white space and composed or
    decomposed characters may differ. Duplicate ids are renamed. Questions that cannot be repaired are dropped. Fields that
    SQuAD does not have are not copied.
    """
    path, out = Path(path), Path(out)
    for file in files_of(path):
        check_apart(file, out)
    counts = Counts()
    return write_cleaned(walk_files(path, "error", "check", counts), str(path), counts, out)


def write_cleaned(checked: Iterable[CheckedQuestion], name: str, counts: Counts, out: Path) -> CleanReport:
    """Write the questions that can be kept, as `clean` does; `name` is the data in messages."""
    if format_of(out, FORMATS) != ".json":
        raise LaminaError(f"{out}: cleaned data is SQuAD JSON. Fix: name it .json, .json.gz or .json.xz")
    found = list(checked)
    kept = [each.example for each in found if each.example is not None]
    if not kept:
        first = next(problem for each in found for problem in each.problems)
        raise LaminaError(
            f"{name}: no question can be kept, nothing written (first problem: {first.where} {first.what}). "
            f"Fix: see all problems with lamina data check {name}"
        )
    write_atomically(out, compress(out, squad_bytes(kept)))
    return CleanReport(
        counts=counts,
        kept=len(kept),
        repaired=[problem for each in found if each.example is not None for problem in each.problems],
        dropped=[problem for each in found if each.example is None for problem in each.problems],
    )


def squad_bytes(examples: Iterable[Example]) -> bytes:
    """Return examples as a file of SQuAD 2.0 JSON."""
    return json.dumps(to_squad(examples), ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def fits(path: Path) -> bool:
    """Return whether a file is SQuAD JSON or a table with columns of questions and contexts."""
    try:
        return fits_questions(read_table(path).header)
    except LaminaError:
        return format_of(path, FORMATS) == ".json"


def to_squad(examples: Iterable[Example]) -> SquadCorpus:
    """Return examples as a SQuAD 2.0 object, grouped by article and context. `parse_corpus` is the inverse."""
    articles: dict[str, dict[str, list[SquadQuestion]]] = {}
    for example in examples:
        questions = articles.setdefault(example.article, {}).setdefault(example.context, [])
        questions.append(_question(example))
    return {
        "version": "v2.0",
        "data": [
            {"title": title, "paragraphs": [{"context": context, "qas": qas} for context, qas in paragraphs.items()]}
            for title, paragraphs in articles.items()
        ],
    }


def _question(example: Example) -> SquadQuestion:
    question: SquadQuestion = {
        "id": example.id,
        "question": example.question,
        "answers": answers_of(example),
        "is_impossible": not example.answers,
    }
    if example.group != example.id:
        question["group"] = example.group
    return question


def examples_without_problems(found: Iterable[CheckedQuestion]) -> list[Example]:
    """Return the examples of checked questions. The first problem raises LaminaError."""
    examples = []
    for each in found:
        if each.problems or each.example is None:
            raise LaminaError(str(each.problems[0]))
        examples.append(each.example)
    return examples


# The walker


def walk_files(
    path: Path, duplicate_ids: DuplicateIds, answers: AnswerChecking, counts: Counts | None = None
) -> Iterator[CheckedQuestion]:
    """Yield the checked questions of all files that a path names; add to `counts` what they hold."""
    counts = counts or Counts()
    return _walk(QuestionRecords(counts).of_files(path), str(path), duplicate_ids, answers, counts)


def walk_value(
    value: object, name: str, duplicate_ids: DuplicateIds, answers: AnswerChecking, counts: Counts | None = None
) -> Iterator[CheckedQuestion]:
    """Yield the checked questions of a JSON value in memory; add to `counts` what it holds."""
    counts = counts or Counts()
    return _walk(QuestionRecords(counts).of_value(value, name), name, duplicate_ids, answers, counts)


def _walk(
    records: Iterable[QuestionRecord | Problem], file: str, duplicate_ids: DuplicateIds, answers: AnswerChecking, counts: Counts
) -> Iterator[CheckedQuestion]:
    walker = _SquadWalker(duplicate_ids, answers, counts)
    empty = True
    for record in records:
        empty = False
        yield CheckedQuestion(None, (record,)) if isinstance(record, Problem) else walker.checked(record)
    if empty:
        yield CheckedQuestion(None, (Problem(file, "", "holds no questions", "name a file with questions"),))


class _SquadWalker:
    """Checks one record after the other, and keeps all ids and groups."""

    def __init__(self, duplicate_ids: DuplicateIds, answers: AnswerChecking, counts: Counts) -> None:
        self._duplicate_ids, self._answers, self._counts = duplicate_ids, answers, counts
        self._ids = UniqueIds("~")
        self._groups: dict[tuple[str, str], str] = {}  # (id in the file, question) -> the first unique id

    def checked(self, record: QuestionRecord) -> CheckedQuestion:
        """Return the example of a record, and all of its problems."""
        self._counts.questions += 1
        faults: list[Fault] = []
        question = record.fields.get("question", MISSING)
        if what := text_fault(question, "question"):
            faults.append(Fault(what, "write it or remove the question"))
        own_id = _own_id(record, faults)
        unique = self._unique_id(own_id, faults)
        answers = () if self._unlabelled(record) else gold_answers(record, faults)
        example = None
        if what is None and isinstance(question, str) and answers is not None:
            group = self._groups.setdefault((own_id, question), unique)
            group = str(record.fields.get("group") or group)
            example = Example(unique, question, record.context, answers, group, record.article)
            self._counts.unanswerable += not answers
            self._counts.answers += len(answers)
        problems = tuple(Problem(record.file, record.place, fault.what, fault.fix) for fault in faults)
        return CheckedQuestion(example, problems, frozenset(record.fields) - _KNOWN_FIELDS)

    def _unlabelled(self, record: QuestionRecord) -> bool:
        absent = record.answers is MISSING and record.fields.get("is_impossible") is None
        return self._answers == "ignore" or (self._answers == "optional" and absent)

    def _unique_id(self, own_id: str, faults: list[Fault]) -> str:
        unique = self._ids.unique(own_id)
        if unique != own_id:
            self._counts.duplicate_ids += 1
            if self._duplicate_ids == "error":
                faults.append(Fault("the id is not unique", f"{CLEAN} or {RENAME}"))
        return unique


def _own_id(record: QuestionRecord, faults: list[Fault]) -> str:
    own_id = record.fields.get("id")
    if isinstance(own_id, int) and not isinstance(own_id, bool):
        return str(own_id)
    if isinstance(own_id, float) and own_id.is_integer():  # a column with missing values holds floats in pandas
        return str(int(own_id))
    if isinstance(own_id, str) and not text_fault(own_id, "id"):
        return own_id
    if own_id in (None, "") and record.fallback_id is not None:
        return record.fallback_id
    what = "id is missing" if own_id is None else text_fault(own_id, "id")
    faults.append(Fault(str(what), CLEAN))
    return record.fallback_id or record.where
