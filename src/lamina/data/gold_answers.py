"""Answers of a record -> spans of its context, and the faults of answers that are no span of it."""

from __future__ import annotations

from typing import Any, Final

from lamina.data.aligning import nearest
from lamina.data.examples import Answer
from lamina.data.problems import CLEAN, DROP, MISSING, Fault, describe_value, short
from lamina.data.question_records import QuestionRecord

NO_ANSWER: Final = "leave the answer empty if the question has none, or correct it"
_WORDS_FOR_NONE: Final = frozenset(
    ("n/a", "na", "none", "null", "nan", "nil", "-", "no answer", "not answerable", "unanswerable")
)


def gold_answers(record: QuestionRecord, faults: list[Fault]) -> tuple[Answer, ...] | None:
    """Return the answers found in the context, or None if the question must be dropped. Adds to `faults`."""
    impossible = record.fields.get("is_impossible")
    if impossible is not None and not isinstance(impossible, bool):
        faults.append(Fault(f"is_impossible is {describe_value(impossible)}, not true or false", "write true or false"))
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


def _impossible_with_answers(stated: list[tuple[object, object]], faults: list[Fault]) -> tuple[Answer, ...] | None:
    if all(text == "" for text, _ in stated):
        faults.append(Fault('is_impossible is true but there is an answer ""', CLEAN))
        return ()
    faults.append(Fault("is_impossible is true but there are answers", "remove the answers or set it to false"))
    return None


def stated_answers(value: object, starts: object) -> list[tuple[object, object]]:
    """Return answers of any known shape as pairs of text and start. A start is None if it is not given."""
    if value is MISSING:
        raise Fault("answers are missing", "name the column answer or answers; leave it empty for an unanswerable question")
    if value is None:
        return []
    if isinstance(value, str):
        start = starts[0] if isinstance(starts, list) and len(starts) == 1 else starts
        return [(value, start)] if value.strip() else []
    if isinstance(value, dict):
        texts, starts = value.get("text"), value.get("answer_start", value.get("start"))
        value = texts if isinstance(texts, list) else [texts]
    if not isinstance(value, list):
        raise Fault(f"answers are {describe_value(value)}, not a list", "write a list of texts or of {text, answer_start}")
    if not isinstance(starts, list):
        given = starts is not None and starts == starts  # NaN in a column with missing values
        if given and len(value) > 1 and not all(isinstance(answer, dict) for answer in value):
            raise Fault(f"{len(value)} answers but one answer_start", "give one start for each answer")
        starts = [starts] if starts is not None and len(value) == 1 else [None] * len(value)
    if len(starts) != len(value):
        raise Fault(f"{len(value)} answers but {len(starts)} answer_start", "give one start for each answer")
    return [
        (answer.get("text"), answer.get("answer_start", answer.get("start"))) if isinstance(answer, dict) else (answer, start)
        for answer, start in zip(value, starts, strict=True)
    ]


def _align(record: QuestionRecord, text: object, start: object, faults: list[Fault]) -> Answer | None:
    """Return the answer as the context has it, or None. Adds a fault unless the text is exactly at its start."""
    if not isinstance(text, str):
        faults.append(Fault("an answer has no text" if text is None else f"an answer's text is {describe_value(text)}"))
        return None
    if not text.strip():
        faults.append(Fault("an answer's text is empty", "give an unanswerable question no answers at all"))
        return None
    context = record.context
    if type(start) is int and start >= 0 and context.startswith(text, start):
        return Answer(text, start)
    found = nearest(context, text, _whole_number(start))
    quiet = start is None and not record.needs_starts and found is not None and found.text == text
    if not quiet:
        faults.append(_misplaced(text, start, found, record.needs_starts))
    return found


def _misplaced(text: str, start: object, found: Answer | None, needs_starts: bool) -> Fault:
    shown = repr(short(text))
    if found is None:
        fix = NO_ANSWER if text.strip().lower() in _WORDS_FOR_NONE else DROP
        return Fault(f"answer {shown} is not in the context", fix)
    place = f"found at {found.start}" if found.text == text else f"found {short(found.text)!r} at {found.start}"
    if start is None:
        wrong = "has no answer_start" if needs_starts else "is not in the context as written"
    elif type(start) is not int:
        wrong = f"has an answer_start that is not a whole number ({describe_value(start)})"
    else:
        wrong = f"is not at answer_start {start}"
    return Fault(f"answer {shown} {wrong}; {place}", CLEAN)


def _whole_number(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None
