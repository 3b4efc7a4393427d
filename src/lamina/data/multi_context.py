"""Questions with several paragraphs each -> examples, one a paragraph. Any paragraph may hold the answer.

A question is ``{"qa": {"question": …, "answer": …}, "paragraphs": [{"title": …, "contents": …}, …]}``. A JSONL file has one a
line. A JSON file has a list of them, alone or as ``{"data": […]}``. Both may have .gz or .xz after their ending.

Choices where the format leaves room:

- `answers`, a list, may replace `answer`. An empty list or text means that no paragraph answers the question. White space
  around an answer is ignored. A question whose answer is in none of its paragraphs is unanswerable, with a warning.
- A paragraph answers the question if an answer's text is in it, at its first occurrence. A paragraph may have `answers` of
  its own (``[{"text": …, "answer_start": …}]``), which are then its only answers.
- Texts are compared in the form NFC, so composed and decomposed characters are equal. ``가`` is not found in ``각``. The
  answer is quoted as the paragraph spells it, and its start is counted in the paragraph.
- `qa` may have an `id` (default: its number) and an `article`. The default article is the title of the first paragraph that
  holds an answer, else of the first. So a question is held out with all of its contexts.
- The example of paragraph k, counted from 0, has the id ``ID#k``. The question's id is its group.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NotRequired, TypedDict

from lamina.data.examples import Answer, Example
from lamina.data.gold_answers import stated_answers
from lamina.data.json_tables import jsonl_rows, parse_json
from lamina.data.problems import MISSING, RENAME, Counts, Fault, Problem, Report, describe_value, short, text_fault
from lamina.data.question_records import given_answers
from lamina.data.squad import AnswerChecking, DuplicateIds
from lamina.data.squad_format import SquadAnswer
from lamina.data.table_formats import FORMATS
from lamina.data.tabular import files_of, format_of
from lamina.data.unique_ids import UniqueIds
from lamina.errors import LaminaError, LaminaWarning
from lamina.utils.files import compress, decode_text, read_bytes, unpack, write_atomically

_INSIDE: Final = -1  # no place of the original: inside a grapheme that composing changed
_SHAPE: Final = 'write {"qa": {"question": …, "answer": …}, "paragraphs": [{"title": …, "contents": …}, …]}'


class ContextParagraph(TypedDict):
    """A paragraph of a question. Without `answers`, the answers of the question are searched in it."""

    title: str
    contents: str
    answers: NotRequired[list[SquadAnswer]]


class QuestionText(TypedDict):
    """A question with the texts of its answers."""

    id: str
    question: str
    answers: list[str]
    article: str


class MultiContextQuestion(TypedDict):
    """A question with its paragraphs, as `write_questions` writes it."""

    qa: QuestionText
    paragraphs: list[ContextParagraph]


Located = tuple[str, object]  # the place of a question in its file, and its value


def read_multi_context(
    path: Path, *, duplicate_ids: DuplicateIds = "error", answers: AnswerChecking = "check"
) -> list[Example]:
    """Return all examples of a file, question by question. The first problem raises LaminaError."""
    walker = _MultiContextWalker(str(path), duplicate_ids, answers)
    examples = []
    for found, problems in walker.walk(_stated_questions(path)):
        if problems:
            raise LaminaError(str(problems[0]))
        examples += found
    walker.warn()
    return examples


def repair_multi_context(path: Path) -> tuple[list[Example], list[Problem]]:
    """Return the examples of all questions without a problem, and the problems of the others. Duplicate ids are renamed."""
    walker = _MultiContextWalker(str(path), "rename", "check")
    found = list(walker.walk(_stated_questions(path)))
    walker.warn()
    return [example for examples, _ in found for example in examples], [problem for _, some in found for problem in some]


def check_multi_context(path: Path) -> Report:
    """Return the counts and all problems of a file. Only a file that cannot be parsed at all raises LaminaError."""
    walker = _MultiContextWalker(str(path), "error", "check")
    problems = [problem for _, problems in walker.walk(_stated_questions(path)) for problem in problems]
    walker.counts.articles = len(walker.articles)
    walker.warn()
    return Report(str(path), walker.counts, problems)


def holds_contexts(path: Path) -> bool:
    """Return whether a file seems to hold questions with paragraphs, by its ending and its first question."""
    try:
        _, first = next(iter(_stated_questions(path)), ("", None))
    except LaminaError:
        return False
    return isinstance(first, Mapping) and isinstance(first.get("qa"), Mapping)


def extra_fields(path: Path) -> set[str]:
    """Return the names of the fields that examples do not have, such as `qa.level`."""
    found: set[str] = set()
    for _, stated in _stated_questions(path):
        if not isinstance(stated, Mapping):
            continue
        found |= stated.keys() - {"qa", "paragraphs"}
        found |= {f"qa.{key}" for key in stated["qa"].keys() - {"id", "question", "answer", "answers", "article"}}
        if len({paragraph.get("title") for paragraph in stated["paragraphs"]}) > 1:
            found.add("paragraphs.title")  # a question keeps one title
        for paragraph in stated["paragraphs"]:
            found |= {f"paragraphs.{key}" for key in paragraph.keys() - {"title", "contents", "answers"}}
    return found


def write_questions(path: Path, questions: Iterable[Mapping[str, object]]) -> None:
    """Write questions as this module reads them, atomically."""
    if check_name(path) == ".json":
        text = json.dumps({"data": list(questions)}, ensure_ascii=False)
    else:
        text = "".join(json.dumps(question, ensure_ascii=False) + "\n" for question in questions)
    write_atomically(path, compress(path, text.encode(errors="replace")))


def check_name(path: Path) -> str:
    """Return the format that the ending of a file names: .json or .jsonl. Any other raises LaminaError."""
    kind = format_of(path, FORMATS)
    if kind not in (".json", ".jsonl"):
        raise LaminaError(f"{path}: a {kind} file cannot hold questions with several contexts. Fix: name it .jsonl or .json")
    return kind


def find_first(context: str, text: str) -> Answer | None:
    """Return the first occurrence of a text, as the context spells it. Composed and decomposed characters are equal.

    >>> find_first("the mill and the miller", "mill")
    Answer(text='mill', start=4)
    >>> apart = unicodedata.normalize("NFD", "서울 사람")
    >>> found = find_first(apart, "사람")
    >>> found.start, apart[found.start :] == found.text
    (6, True)
    """
    wanted = unicodedata.normalize("NFC", text)
    if unicodedata.is_normalized("NFC", context):
        at = context.find(wanted)
        return None if at < 0 else Answer(wanted, at)
    composed, places = _composed(context)
    at = composed.find(wanted)
    while at >= 0:
        first, last = places[at], places[at + len(wanted)]
        if _INSIDE not in (first, last):
            return Answer(context[first:last], first)
        at = composed.find(wanted, at + 1)
    return None


@lru_cache(maxsize=64)  # many questions share their paragraphs
def _composed(text: str) -> tuple[str, list[int]]:
    """Return a text in the form NFC, and the place in the text of each of its characters and of its end.

    Characters compose within graphemes only. In a grapheme that changed, only the first character has a place.
    """
    import regex

    parts: list[str] = []
    places: list[int] = []
    for match in regex.finditer(r"\X", text):
        composed = unicodedata.normalize("NFC", match.group())
        same = composed == match.group()
        parts.append(composed)
        places.extend(match.start() + n if same or n == 0 else _INSIDE for n in range(len(composed)))
    return "".join(parts), [*places, len(text)]


# The walker


@dataclass(slots=True)
class _MultiContextWalker:
    file: str
    duplicate_ids: DuplicateIds
    answers: AnswerChecking
    counts: Counts = field(default_factory=Counts)
    articles: set[str] = field(default_factory=set)
    ids: UniqueIds = field(default_factory=lambda: UniqueIds("~"))
    unanswered: int = 0  # questions with answers that no paragraph holds

    def walk(self, questions: Iterable[Located]) -> Iterator[tuple[list[Example], list[Problem]]]:
        for number, (where, stated) in enumerate(questions, 1):
            faults: list[tuple[str, Fault]] = []
            examples = self._question(stated, number, faults)
            yield examples, [Problem(self.file, where + at, fault.what, fault.fix) for at, fault in faults]
        if not self.counts.questions:
            yield [], [Problem(self.file, "", "holds no questions", "name a file with questions")]

    def warn(self) -> None:
        if self.unanswered:
            count = f"{self.unanswered} of {self.counts.questions} questions have an answer that is in none of their paragraphs"
            warnings.warn(f"{self.file}: {count}. They count as unanswerable", LaminaWarning, stacklevel=4)

    def _question(self, stated: object, number: int, faults: list[tuple[str, Fault]]) -> list[Example]:
        """Return the examples of a question, or none if it has a fault."""
        self.counts.questions += 1
        if isinstance(stated, Fault) or not isinstance(stated, Mapping) or not isinstance(stated.get("qa"), Mapping):
            faults.append(("", stated if isinstance(stated, Fault) else Fault("not a question with paragraphs", _SHAPE)))
            return []
        qa, paragraphs = stated["qa"], _paragraphs(stated, faults)
        if what := text_fault(qa.get("question", MISSING), "question"):
            faults.append((".qa", Fault(what, "write it or remove the question")))
        group = self._unique_id(qa.get("id"), number, faults)
        texts = self._texts(qa, faults)
        contexts = [_contents(k, paragraph, faults) for k, paragraph in enumerate(paragraphs)]
        held = [
            _held(k, paragraph, context, texts, faults) if self.answers != "ignore" else ()
            for k, (paragraph, context) in enumerate(zip(paragraphs, contexts, strict=True))
        ]
        if faults:
            return []
        titles = [_title(paragraph, context) for paragraph, context in zip(paragraphs, contexts, strict=True)]
        own = next((title for title, answers in zip(titles, held, strict=True) if answers), titles[0])
        article = str(qa.get("article") or own)
        self.articles.add(article)
        self.counts.contexts += len(contexts)
        self.counts.unanswerable += not any(held)
        self.unanswered += bool(texts) and not any(held)
        self.counts.answers += sum(map(len, held))
        return [
            Example(f"{group}#{k}", qa["question"], context, answers, group, article)
            for k, (context, answers) in enumerate(zip(contexts, held, strict=True))
        ]

    def _unique_id(self, given: object, number: int, faults: list[tuple[str, Fault]]) -> str:
        if given is not None and (isinstance(given, bool) or not isinstance(given, int | str) or not str(given).strip()):
            faults.append(
                (".qa", Fault(f"id is {describe_value(given)}, not a text or a whole number", "correct it or leave it out"))
            )
        elif what := text_fault("q" if given is None else str(given), "id"):
            faults.append((".qa", Fault(what, "correct it or leave it out")))
        own = f"q{number}" if given is None else str(given)
        unique = self.ids.unique(own)
        if unique != own:
            self.counts.duplicate_ids += 1
            if self.duplicate_ids == "error":
                what = f"the id {short(own)!r} is not unique"
                faults.append((".qa", Fault(what, f"rename it, or {RENAME}")))
        return unique

    def _texts(self, qa: Mapping[str, object], faults: list[tuple[str, Fault]]) -> list[str]:
        if self.answers == "ignore" or (self.answers == "optional" and given_answers(qa) is MISSING):
            return []
        try:
            stated = stated_answers(given_answers(qa), None)
        except Fault as fault:
            faults.append((".qa", fault))
            return []
        for text, _ in stated:
            if what := text_fault(text, "an answer"):
                faults.append((".qa", Fault(what, "give a question that no paragraph answers an empty list")))
                return []
        return [str(text).strip() for text, _ in stated]


def _stated_questions(path: Path) -> Iterator[Located]:
    """Yield the questions of all files that a path names, each with its place."""
    files = files_of(path)
    for file in files:
        prefix = f"{file.name} " if len(files) > 1 else ""
        yield from ((prefix + where, question) for where, question in _questions_of_file(file))


def _questions_of_file(path: Path) -> Iterator[Located]:
    kind, text = check_name(path), decode_text(path, unpack(path, read_bytes(path)))
    if kind == ".jsonl":
        yield from ((f"line {line}", row) for line, row in jsonl_rows(text, str(path)))
        return
    found, prefix = parse_json(text, str(path)), ""
    if isinstance(found, Mapping) and isinstance(found.get("data"), list):
        found, prefix = found["data"], "data"
    if not isinstance(found, list):
        raise LaminaError(f"{path}: expected a list of questions, found {describe_value(found)}. Fix: write a list")
    yield from ((f"{prefix}[{number}]", row) for number, row in enumerate(found))


def _paragraphs(question: Mapping[str, object], faults: list[tuple[str, Fault]]) -> list[Any]:
    paragraphs = question.get("paragraphs")
    if not isinstance(paragraphs, list) or not paragraphs:
        what = "paragraphs are missing" if paragraphs is None else f"paragraphs are {describe_value(paragraphs)}"
        what = "there are no paragraphs" if paragraphs == [] else what
        faults.append(("", Fault(what, "give at least one paragraph, in a list")))
        return []
    return paragraphs


def _contents(k: int, paragraph: object, faults: list[tuple[str, Fault]]) -> str:
    value = paragraph.get("contents", MISSING) if isinstance(paragraph, Mapping) else paragraph
    what = text_fault(value, "contents") if isinstance(paragraph, Mapping) else "not a paragraph"
    if what is not None:
        faults.append((f".paragraphs[{k}]", Fault(what, 'write {"title": …, "contents": …}')))
        return ""
    return str(value)


def _held(k: int, paragraph: Any, context: str, texts: list[str], faults: list[tuple[str, Fault]]) -> tuple[Answer, ...]:
    """Return the answers of a paragraph: its own if it has them, else those of the question whose text is in it."""
    if not context:
        return ()
    if paragraph.get("answers") is None:
        found = [find_first(context, text) for text in texts]
        return tuple(dict.fromkeys(answer for answer in found if answer is not None))
    try:
        return tuple(_stated(context, text, start) for text, start in stated_answers(paragraph["answers"], None))
    except Fault as fault:
        faults.append((f".paragraphs[{k}]", fault))
        return ()


def _stated(context: str, text: Any, start: Any) -> Answer:
    if what := text_fault(text, "an answer"):
        raise Fault(what, "give a paragraph without answers an empty list")
    found = find_first(context, text) if start is None else None
    if start is None and found is not None:
        return found
    if type(start) is int and start >= 0 and context.startswith(text, start):
        return Answer(text, start)
    where = "in the contents" if start is None else f"at answer_start {describe_value(start)}"
    raise Fault(f"answer {short(text)!r} is not {where}", "correct it, or leave out the paragraph's answers to have them found")


def _title(paragraph: Mapping[str, object], context: str) -> str:
    return str(paragraph.get("title") or "context-" + hashlib.blake2b(context.encode(), digest_size=8).hexdigest())
