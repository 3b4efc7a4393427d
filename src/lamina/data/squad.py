"""SQuAD-shaped files -> examples. One walker reads, checks and repairs them.

Takes SQuAD 1.1 and 2.0 JSON, and tables of questions as CSV or JSONL, each plain, ``.gz`` or ``.xz``; the ending says
which. The walker yields every question as the example that can be made of it together with what was wrong with it:
`read` stops at the first problem, `check` lists them all, `clean` writes what could be repaired.

Choices where the formats leave room:

- A question without answers is unanswerable, unless ``is_impossible`` is false. ``plausible_answers`` are ignored.
- An answer whose text is empty is a problem, not an unanswerable question: files with withheld answers look like that,
  and scoring against them would reward silence. To predict on such a file read it with ``answers="ignore"``.
- Renamed duplicates are questions of their own (``id``, ``id~2``, …). They share a group only if they also share the
  question's text, because then one question is put to several contexts.
- Untitled articles with the same text count as one article, so that holding out by article does not leak it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lamina.data.examples import Example
from lamina.data.gold_answers import CLEAN_COMMAND, gold_answers
from lamina.data.problems import MISSING, Counts, Fault, Problem, Report, text_fault
from lamina.data.question_records import QUESTION_FORMATS, QuestionRecord, question_records, squad_records
from lamina.data.squad_format import SquadCorpus, SquadQuestion, answers_of
from lamina.data.tabular import format_of
from lamina.data.unique_ids import UniqueIds
from lamina.errors import LaminaError
from lamina.utils.files import check_apart, compress, decode_text, read_bytes, unpack, write_atomically

DuplicateIds = Literal["error", "rename"]
AnswerChecking = Literal["check", "ignore"]


@dataclass(frozen=True, slots=True)
class CleanReport:
    """The result of `clean`: what the original holds, how many questions were kept, what was mended or dropped."""

    counts: Counts
    kept: int
    repaired: list[Problem]
    dropped: list[Problem]


@dataclass(frozen=True, slots=True)
class CheckedQuestion:
    """A question as the walker leaves it: the example, repaired if need be (None: beyond repair), and its problems."""

    example: Example | None
    problems: tuple[Problem, ...] = ()


# The four things to do with a file


def read(path: Path, *, duplicate_ids: DuplicateIds = "error", answers: AnswerChecking = "check") -> list[Example]:
    """All examples of a file; the first problem is raised. ``answers="ignore"`` reads questions for predicting only."""
    return _examples(_walk_file(Path(path), duplicate_ids=duplicate_ids, answers=answers, counts=Counts()))


def parse_corpus(
    corpus: Mapping[str, object], name: str, *, duplicate_ids: DuplicateIds = "error", answers: AnswerChecking = "check"
) -> list[Example]:
    """The same as `read` for a SQuAD object in memory; `name` stands for the file in messages."""
    counts = Counts()
    return _examples(_walk(squad_records(corpus, name, counts), name, duplicate_ids, answers, counts))


def check(path: Path) -> Report:
    """What a file holds and every problem in it. Only a file that cannot be taken apart at all is raised."""
    counts = Counts()
    found = _walk_file(Path(path), duplicate_ids="error", answers="check", counts=counts)
    return Report(str(path), counts, [problem for each in found for problem in each.problems])


def clean(path: Path, out: Path) -> CleanReport:
    """Writes a repaired copy as SQuAD 2.0 JSON, at once or not at all; the original is never touched.

    Answers move to the nearest place where their text stands (then: stands but for case, white space and composed or
    decomposed characters), duplicate ids are renamed, what is beyond repair is dropped. Fields of the original that
    are not SQuAD's are not copied.
    """
    path, out = Path(path), Path(out)
    if format_of(out, QUESTION_FORMATS) != ".json":
        raise LaminaError(f"{out}: cleaned data is SQuAD JSON: name it .json, .json.gz or .json.xz")
    check_apart(path, out)
    counts = Counts()
    found = list(_walk_file(path, duplicate_ids="error", answers="check", counts=counts))
    kept = [each.example for each in found if each.example is not None]
    if not kept:
        first = next(problem for each in found for problem in each.problems)
        raise LaminaError(f"{path}: no question can be kept, nothing written (first problem: {first.where} {first.what})")
    text = json.dumps(to_squad(kept), ensure_ascii=False, separators=(",", ":"))
    write_atomically(out, compress(out, text.encode(errors="replace")))
    return CleanReport(
        counts=counts,
        kept=len(kept),
        repaired=[problem for each in found if each.example is not None for problem in each.problems],
        dropped=[problem for each in found if each.example is None for problem in each.problems],
    )


def to_squad(examples: Iterable[Example]) -> SquadCorpus:
    """Examples as a SQuAD 2.0 object, put together by article and context. `parse_corpus` gives the examples back."""
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


def _examples(found: Iterable[CheckedQuestion]) -> list[Example]:
    examples = []
    for each in found:
        if each.problems or each.example is None:
            raise LaminaError(str(each.problems[0]))
        examples.append(each.example)
    return examples


# The walker


def _walk_file(
    path: Path, *, duplicate_ids: DuplicateIds, answers: AnswerChecking, counts: Counts
) -> Iterator[CheckedQuestion]:
    data = read_bytes(path)
    ending, text = format_of(path, QUESTION_FORMATS), decode_text(path, unpack(path, data))
    return _walk(question_records(text, str(path), ending, counts), str(path), duplicate_ids, answers, counts)


def _walk(
    records: Iterable[QuestionRecord | Problem], file: str, duplicate_ids: DuplicateIds, answers: AnswerChecking, counts: Counts
) -> Iterator[CheckedQuestion]:
    walker = _SquadWalker(file, duplicate_ids, answers, counts)
    empty = True
    for record in records:
        empty = False
        yield CheckedQuestion(None, (record,)) if isinstance(record, Problem) else walker.checked(record)
    if empty:
        yield CheckedQuestion(None, (Problem(file, "", "holds no questions"),))


class _SquadWalker:
    """Checks one record after the other; remembers ids and groups."""

    def __init__(self, file: str, duplicate_ids: DuplicateIds, answers: AnswerChecking, counts: Counts) -> None:
        self._file, self._duplicate_ids, self._answers, self._counts = file, duplicate_ids, answers, counts
        self._ids = UniqueIds("~")
        self._groups: dict[tuple[str, str], str] = {}  # (own id, question) -> the first id that it was given

    def checked(self, record: QuestionRecord) -> CheckedQuestion:
        """The example that a record means, and everything that is wrong with it."""
        self._counts.questions += 1
        faults: list[Fault] = []
        question = record.fields.get("question", MISSING)
        if what := text_fault(question, "question"):
            faults.append(Fault(what, "write it or remove the question"))
        own_id = _own_id(record, faults)
        unique = self._unique_id(own_id, faults)
        answers = () if self._answers == "ignore" else gold_answers(record, faults)
        example = None
        if what is None and isinstance(question, str) and answers is not None:
            group = self._groups.setdefault((own_id, question), unique)
            group = str(record.fields.get("group") or group)
            example = Example(unique, question, record.context, answers, group, record.article)
            self._counts.unanswerable += not answers
            self._counts.answers += len(answers)
        return CheckedQuestion(example, tuple(Problem(self._file, record.place, fault.what, fault.fix) for fault in faults))

    def _unique_id(self, own_id: str, faults: list[Fault]) -> str:
        unique = self._ids.unique(own_id)
        if unique != own_id:
            self._counts.duplicate_ids += 1
            if self._duplicate_ids == "error":
                faults.append(Fault("the id is not unique", f'{CLEAN_COMMAND} or set duplicate_ids = "rename"'))
        return unique


def _own_id(record: QuestionRecord, faults: list[Fault]) -> str:
    own_id = record.fields.get("id")
    if isinstance(own_id, int) and not isinstance(own_id, bool):
        return str(own_id)
    if isinstance(own_id, str) and not text_fault(own_id, "id"):
        return own_id
    if own_id in (None, "") and record.fallback_id is not None:
        return record.fallback_id
    what = "id is missing" if own_id is None else text_fault(own_id, "id")
    faults.append(Fault(str(what), CLEAN_COMMAND))
    return record.fallback_id or record.where
