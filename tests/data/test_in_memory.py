"""Data in memory is read as files are."""

from __future__ import annotations

import datetime
import logging
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import pytest

from lamina.data.examples import Answer, Sentence
from lamina.data.in_memory import examples_of, sentences_of
from lamina.data.plain_values import plain_row
from lamina.data.sentences import ColumnOptions, SentenceReading
from lamina.errors import LaminaError
from tests.data.owls import CONTEXT, EXAMPLES, ROWS

HUB_ROWS = [
    {**{key: row[key] for key in ("id", "title", "question", "context")}, "answers": answers}
    for row, answers in zip(ROWS, ({"text": ["owl"], "answer_start": [28]}, {"text": [], "answer_start": []}), strict=True)
]


def test_rows_are_read_as_in_files() -> None:
    assert examples_of(ROWS) == examples_of(tuple(ROWS)) == examples_of(iter(ROWS)) == EXAMPLES
    assert examples_of(HUB_ROWS) == EXAMPLES
    assert examples_of({name: [row[name] for row in ROWS] for name in ROWS[0]}) == EXAMPLES


def test_examples_stay_as_they_are() -> None:
    assert examples_of(EXAMPLES) == EXAMPLES
    with pytest.raises(LaminaError, match=r"^mine, row 3: the id 'a' is not unique\. Fix: "):
        examples_of([*EXAMPLES, EXAMPLES[0]], "mine")
    with pytest.raises(TypeError, match="expected only Example objects"):
        examples_of([EXAMPLES[0], ROWS[0]])


def test_a_squad_object_and_its_articles() -> None:
    questions = [
        {"id": "a", "question": "What hunts?", "answers": [{"text": "owl", "answer_start": 28}]},
        {"id": "b", "question": "What swims?", "answers": [], "is_impossible": True},
    ]
    articles = [{"title": "Owls", "paragraphs": [{"context": CONTEXT, "qas": questions}]}]
    assert examples_of({"version": "v2.0", "data": articles}) == examples_of(articles) == EXAMPLES


def test_a_data_frame_whose_missing_values_are_unanswerable() -> None:
    frame = pd.DataFrame(ROWS)
    assert np.isnan(frame["answer_start"][1]), "the column holds floats"
    assert examples_of(frame) == EXAMPLES
    nested = pd.DataFrame(HUB_ROWS)
    nested["answers"] = [{name: np.array(values) for name, values in cell.items()} for cell in nested["answers"]]
    assert examples_of(nested) == EXAMPLES
    frame["answer"] = frame["answer"].astype("string")
    assert frame["answer"][1] is pd.NA
    assert examples_of(frame) == EXAMPLES


def test_a_dataset_of_the_hub() -> None:
    datasets = pytest.importorskip("datasets")
    found = datasets.Dataset.from_list(HUB_ROWS)
    assert examples_of(found) == EXAMPLES
    assert examples_of(found[:1]) == EXAMPLES[:1], "a slice is a dict of columns"
    with pytest.raises(TypeError, match=r"several datasets \(train\): choose one, as in data\['train'\]"):
        examples_of(datasets.DatasetDict({"train": found}))


def test_usual_names_of_columns_are_taken_and_noted_once(caplog: pytest.LogCaptureFixture) -> None:
    rows = [{"Query": "What hunts?", "passage": CONTEXT, "text": "x", "answer_text": "mice"}]
    with caplog.at_level(logging.WARNING, "lamina"):
        for _ in range(2):
            (example,) = examples_of(rows, "noted once")
    assert example.answers == (Answer("mice", 19),)
    assert [record.getMessage() for record in caplog.records] == [
        "noted once: columns: question from 'Query', context from 'passage' (not 'text'), "
        "answers from 'answer_text' (not 'text')"
    ]


def test_ids_and_articles_are_made_where_rows_have_none() -> None:
    rows = [{"question": "q", "context": context, "answer": ""} for context in ("c", "d", "c")]
    examples = examples_of(rows)
    assert [example.id for example in examples] == ["row-1", "row-2", "row-3"]
    assert examples[0].article == examples[2].article != examples[1].article


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": "cat"}, "mine, row 1 (id a): answer 'cat' is not in the context. Fix: correct it or remove it"),
        ({"answer_start": 3}, "mine, row 1 (id a): answer 'owl' is not at answer_start 3; found at 9. Fix: correct the row"),
        ({"id": "b"}, 'mine, row 2 (id b): the id is not unique. Fix: correct the row or set duplicate_ids = "rename"'),
        ({"question": None}, "mine, row 1 (id a): question is null, not a text. Fix: write it or remove the question"),
    ],
)
def test_a_wrong_row_is_one_clear_line(change: dict[str, object], message: str) -> None:
    with pytest.raises(LaminaError) as caught:
        examples_of([ROWS[0] | change, ROWS[1]], "mine")
    assert str(caught.value).startswith(message)


