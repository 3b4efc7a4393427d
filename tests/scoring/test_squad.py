from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.data.squad import read
from lamina.errors import LaminaError
from lamina.scoring.squad import (
    balanced_threshold,
    exact,
    f1,
    normalize,
    question_scores,
    score_squad1,
    score_squad2,
)

KEYS = ["exact", "f1", "total"]
ALL_KEYS = [prefix + key for prefix in ("", "HasAns_", "NoAns_") for key in KEYS]
BEST_KEYS = ["best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh"]

words = st.text(alphabet="ab the.,'É ", max_size=12)


# One text against another


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Cat", "cat"),
        ("an apple a day", "apple day"),
        ("U.S.A.", "usa"),
        ("don't", "dont"),
        ("the-cat", "thecat"),  # punctuation is removed first, which joins the words
        ("theatre an", "theatre"),
        ("«Ça va»", "«ça va»"),  # only ASCII punctuation is removed
        ("a\u00a0b", "b"),  # a no-break space is white space
        ("The", ""),
        ("", ""),
    ],
)
def test_normalize(text: str, normal: str) -> None:
    assert normalize(text) == normal


def test_f1_counts_repeated_words() -> None:
    assert f1("to be to be", "to be") == pytest.approx(2 / 3)
    assert f1("to to", "to be") == 0.5
    assert f1("x", "y") == 0.0


def test_an_empty_text_scores_1_only_with_an_empty_text() -> None:
    assert (exact("", "the"), f1("", "the")) == (1, 1.0)
    assert (exact("x", ""), f1("x", ""), f1("", "x")) == (0, 0.0, 0.0)


@given(words, words)
def test_f1_is_symmetric_and_bounded_and_1_for_the_same(one: str, other: str) -> None:
    assert f1(one, other) == pytest.approx(f1(other, one))
    assert exact(one, other) <= f1(one, other) <= 1
    assert f1(one, one) == exact(one, one) == 1


@given(words)
def test_normalized_texts_have_lower_case_and_single_spaces(text: str) -> None:
    once = normalize(text)
    assert once == " ".join(once.split()) == once.lower()


# SQuAD 2.0


