"""Data with problems: what can be used is used, and the rest is listed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lamina.data.examples import Sentence
from lamina.data.repair import are_sentences, repair_questions, repair_sentences
from lamina.data.sentences import ColumnOptions
from lamina.errors import LaminaError
from tests import tiny

GUESSED = ColumnOptions()
GOOD = {"question": "Who built it?", "context": "Ada built it.", "answer": "Ada"}


def test_questions_in_memory_are_repaired_or_left_out() -> None:
    rows: list[Any] = [GOOD, GOOD | {"answer": "ada"}, GOOD | {"answer": "Bob"}, GOOD | {"question": ""}]
    found = repair_questions(rows)
    assert [example.answers[0].text for example in found.examples] == ["Ada", "Ada"]
    assert [problem.where for problem in found.repaired] == ["row 2"]
    assert [problem.where for problem in found.left_out] == ["row 3", "row 4"]
    assert all("lamina data clean" not in str(problem) for problem in (*found.repaired, *found.left_out))


def test_questions_with_several_contexts_drop_those_with_problems(tmp_path: Path) -> None:
    good = {
        "qa": {"id": "a", "question": "Who?", "answers": ["Ada"]},
        "paragraphs": [{"contents": "Ada did."}, {"contents": "No."}],
    }
    bad = {"qa": {"id": "b", "question": "", "answers": []}, "paragraphs": [{"contents": "Ada did."}]}
    file = tmp_path / "several.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in (good, bad, good)))
    found = repair_questions(file)
    assert len(found.examples) == 4 and len({example.group for example in found.examples}) == 2
    assert len(found.left_out) == 1


def test_broken_sentences_are_left_out_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "moods.csv"
    file.write_text("text,label\nA fine day.,good\n,bad\nA bad day.,bad\nNo label.,\n")
    found = repair_sentences(str(file), GUESSED)
    assert [sentence.label for sentence in found.examples] == ["good", "bad"]
    assert [problem.where for problem in found.left_out] == ["line 3", "line 5"]


def test_data_without_a_usable_row_is_an_error() -> None:
    with pytest.raises(LaminaError, match=r"holds nothing that can be used .* Fix: correct the data"):
        repair_questions([GOOD | {"answer": "Bob"}])


@pytest.mark.parametrize(
    ("data", "sentences"),
    [
        ([GOOD], False),
        ("fables/dev", False),
        ("fables/sentiment/dev", True),
        ([{"text": "A fine day.", "label": "good"}], True),
        ([{"sentence1": "One.", "sentence2": "Two.", "score": 1.5}], True),
        ({"data": []}, False),
        ([Sentence("1", "One.", label="a")], True),
        (tiny.corpus(1), False),
    ],
)
def test_the_kind_of_data_is_seen_from_its_columns(data: Any, sentences: bool) -> None:
    assert are_sentences(data, GUESSED) is sentences


def test_named_columns_mean_sentences() -> None:
    assert are_sentences([{"words": "One.", "stars": 3}], ColumnOptions(first="words", label="stars"))