def test_ids_can_be_renamed_and_answers_ignored() -> None:
    assert [e.id for e in examples_of([*ROWS, ROWS[0]], duplicate_ids="rename")] == ["a", "b", "a~2"]
    blind = [{"question": "What hunts?", "context": CONTEXT}]
    assert examples_of(blind, answers="ignore")[0].answers == ()
    with pytest.raises(LaminaError, match="answers are missing"):
        examples_of(blind)


@pytest.mark.parametrize("data", ["train.csv", 5, None, [5], {"question": "q"}])
def test_other_types_are_a_mistake_of_the_caller(data: object) -> None:
    with pytest.raises(TypeError, match=r"^mine"):
        examples_of(data, "mine")
    with pytest.raises(TypeError, match=r"^mine"):
        sentences_of(data, "mine")


def test_empty_and_uneven_data() -> None:
    with pytest.raises(LaminaError, match=r"^data: holds no rows\. Fix: "):
        examples_of([])
    with pytest.raises(LaminaError, match=r"^data: the columns have different lengths .* Fix: "):
        examples_of({"question": ["q"], "context": []})
    with pytest.raises(LaminaError, match="but has no context: found 'question'"):
        examples_of([{"question": "q"}])


# Sentences


def test_sentences_from_rows_frames_and_datasets() -> None:
    rows = [{"text": "fine", "label": 1}, {"text": "bad", "label": 0}]
    expected = [Sentence("1", "fine", None, "1"), Sentence("2", "bad", None, "0")]
    assert sentences_of(rows) == sentences_of(pd.DataFrame(rows)) == sentences_of(expected) == expected
    datasets = pytest.importorskip("datasets")
    assert sentences_of(datasets.Dataset.from_list(rows)) == expected


def test_sentences_by_named_columns_without_labels_and_with_broken_rows() -> None:
    rows = [{"tweet": "fine", "mood": "good"}, {"tweet": "bad", "mood": float("nan")}]
    columns = ColumnOptions(first="tweet", label="mood")
    assert [s.label for s in sentences_of(rows, how=SentenceReading(columns, labelled=False))] == ["good", None]
    with pytest.raises(LaminaError, match=r"^mine, row 2: mood is empty: 1 of 2 rows is broken\. Fix: "):
        sentences_of(rows, "mine", SentenceReading(columns))


def test_dates_decimals_and_numpy_times_become_values_of_json() -> None:
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5)
    row = {
        "moment": pd.Timestamp(moment),
        "day": moment.date(),
        "time": moment.time(),
        "nanoseconds": np.datetime64("2026-01-02T03:04:05.000000000"),
        "times": np.array(["2026-01-02", "NaT"], "datetime64[ns]"),
        "missing": pd.NaT,
        "span": pd.Timedelta(seconds=90),
        "price": Decimal("2.50"),
        "stars": Decimal("3"),
        "none": Decimal("NaN"),
        "key": UUID(int=1),
    }
    expected = {
        "moment": "2026-01-02T03:04:05",
        "day": "2026-01-02",
        "time": "03:04:05",
        "nanoseconds": "2026-01-02T03:04:05",
        "times": ["2026-01-02T00:00:00", None],
        "missing": None,
        "span": "0 days 00:01:30",
        "price": 2.5,
        "stars": 3,
        "none": None,
        "key": "00000000-0000-0000-0000-000000000001",
    }
    assert plain_row(row) == expected


@pytest.mark.parametrize(
    ("label", "what"), [(b"\xff", "label is bytes, not a text or a number"), ("\ud800", "label holds half")]
)
def test_a_label_that_cannot_be_stored_is_a_broken_row(label: object, what: str) -> None:
    with pytest.raises(LaminaError, match=rf"^data, row 2: {what}"):
        sentences_of([{"text": "fine", "label": "good"}, {"text": "awful", "label": label}])


def test_bytes_as_a_question_name_their_column() -> None:
    with pytest.raises(LaminaError, match=r"^data, row 1 \(id a\): question is bytes, not a text\. Fix: "):
        examples_of([{**ROWS[0], "question": b"What?"}])


def test_unused_bytes_are_ignored() -> None:
    assert examples_of([{**row, "photo": b"\xff"} for row in ROWS]) == EXAMPLES


def test_names_of_columns_may_have_spaces_around_and_inside() -> None:
    rows = [{f" {name.replace('_', ' ').title()} ": value for name, value in row.items()} for row in ROWS]
    assert examples_of(rows) == EXAMPLES
    assert sentences_of([{" Text": "fine", "LABEL ": 1}]) == [Sentence("1", "fine", None, "1")]


def test_whole_numbers_as_ids_beside_a_missing_one() -> None:
    frame = pd.DataFrame({**ROWS[0], "id": number} for number in (1, None, 3))
    assert frame["id"].dtype == float
    assert [example.id for example in examples_of(frame)] == ["1", "row-2", "3"]