@pytest.mark.parametrize("name", ["perturbed", "transformers-baseline"])
def test_equals_the_official_script_on_every_key(shared: Path, name: str) -> None:
    def reference(kind: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((shared / f"reference/squad2-dev-cs224n.{name}.{kind}.json").read_text())
        return loaded

    golds = golds_of(shared / "data/squad2-dev-cs224n.json.xz")
    scores = score_squad2(golds, reference("predictions"), reference("null-odds"))
    assert list(scores) == list(reference("scores")) == ALL_KEYS + BEST_KEYS
    assert scores == pytest.approx(reference("scores"), abs=1e-9, rel=0)


def golds_of(path: Path) -> dict[str, list[str]]:
    return {example.id: [answer.text for answer in example.answers] for example in read(path)}


def test_no_answer_everywhere_scores_the_share_of_unanswerable_questions(shared: Path) -> None:
    golds = golds_of(shared / "data/squad2-dev-cs224n.json.xz")
    scores = score_squad2(golds, {}, missing="null")
    assert list(scores) == ALL_KEYS
    assert scores["exact"] == scores["f1"] == pytest.approx(100 * 3168 / 6078)
    assert (scores["HasAns_f1"], scores["NoAns_f1"]) == (0, 100)


GOLDS = {"yes": ["the red owl", "owl"], "no": [], "blank": ["the"]}


def test_references_that_are_empty_after_normalisation_do_not_count() -> None:
    exact_scores, f1_scores = question_scores(GOLDS, {"yes": "red owl", "no": "", "blank": ""})
    assert exact_scores == f1_scores == {"yes": 1, "no": 1, "blank": 1}
    scores = score_squad2(GOLDS, {"yes": "owl", "no": "owl", "blank": "owl"})
    assert scores["HasAns_total"] == 2  # "blank" has an answer in the file, but without words
    assert scores["exact"] == pytest.approx(100 / 3)


def test_odds_above_the_threshold_mean_no_answer() -> None:
    predictions = {"yes": "owl", "no": "owl", "blank": "x"}
    odds = {"yes": 1.0, "no": 1.5, "blank": 0.0}
    assert score_squad2(GOLDS, predictions, odds)["exact"] == pytest.approx(200 / 3)
    assert score_squad2(GOLDS, predictions, odds, threshold=0.5)["exact"] == pytest.approx(100 / 3)
    assert score_squad2(GOLDS, predictions, odds, threshold=2)["exact"] == pytest.approx(100 / 3)


def test_keys_of_a_kind_without_questions_are_left_out() -> None:
    assert list(score_squad2({"a": ["x"]}, {"a": "x"})) == ALL_KEYS[:6]
    assert list(score_squad2({"a": []}, {"a": "x"})) == KEYS + ALL_KEYS[6:]


def test_the_sweep_takes_equal_odds_in_their_order() -> None:
    golds, predictions = {"a": ["x"], "b": []}, {"a": "x", "b": "y"}
    first = score_squad2(golds, predictions, {"a": 0.5, "b": 0.5})
    assert (first["best_exact"], first["best_exact_thresh"]) == (100, 0.5)
    last = score_squad2(golds, predictions, {"b": 0.5, "a": 0.5})
    assert (last["best_exact"], last["best_exact_thresh"]) == (
        50,
        0.0,
    )  # "no answer" everywhere is as good, and comes first


def test_the_sweep_skips_odds_of_other_questions_and_counts_empty_predictions_as_no_answer() -> None:
    golds, predictions = {"a": ["x"], "b": []}, {"a": "x", "b": ""}
    scores = score_squad2(golds, predictions, {"other": -9.0, "b": -1.0, "a": 3.0})
    assert (scores["best_f1"], scores["best_f1_thresh"]) == (100, 3.0)


@given(st.data())
def test_the_sweep_equals_trying_each_prefix(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 8))
    texts = st.sampled_from(["", "x", "x y", "y"])
    names = [f"q{i}" for i in range(count)]
    golds = {name: data.draw(st.sampled_from([[], ["x"], ["x y", "z"]])) for name in names}
    predictions = {name: data.draw(texts) for name in names}
    odds = {name: float(data.draw(st.integers(-2, 2))) for name in data.draw(st.permutations(names))}
    scores = score_squad2(golds, predictions, odds)
    for kind, per_question in zip(("exact", "f1"), question_scores(golds, predictions), strict=True):
        order = sorted(odds, key=odds.__getitem__)
        totals = [
            sum(
                per_question[name] if golds[name] and name in order[:answered]
                else float(not golds[name] and not (name in order[:answered] and predictions[name]))
                for name in names
            )
            for answered in range(count + 1)
        ]  # fmt: skip
        assert scores[f"best_{kind}"] == pytest.approx(100 * max(totals) / count)
        at = next(answered for answered, total in enumerate(totals) if total > max(totals) - 1e-9)
        assert scores[f"best_{kind}_thresh"] == (odds[order[at - 1]] if at else 0.0)


def test_missing_predictions_are_an_error_or_count_as_no_answer() -> None:
    with pytest.raises(LaminaError, match=r"2 missing predictions \(first id no\)"):
        score_squad2(GOLDS, {"yes": "owl"})
    assert score_squad2(GOLDS, {"yes": "owl"}, missing="null") == score_squad2(
        GOLDS, {"yes": "owl", "no": "", "blank": "", "unknown": "is ignored"}
    )


@pytest.mark.parametrize(
    ("golds", "predictions", "odds", "message"),
    [
        ({}, {}, None, "no questions to score"),
        ({"a": []}, {"a": None}, None, r"1 prediction \(first id a\) not a text"),
        ({"a": []}, {"a": ""}, {}, r"1 question \(first id a\) without null odds"),
        ({"a": []}, {"a": ""}, {"a": float("nan")}, r"1 null odds \(first id a\) not a number"),
        ({"a": []}, {"a": ""}, {"a": "high"}, "not a number"),
    ],
)
def test_unusable_input_is_refused(golds: Any, predictions: Any, odds: Any, message: str) -> None:
    with pytest.raises(LaminaError, match=message):
        score_squad2(golds, predictions, odds)


# SQuAD 1.1


def test_squad1_takes_the_best_reference() -> None:
    scores = score_squad1({"a": ["red owl", "owl"], "b": ["x y"]}, {"a": "the owl", "b": "x"})
    assert list(scores) == ["exact_match", "f1"]
    assert scores == pytest.approx({"exact_match": 50, "f1": 100 * (1 + 2 / 3) / 2})


def test_squad1_finds_no_overlap_between_texts_without_words() -> None:
    assert score_squad1({"a": ["the"]}, {"a": "a"}) == {"exact_match": 100, "f1": 0}


def test_squad1_scores_a_missing_prediction_0_and_warns() -> None:
    with pytest.warns(UserWarning, match=r"1 missing prediction \(first id b\), scored 0"):
        assert score_squad1({"a": ["x"], "b": ["y"]}, {"a": "x"}) == {"exact_match": 50, "f1": 50}


