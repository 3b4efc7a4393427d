"""The comparison of start and trained model, and which one is handed out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lamina.answers.calibration import Calibration
from lamina.answers.decisions import SpanDecision
from lamina.answers.decode import Candidate, Prediction
from lamina.answers.prior_shift import shifted
from lamina.data.examples import Example, Sentence
from lamina.data.labels import Labels
from lamina.fitting.comparison import (
    HeldOutQuestions,
    HeldOutSentences,
    compare_questions,
    compare_sentences,
    fit_decision,
    with_calibration_of,
)
from lamina.fitting.results import Fitted
from lamina.utils.run_folder import Run
from tests import tiny


def prediction(example: Example, text: str, null: float = -5.0) -> Prediction:
    start = example.context.find(text)
    return Prediction(example.id, null, (Candidate(text, start, start + len(text), 0.0),))


def part_of(right_before: int, right_after: int, count: int) -> HeldOutQuestions:
    """Return questions of which the first so many are answered right before and after."""
    examples = [tiny.example(f"In tale {n} there is snow.", "snow", id=str(n), question=f"What {n}?") for n in range(count)]
    sides = [
        [prediction(e, "snow" if n < right else "tale") for n, e in enumerate(examples)]
        for right in (right_before, right_after)
    ]
    return HeldOutQuestions(examples, *sides)


@pytest.mark.parametrize(
    ("before", "after", "count", "better"),
    [
        (50, 60, 120, True),
        (50, 50, 120, False),
        (60, 50, 120, False),
        (10, 11, 30, False),  # one question of 30 is chance
        (10, 20, 30, True),
        (20, 10, 30, False),
    ],
)
def test_few_questions_need_a_sure_gain(before: int, after: int, count: int, better: bool) -> None:
    part = part_of(before, after, count)
    found = compare_questions([part], SpanDecision(), [SpanDecision()], "margin")
    assert found.better is better
    f1 = found.scores["f1"]
    assert f1.before == pytest.approx(100 * before / count)
    assert f1.after == pytest.approx(100 * after / count)
    assert f1.low <= f1.after - f1.before <= f1.high


@pytest.mark.parametrize(
    ("before", "after", "count", "why"),
    [
        (60, 50, 120, "the trained model is not better on held-out examples"),
        (20, 10, 30, "the trained model is not better on held-out examples"),
        (10, 11, 30, "the gain on 30 held-out examples may be chance"),
    ],
)
def test_the_verdict_says_why_the_start_is_kept(before: int, after: int, count: int, why: str) -> None:
    found = compare_questions([part_of(before, after, count)], SpanDecision(), [SpanDecision()], "margin")
    fitted = Fitted(Run(Path("out")), not found.better, found, ("", ""), [], [])
    assert f"kept the start: {why}. More examples may help." in str(fitted)


def test_a_small_gain_on_both_of_two_texts_is_not_sure() -> None:
    texts = ("In one tale there is snow.", "In another tale there is snow.")
    examples = [tiny.example(texts[n % 2], "snow", id=str(n)) for n in range(30)]
    sides = [[prediction(e, "snow" if n < right else "tale") for n, e in enumerate(examples)] for right in (10, 12)]
    found = compare_questions([HeldOutQuestions(examples, *sides)], SpanDecision(), [SpanDecision()], "margin")
    assert found.scores["f1"].after > found.scores["f1"].before and not found.better


def test_changed_answers_show_both_answers_and_the_right_one() -> None:
    found = compare_questions([part_of(2, 6, 30)], SpanDecision(), [SpanDecision()], "margin")
    assert len(found.changed) == 3
    first = found.changed[0]
    assert (first.text, first.before, first.after, first.right) == ("What 2?", "tale", "snow", "snow")


def test_threshold_stays_at_that_of_the_start_unless_the_data_say_otherwise() -> None:
    start = SpanDecision(threshold=1.5, calibration=Calibration(2.0, 1.0))
    examples = [tiny.example("There is snow.", "snow", id=str(n)) for n in range(10)]
    sure = [prediction(e, "snow") for e in examples]
    kept = fit_decision(sure, examples, start, "margin")
    assert kept.threshold == 1.5
    assert kept == start  # ten questions are too few for a calibration
    silent = [prediction(e, "snow", null=8.0) for e in examples]
    assert fit_decision(silent, examples, start, "margin").threshold > 8.0


def test_a_run_without_a_calibration_has_that_of_the_start() -> None:
    start = SpanDecision(threshold=1.5, calibration=Calibration(2.0, 1.0), unanswerable=0.3)
    few = SpanDecision(threshold=0.5, unanswerable=0.0)
    assert with_calibration_of(start, few) == start.model_copy(update={"threshold": 0.5})
    enough = SpanDecision(threshold=0.5, calibration=Calibration(3.0), unanswerable=0.2)
    assert with_calibration_of(start, enough) == enough


def test_a_fitted_decision_can_be_shifted_to_another_share() -> None:
    examples = [tiny.example("There is snow.", "snow" if n % 4 else None, id=str(n)) for n in range(40)]
    predictions = [prediction(e, "snow", null=(-3.0 if e.answers else 1.0) + n % 5) for n, e in enumerate(examples)]
    found = fit_decision(predictions, examples, SpanDecision(threshold=1.5, unanswerable=0.5), "margin")
    assert found.unanswerable == 0.25 and found.curve is not None
    assert shifted(found, 0.8).threshold < shifted(found, 0.2).threshold


def test_accuracy_and_correlation_of_sentences() -> None:
    rows = [Sentence(str(n), f"text {n}", label="ab"[n % 2]) for n in range(40)]
    wrong: list[str | float] = ["a"] * 40
    right: list[str | float] = [str(row.label) for row in rows]
    found = compare_sentences([HeldOutSentences(rows, wrong, right)], Labels(("a", "b")))
    assert found.better and found.scores["accuracy"].after == 1.0 and found.changed[0].right == "b"
    scored = [Sentence(str(n), "one", "other", label=f"{n / 8}") for n in range(40)]
    gold = np.arange(40) / 8
    random = np.random.default_rng(0)
    before, after = (list(map(float, gold + noise * random.normal(size=40))) for noise in (5.0, 0.5))
    found = compare_sentences([HeldOutSentences(scored, before, after)], Labels(low=0, high=5))
    change = found.scores["pearson"]
    assert found.better and change.before < change.after and change.low > 0
    assert not compare_sentences([HeldOutSentences(scored, after, before)], Labels(low=0, high=5)).better
