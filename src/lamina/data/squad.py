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

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast

from lamina.data.aligning import nearest
from lamina.data.examples import Answer, Example
from lamina.data.problems import MISSING, Counts, Fault, Problem, Report, described, id_note, short, text_fault
from lamina.data.rows import check_apart, csv_rows, jsonl_rows, kind_of, parse_json
from lamina.errors import LaminaError
from lamina.utils.files import decode, pack, read_bytes, unpack, write_atomically

Duplicates = Literal["error", "rename"]
Answers = Literal["check", "ignore"]

_CLEAN: Final = "run `lamina data clean`"


# What the walker finds


@dataclass(frozen=True, slots=True)
class CleanReport:
    """The result of `clean`: what the original holds, how many questions were kept, what was mended or dropped."""

    file: str
    out: str
    counts: Counts
    kept: int
    repaired: list[Problem]
    dropped: list[Problem]


@dataclass(frozen=True, slots=True)
class Found:
    """A question as the walker leaves it: the example, repaired if need be (None: beyond repair), and its problems."""

    example: Example | None
    problems: tuple[Problem, ...] = ()


# The four things to do with a file


def read(path: Path, *, duplicate_ids: Duplicates = "error", answers: Answers = "check") -> list[Example]:
    """All examples of a file; the first problem is raised. ``answers="ignore"`` reads questions for predicting only."""
    return _examples(_walk_file(Path(path), duplicate_ids=duplicate_ids, answers=answers, counts=Counts()))


def parse(
    corpus: Mapping[str, Any], name: str, *, duplicate_ids: Duplicates = "error", answers: Answers = "check"
) -> list[Example]:
    """The same as `read` for a SQuAD object in memory; `name` stands for the file in messages."""
    walker = _Walker(name, duplicate_ids, answers, Counts())
    return _examples(walker.walk(walker.squad(corpus)))


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
    if kind_of(out) != ".json":
        raise LaminaError(f"{out}: cleaned data is SQuAD JSON: name it .json, .json.gz or .json.xz")
    check_apart(path, out)
    counts = Counts()
    found = list(_walk_file(path, duplicate_ids="error", answers="check", counts=counts))
    kept = [each.example for each in found if each.example is not None]
    if not kept:
        first = next(problem for each in found for problem in each.problems)
        raise LaminaError(f"{path}: no question can be kept, nothing written (first problem: {first.where} {first.what})")
    text = json.dumps(to_squad(kept), ensure_ascii=False, separators=(",", ":"))
    write_atomically(out, pack(out, text.encode(errors="replace")))
    return CleanReport(
        file=str(path),
        out=str(out),
        counts=counts,
        kept=len(kept),
        repaired=[problem for each in found if each.example is not None for problem in each.problems],
        dropped=[problem for each in found if each.example is None for problem in each.problems],
    )


def to_squad(examples: Iterable[Example]) -> dict[str, Any]:
    """Examples as a SQuAD 2.0 object, put together by article and context. `parse` gives the examples back."""
    articles: dict[str, dict[str, list[dict[str, Any]]]] = {}
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


def _question(example: Example) -> dict[str, Any]:
    question: dict[str, Any] = {
        "id": example.id,
        "question": example.question,
        "answers": [{"text": answer.text, "answer_start": answer.start} for answer in example.answers],
        "is_impossible": not example.answers,
    }
    if example.group != example.id:
        question["group"] = example.group
    return question


def _examples(found: Iterator[Found]) -> list[Example]:
    examples = []
    for each in found:
        if each.problems:
            raise LaminaError(str(each.problems[0]))
        examples.append(cast(Example, each.example))
    return examples


# The walker


@dataclass(frozen=True, slots=True)
class _Record:
    """A question as a file states it, nothing checked but its context. `sets_starts`: answers must give their start."""

    where: str
    context: str
    article: str
    fields: Mapping[str, Any]
    answers: Any
    starts: Any = None
    fallback_id: str | None = None
    sets_starts: bool = True


def _walk_file(path: Path, *, duplicate_ids: Duplicates, answers: Answers, counts: Counts) -> Iterator[Found]:
    data = read_bytes(path)
    kind, text = kind_of(path), decode(path, unpack(path, data))
    walker = _Walker(str(path), duplicate_ids, answers, counts)
    if kind == ".json":
        return walker.walk(walker.squad(parse_json(text, str(path))))
    rows = jsonl_rows if kind == ".jsonl" else csv_rows
    return walker.walk(walker.table(rows(text, str(path))))