def test_squad1_has_no_unanswerable_questions() -> None:
    with pytest.raises(LaminaError, match="1 unanswerable question"):
        score_squad1({"a": []}, {"a": ""})


def test_squad1_gives_full_marks_to_any_reference(shared: Path) -> None:
    golds = golds_of(shared / "data/squad11-dev-v1.1.json.xz")
    assert score_squad1(golds, {name: texts[-1] for name, texts in golds.items()})["f1"] == pytest.approx(100, abs=0.02)


# The balanced threshold


def balanced_score(threshold: float, odds: Any, f1s: Any, has_answer: Any) -> float:
    """Return the mean over the kinds of the mean F1 of each kind, by a plain loop."""
    kinds: dict[bool, list[float]] = {}
    for odd, score, answerable in zip(odds, f1s, has_answer, strict=True):
        kinds.setdefault(answerable, []).append(float(not answerable) if odd > threshold else score)
    return float(np.mean([np.mean(scores) for scores in kinds.values()]))


questions = st.lists(
    st.tuples(st.integers(-3, 3).map(lambda n: n / 2), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans()),
    min_size=1,
    max_size=12,
)


@given(questions)
def test_no_threshold_beats_the_chosen_one(items: list[tuple[float, float, bool]]) -> None:
    odds, f1s, has_answer = (list(column) for column in zip(*items, strict=True))
    threshold, score = balanced_threshold(np.array(odds), np.array(f1s), np.array(has_answer))
    assert score == pytest.approx(balanced_score(threshold, odds, f1s, has_answer))
    values = sorted(set(odds))
    middles = [(low + high) / 2 for low, high in pairwise(values)]
    candidates = [values[0] - 1, *middles, values[-1] + 1]
    scores = {candidate: balanced_score(candidate, odds, f1s, has_answer) for candidate in candidates}
    best = [candidate for candidate in candidates if scores[candidate] > max(scores.values()) - 1e-9]
    assert abs(threshold) == min(map(abs, best))


def test_it_does_not_depend_on_the_shares_of_the_kinds() -> None:
    odds, f1s = np.array([-2.0, -1.0, 1.0, 2.0]), np.array([1.0, 0.0, 0.5, 0.0])
    has_answer = np.array([True, False, True, False])
    once = balanced_threshold(odds, f1s, has_answer)
    more = np.where(has_answer, 1, 9)
    assert balanced_threshold(*(np.repeat(each, more) for each in (odds, f1s, has_answer))) == pytest.approx(once)


def test_with_one_kind_only_it_is_the_plain_f1() -> None:
    odds, f1s = np.array([0.0, 1.0, 4.0]), np.array([1.0, 0.5, 0.3])
    assert balanced_threshold(odds, f1s, np.ones(3, bool)) == pytest.approx((5.0, 0.6))
    assert balanced_threshold(odds, np.zeros(3), np.zeros(3, bool)) == (-1.0, 1.0)


def test_a_threshold_separates_neighbouring_floats() -> None:
    low = 1.0
    high = np.nextafter(low, 2)
    threshold, score = balanced_threshold(np.array([low, high]), np.array([1.0, 0.0]), np.array([True, False]))
    assert score == 1
    assert low <= threshold < high


@pytest.mark.parametrize("odds", [[], [np.inf]])
def test_no_questions_or_infinite_odds_have_no_threshold(odds: list[float]) -> None:
    with pytest.raises(LaminaError):
        balanced_threshold(np.array(odds), np.ones(len(odds)), np.ones(len(odds), bool))


def test_a_flat_top_gives_the_threshold_nearest_to_zero() -> None:
    """A difference of one question is chance; a difference of ten is not."""
    odds = np.array([-3.0, -2.0, -1.0, 1.0])
    has_answer = np.array([True, False, True, False])
    f1s = np.array([1.0, 0.0, 0.0, 0.0])
    strict, best = balanced_threshold(odds, f1s, has_answer)
    tolerant, score = balanced_threshold(odds, f1s, has_answer, tolerance=1.0)
    assert strict == -2.5
    assert abs(tolerant) < abs(strict)
    assert score < best
    more = [np.repeat(each, [1, 10, 10, 1]) for each in (odds + np.linspace(0, 1e-6, 4), f1s, has_answer)]
    assert balanced_threshold(more[0], more[1], more[2].astype(bool), tolerance=1.0)[0] < -2
