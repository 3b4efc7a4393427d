from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import LaminaError
from lamina.scoring.answerability import answerability, score_answerability

chances = st.floats(0, 1, allow_nan=False)


@given(st.lists(st.lists(chances, min_size=1, max_size=4), max_size=6))
def test_a_question_gets_the_minimum_or_maximum_of_its_windows(questions: list[list[float]]) -> None:
    votes = np.array([vote for windows in questions for vote in windows])
    example = np.array([number for number, windows in enumerate(questions) for _ in windows], np.int32)
    assert answerability(votes, example).tolist() == [min(windows) for windows in questions]
    assert answerability(votes, example, "max").tolist() == [max(windows) for windows in questions]


@given(st.lists(st.tuples(chances, st.booleans()), min_size=1, max_size=12))
def test_scores_equal_those_of_a_loop(rows: list[tuple[float, bool]]) -> None:
    true_positive = sum(p > 0.5 and wanted for p, wanted in rows)
    false_positive = sum(p > 0.5 and not wanted for p, wanted in rows)
    missed = sum(p <= 0.5 and wanted for p, wanted in rows)
    precision = true_positive / (true_positive + false_positive) if true_positive else 0.0
    recall = true_positive / (true_positive + missed) if true_positive else 0.0
    scores = score_answerability(np.array([p for p, _ in rows]), np.array([wanted for _, wanted in rows]))
    f1 = 2 * precision * recall / (precision + recall) if true_positive else 0.0
    right = len(rows) - false_positive - missed
    assert scores == {"accuracy": pytest.approx(100 * right / len(rows)), "f1": pytest.approx(100 * f1), "total": len(rows)}


def test_one_window_with_the_answer_is_enough() -> None:
    """The answer is in one of three windows of a long text, and the classifier is right about each."""
    votes, example = np.array([0.99, 0.01, 0.98], np.float32), np.zeros(3, np.int32)
    answerable = np.array([False])
    assert score_answerability(answerability(votes, example), answerable)["accuracy"] == 100
    assert score_answerability(answerability(votes, example, "max"), answerable)["accuracy"] == 0


def test_arrays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(LaminaError, match="2 probabilities for 1 windows"):
        answerability(np.array([0.1, 0.2]), np.array([0], np.int32))
    with pytest.raises(LaminaError, match="question 1 has no windows"):
        answerability(np.array([0.1]), np.array([1], np.int32))
    with pytest.raises(LaminaError, match="not a finite number"):
        answerability(np.array([np.nan]), np.array([0], np.int32))
    with pytest.raises(LaminaError, match="2 probabilities for 1 questions"):
        score_answerability(np.array([0.1, 0.2]), np.array([True]))
    with pytest.raises(LaminaError, match="at least one"):
        score_answerability(np.zeros(0), np.zeros(0, np.bool_))