@dataclass(slots=True)
class _Walker:
    file: str
    duplicate_ids: Duplicates
    answers: Answers
    counts: Counts
    times: dict[str, int] = field(default_factory=dict)  # how often each id came
    groups: dict[tuple[str, str], str] = field(default_factory=dict)

    def walk(self, records: Iterable[_Record | Problem]) -> Iterator[Found]:
        anything = False
        for record in records:
            anything = True
            yield Found(None, (record,)) if isinstance(record, Problem) else self.judge(record)
        if not anything:
            yield Found(None, (Problem(self.file, "", "holds no questions"),))

    def squad(self, corpus: object) -> Iterator[_Record | Problem]:
        """The questions of a SQuAD object, in their order."""
        if not isinstance(corpus, Mapping) or not isinstance(corpus.get("data"), list):
            found = f"the keys {short(', '.join(corpus))}" if isinstance(corpus, Mapping) else described(corpus)
            raise LaminaError(f'{self.file}: not SQuAD JSON: expected {{"data": [articles…]}}, found {found}')
        untitled: dict[object, str] = {}
        for i, article in enumerate(corpus["data"]):
            where = f"data[{i}]"
            self.counts.articles += 1
            if not isinstance(article, dict) or not isinstance(article.get("paragraphs"), list):
                yield Problem(self.file, where, 'not an article: expected {"title": …, "paragraphs": […]}')
                continue
            title = str(article.get("title") or "") or untitled.setdefault(_first_context(article), where)
            for j, paragraph in enumerate(article["paragraphs"]):
                yield from self._paragraph(paragraph, f"{where}.paragraphs[{j}]", title)

    def _paragraph(self, paragraph: object, where: str, title: str) -> Iterator[_Record | Problem]:
        self.counts.contexts += 1
        if not isinstance(paragraph, dict) or not isinstance(paragraph.get("qas"), list):
            yield Problem(self.file, where, 'not a paragraph: expected {"context": …, "qas": […]}')
            return
        context = paragraph.get("context", MISSING)
        if fault := text_fault(context, "context"):
            yield Problem(self.file, where, fault, f"mend it or remove the paragraph ({len(paragraph['qas'])} questions)")
            return
        for k, question in enumerate(paragraph["qas"]):
            at = f"{where}.qas[{k}]"
            if isinstance(question, dict):
                yield _Record(at, context, title, question, question.get("answers", MISSING))
            else:
                yield Problem(self.file, at, f"not a question: expected an object, found {described(question)}")

    def table(self, rows: Iterable[tuple[int, dict[str, Any] | Fault]]) -> Iterator[_Record | Problem]:
        """The questions of a table. Equal contexts are one article where no title or article is given."""
        articles: dict[str, str] = {}  # context -> the name that stands for it
        names: set[str] = set()
        for line, row in rows:
            where = f"line {line}"
            if isinstance(row, Fault):
                yield Problem(self.file, where, row.what, row.fix)
                continue
            context = row.get("context", MISSING)
            if fault := text_fault(context, "context"):
                yield Problem(self.file, where + id_note(row.get("id")), fault, "mend it or remove the line")
                continue
            if context not in articles:
                articles[context] = "context-" + hashlib.blake2b(context.encode(), digest_size=8).hexdigest()
            article = str(row.get("title") or row.get("article") or articles[context])
            names.add(article)
            self.counts.articles, self.counts.contexts = len(names), len(articles)
            yield _Record(
                where,
                context,
                article,
                row,
                said_answers(row),
                starts=row.get("answer_start"),
                fallback_id=f"row-{line}",
                sets_starts=False,
            )

    def judge(self, record: _Record) -> Found:
        """The example that a record means, and everything that is wrong with it."""
        self.counts.questions += 1
        faults: list[Fault] = []
        question = record.fields.get("question", MISSING)
        if what := text_fault(question, "question"):
            faults.append(Fault(what, "write it or remove the question"))
            question = None
        own_id = _own_id(record, faults)
        unique = self._unique_id(own_id, faults)
        answers = () if self.answers == "ignore" else _gold(record, faults)
        example = None
        if question is not None and answers is not None:
            group = self.groups.setdefault((own_id, question), unique)
            group = str(record.fields.get("group") or group)
            example = Example(unique, question, record.context, answers, group, record.article)
            self.counts.unanswerable += not answers
            self.counts.answers += len(answers)
        if not faults:
            return Found(example)
        where = record.where + id_note(record.fields.get("id"))
        return Found(example, tuple(Problem(self.file, where, fault.what, fault.fix) for fault in faults))

    def _unique_id(self, own_id: str, faults: list[Fault]) -> str:
        unique = unique_id(own_id, self.times)
        if unique != own_id:
            self.counts.duplicate_ids += 1
            if self.duplicate_ids == "error":
                faults.append(Fault("the id is not unique", f'{_CLEAN} or set duplicate_ids = "rename"'))
        return unique


def _first_context(article: Mapping[str, Any]) -> object:
    """What an untitled article is known by: the text that it starts with, or else itself."""
    first = article["paragraphs"][0] if article["paragraphs"] else None
    context = first.get("context") if isinstance(first, dict) else None
    return context if isinstance(context, str) else id(article)


def said_answers(fields: Mapping[str, Any]) -> Any:
    """What a row gives as its answers, under either name; null is no answer where the other name has one."""
    return fields["answer"] if fields.get("answers") is None and "answer" in fields else fields.get("answers", MISSING)


