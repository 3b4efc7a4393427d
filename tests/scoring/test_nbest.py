from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.answers.decode import Candidate, Prediction
from lamina.answers.formats import nbest_json
from lamina.errors import LaminaError
from lamina.scoring.nbest import answer_counts, ranked_texts
from lamina.scoring.squad import exact
from lamina.utils.files import read_json, write_json

GOLDS = {"a": ["the fox", "a fox"], "b": ["hen"], "c": ["hen"], "d": [], "e": [], "f": []}
RANKED = {
    "a": ["Fox!", "hen"],  # right, by the official normalisation
    "b": ["", "The hen."],  # second
    "c": ["fox", "", "hen"],  # the third does not count
    "d": ["", "fox"],  # right
    "e": ["fox", ""],  # second
    "f": ["fox"],  # there is no second
}


def prediction(name: str, null: float, **scores: float) -> Prediction:
    candidates = sorted((Candidate(text, 0, len(text), score) for text, score in scores.items()), key=lambda c: -c.score)
    return Prediction(name, null, tuple(candidates))


def test_counts() -> None:
    assert answer_counts(GOLDS, RANKED) == {
        "HasAns_total": 3,
        "HasAns_right": 1,
        "NoAns_total": 3,
        "NoAns_right": 1,
        "wrong": 4,
        "second_right": 2,
        "HasAns_wrong": 2,
        "HasAns_second_right": 1,
    }


texts = st.sampled_from(["", "fox", "the fox", "hen", "A hen"])


@given(
    st.lists(
        st.tuples(st.lists(texts.filter(bool), max_size=2), st.lists(texts, min_size=1, max_size=3, unique=True)), min_size=1
    )
)
def test_counts_equal_those_of_a_loop(rows: list[tuple[list[str], list[str]]]) -> None:
    golds = {str(number): wanted for number, (wanted, _) in enumerate(rows)}
    ranked = {str(number): predicted for number, (_, predicted) in enumerate(rows)}
    right = second = answerable_second = 0
    for wanted, predicted in rows:
        hits = [any(exact(text, gold) for gold in wanted or [""]) for text in predicted]
        right += hits[0]
        if not hits[0] and len(hits) > 1 and hits[1]:
            second += 1
            answerable_second += bool(wanted)
    counts = answer_counts(golds, ranked)
    assert counts["HasAns_right"] + counts["NoAns_right"] == right
    assert counts["HasAns_total"] + counts["NoAns_total"] == len(rows)
    assert counts["wrong"] == len(rows) - right
    assert (counts["second_right"], counts["HasAns_second_right"]) == (second, answerable_second)


def test_predictions_and_their_file_have_the_same_ranks(tmp_path: Path) -> None:
    predictions = [prediction("q", 1.0, fox=3.0, hen=0.0), prediction("tie", 2.0, fox=2.0), prediction("none", -1.0)]
    write_json(tmp_path / "nbest.json", nbest_json(predictions))
    ranked = ranked_texts(nbest_json(predictions))
    assert ranked == {"q": ["fox", "", "hen"], "tie": ["fox", ""], "none": [""]}
    assert ranked_texts(read_json(tmp_path / "nbest.json")) == ranked


@pytest.mark.parametrize("threshold", [-3.0, -1.0, 0.0, 0.5, 2.5])
def test_the_first_text_is_the_answer_at_the_threshold(threshold: float) -> None:
    predictions = [prediction("a", 1.0, fox=3.0, hen=0.0), prediction("b", 1.5, fox=1.0), prediction("c", 2.0, fox=2.0)]
    for question, predicted in ranked_texts(nbest_json(predictions), threshold).items():
        answer = next(p for p in predictions if p.id == question).answer(threshold)
        assert predicted[0] == (answer.text if answer else "")


def test_questions_without_a_list() -> None:
    with pytest.raises(LaminaError, match=r"2 questions without n-best answers \(first id b\)"):
        answer_counts({"a": [], "b": [], "c": []}, {"a": [""], "c": []})


@pytest.mark.parametrize("entries", [["fox"], [{"text": "fox"}], [{"text": "fox", "score": "high"}], 3])
def test_entries_without_a_text_and_a_score_are_refused(entries: Any) -> None:
    with pytest.raises(LaminaError, match="question q: not an n-best list"):
        ranked_texts({"q": entries})
