from __future__ import annotations

from dataclasses import replace

import pytest

from lamina.answers.decode import Candidate, Prediction
from lamina.answers.formats import null_odds_json, predictions_json
from lamina.data.examples import Answer, Example
from lamina.scoring.predictions import by_question, references, score_all, score_at, score_both, tune_threshold
from lamina.scoring.squad import score_squad2

CONTEXT = "the grey mouse ate the green cheese"


def pair(number: int, gold: str | None, predicted: str | None, odds: float) -> tuple[Prediction, Example]:
    """Return a prediction with the given text and null odds, and its example with the gold answer."""
    name = f"q{number}"
    answers = () if gold is None else (Answer(gold, CONTEXT.index(gold)),)
    start = 0 if predicted is None else CONTEXT.index(predicted)
    candidates = () if predicted is None else (Candidate(predicted, start, start + len(predicted), 2.0),)
    return Prediction(name, 2.0 + odds, candidates), Example(name, "?", CONTEXT, answers, name, "a")


def world(*rows: tuple[str | None, str | None, float], times: int = 1) -> tuple[list[Prediction], list[Example]]:
    pairs = [pair(number, *row) for number, row in enumerate(rows * times)]
    return [prediction for prediction, _ in pairs], [example for _, example in pairs]


ROWS = (
    ("grey mouse", "grey mouse", -3.0),
    ("grey mouse", "mouse", -1.0),
    ("green cheese", "green cheese", 1.5),
    ("green cheese", "mouse", 2.5),
    ("green cheese", None, 0.0),
    (None, "mouse", -0.5),
    (None, "cheese", 3.0),
    (None, None, 0.0),
)
MIXED = world(*ROWS)


def test_the_threshold_gives_both_kinds_of_questions_equal_weight() -> None:
    """Nine in ten questions are unanswerable here, so the plain F1 is best with "no answer" everywhere."""
    unanswerable = [(None, "mouse", odds) for odds in (0.5, 0.5, 0.5, 0.5, 0.5, 2.0, 2.0, 2.0, 2.0)]
    predictions, examples = world(("grey mouse", "grey mouse", 1.0), *unanswerable, times=50)
    threshold, mean = tune_threshold(predictions, examples)
    assert threshold == pytest.approx(1.5)
    assert mean == pytest.approx(100 * (1 + 4 / 9) / 2)
    plain = score_at(predictions, examples, 0.0)
    assert plain["best_f1"] == 90
    assert score_at(predictions, examples, threshold)["f1"] == 50


def test_the_mean_equals_that_of_the_official_scores_at_the_threshold() -> None:
    predictions, examples = world(*ROWS, times=50)
    threshold, mean = tune_threshold(predictions, examples)
    scores = score_at(predictions, examples, threshold)
    assert mean == pytest.approx((scores["HasAns_f1"] + scores["NoAns_f1"]) / 2)
    for other in (-10.0, -2.0, -0.75, 0.0, 1.0, 2.0, 2.75, 10.0):
        scores = score_at(predictions, examples, other)
        assert (scores["HasAns_f1"] + scores["NoAns_f1"]) / 2 <= mean + 1e-9


def test_with_one_kind_only_the_threshold_is_for_that_kind() -> None:
    predictions, examples = world(("grey mouse", "grey mouse", 4.0), ("grey mouse", "mouse", -2.0), times=50)
    threshold, mean = tune_threshold(predictions, examples)
    assert threshold > 4
    assert mean == pytest.approx(score_at(predictions, examples, threshold)["f1"])


def test_four_questions_do_not_move_the_threshold_far() -> None:
    """Four questions and four hundred have the same shares of the same odds, but only the latter are significant."""
    rows = (("grey mouse", "grey mouse", -3.0), (None, "mouse", -2.0), ("grey mouse", None, 0.0), (None, "mouse", 1.0))
    assert tune_threshold(*world(*rows))[0] > -2
    assert tune_threshold(*world(*rows, times=100))[0] < -2


@pytest.mark.parametrize("threshold", [-2.0, -0.6, 0.0, 1.7, 9.0])
def test_scores_equal_those_of_the_written_predictions(threshold: float) -> None:
    predictions, examples = MIXED
    written = score_squad2(references(examples), predictions_json(predictions, threshold))
    scores = score_at(predictions, examples, threshold)
    assert {name: scores[name] for name in written} == written
    assert null_odds_json(predictions)["q3"] == 2.5


def test_references() -> None:
    assert references(MIXED[1])["q0"] == ["grey mouse"]
    assert references(MIXED[1])["q7"] == []


def test_all_scores_are_consistent() -> None:
    predictions, examples = MIXED
    threshold = tune_threshold(predictions, examples)[0]
    scores = score_all(predictions, examples, threshold)
    assert set(scores) == {"zero", "tuned", "best"}
    assert scores["zero"] == {"threshold": 0.0} | score_at(predictions, examples, 0.0)
    assert scores["tuned"] == {"threshold": threshold} | score_at(predictions, examples, threshold)
    assert scores["best"]["f1"] == scores["zero"]["best_f1"] == scores["tuned"]["best_f1"]
    assert scores["best"]["threshold"] == scores["zero"]["best_f1_thresh"]
    for other in (-10.0, -2.0, -0.75, 0.0, 1.0, 2.0, 2.75, 10.0, threshold):
        at = score_at(predictions, examples, other)
        assert at["f1"] <= scores["best"]["f1"]
        assert at["exact"] <= scores["best"]["exact"]


def test_the_best_score_may_be_no_answer_everywhere() -> None:
    predictions, examples = world((None, "mouse", -5.0), (None, "cheese", -4.0), ("grey mouse", "cheese", -6.0))
    scores = score_all(predictions, examples, 0.0)
    assert scores["zero"]["f1"] == 0
    assert scores["best"]["f1"] == pytest.approx(200 / 3)
    assert scores["tuned"] == scores["zero"]


def in_groups(predictions: list[Prediction], examples: list[Example], size: int) -> list[Example]:
    return [replace(example, group=f"g{number // size}") for number, example in enumerate(examples)]


def test_a_question_is_scored_over_all_of_its_contexts() -> None:
    """The best candidate by margin is the answer. A question is unanswerable only if all of its contexts are."""
    predictions, examples = MIXED
    grouped = in_groups(predictions, examples, 2)
    merged, questions = by_question(predictions, grouped)
    assert [p.id for p in merged] == [q.id for q in questions] == ["g0", "g1", "g2", "g3"]
    assert predictions_json(merged) == {"g0": "grey mouse", "g1": "", "g2": "mouse", "g3": ""}
    assert [p.null_odds for p in merged[:3]] == [-3.0, 1.5, -0.5]
    assert references(questions) == {"g0": ["grey mouse"], "g1": ["green cheese"], "g2": ["green cheese"], "g3": []}
    both = score_both(predictions, grouped, 0.5, 2.0)
    assert {name: both[name] for name in ("zero", "tuned", "best")} == score_all(predictions, grouped, 0.5)
    assert both["questions"] == score_all(merged, questions, 2.0)
    assert both["questions"]["zero"]["exact"] == 50 and both["questions"]["tuned"]["exact"] == 75
    assert both["questions"]["zero"]["total"] == 4


def test_questions_with_one_context_are_not_scored_twice() -> None:
    assert score_both(*MIXED, 0.0, 0.0) == score_all(*MIXED, 0.0)