def unique_id(own: str, times: dict[str, int]) -> str:
    """An id that has not come yet: its own, else with a number. `times` says how often each came, and counts this one."""
    unique = own
    while unique in times:
        times[own] += 1
        unique = f"{own}~{times[own]}"
    times[unique] = 1
    return unique


def _own_id(record: _Record, faults: list[Fault]) -> str:
    own_id = record.fields.get("id")
    if isinstance(own_id, int) and not isinstance(own_id, bool):
        return str(own_id)
    if isinstance(own_id, str) and not text_fault(own_id, "id"):
        return own_id
    if own_id in (None, "") and record.fallback_id is not None:
        return record.fallback_id
    what = "id is missing" if own_id is None else text_fault(own_id, "id")
    faults.append(Fault(str(what), _CLEAN))
    return record.fallback_id or record.where


# Answers


def _gold(record: _Record, faults: list[Fault]) -> tuple[Answer, ...] | None:
    """The answers that stand in the context; None where the question must be dropped."""
    impossible = record.fields.get("is_impossible")
    if impossible is not None and not isinstance(impossible, bool):
        faults.append(Fault(f"is_impossible is {described(impossible)}, not true or false", "write true or false"))
        return None
    if record.answers is MISSING and impossible:
        return ()
    try:
        stated = stated_answers(record.answers, record.starts)
    except Fault as fault:
        faults.append(fault)
        return None
    if impossible and stated:
        return _impossible_with_answers(stated, faults)
    if impossible is False and not stated:
        faults.append(Fault("is_impossible is false but there are no answers", "give answers or set it to true"))
        return None
    aligned = [_align(record, text, start, faults) for text, start in stated]
    answers = tuple(answer for answer in aligned if answer is not None)
    return None if stated and not answers else answers


def _impossible_with_answers(stated: list[tuple[Any, Any]], faults: list[Fault]) -> tuple[Answer, ...] | None:
    if all(text == "" for text, _ in stated):
        faults.append(Fault('is_impossible is true but there is an answer ""', _CLEAN))
        return ()
    faults.append(Fault("is_impossible is true but there are answers", "remove the answers or set it to false"))
    return None


def stated_answers(value: Any, starts: Any) -> list[tuple[Any, Any]]:
    """Any of the known shapes of answers as pairs of text and start, where None is a start not given."""
    if value is MISSING:
        raise Fault("answers are missing", "an unanswerable question has an empty list or text")
    if value is None:
        return []
    if isinstance(value, str):
        start = starts[0] if isinstance(starts, list) and len(starts) == 1 else starts
        return [(value, start)] if value.strip() else []
    if isinstance(value, dict):
        texts, starts = value.get("text"), value.get("answer_start", value.get("start"))
        value = texts if isinstance(texts, list) else [texts]
    if not isinstance(value, list):
        raise Fault(f"answers are {described(value)}, not a list", "a list of texts or of {text, answer_start}")
    if not isinstance(starts, list):
        starts = [starts] if starts is not None and len(value) == 1 else [None] * len(value)
    if len(starts) != len(value):
        raise Fault(f"{len(value)} answers but {len(starts)} answer_start", "give one start for each answer")
    return [
        (answer.get("text"), answer.get("answer_start", answer.get("start"))) if isinstance(answer, dict) else (answer, start)
        for answer, start in zip(value, starts, strict=True)
    ]


def _align(record: _Record, text: Any, start: Any, faults: list[Fault]) -> Answer | None:
    """The answer as the context quotes it; a fault for anything but a text that stands where it says."""
    if not isinstance(text, str):
        faults.append(Fault("an answer has no text" if text is None else f"an answer's text is {described(text)}"))
        return None
    if not text.strip():
        faults.append(Fault("an answer's text is empty", "an unanswerable question has no answers at all"))
        return None
    context = record.context
    if type(start) is int and start >= 0 and context.startswith(text, start):
        return Answer(text, start)
    found = nearest(context, text, _whole_number(start))
    quiet = start is None and not record.sets_starts and found is not None and found.text == text
    if not quiet:
        faults.append(_misplaced(text, start, found, record.sets_starts))
    return found


def _misplaced(text: str, start: Any, found: Answer | None, sets_starts: bool) -> Fault:
    shown = repr(short(text))
    if found is None:
        return Fault(f"answer {shown} is not in the context", "mend it (`lamina data clean` drops it)")
    place = f"found at {found.start}" if found.text == text else f"found {short(found.text)!r} at {found.start}"
    if start is None:
        wrong = "has no answer_start" if sets_starts else "is not in the context as written"
    elif type(start) is not int:
        wrong = f"has an answer_start that is not a whole number ({described(start)})"
    else:
        wrong = f"is not at answer_start {start}"
    return Fault(f"answer {shown} {wrong}; {place}", _CLEAN)


def _whole_number(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None
