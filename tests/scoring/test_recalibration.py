"""Decisions fitted again on labelled questions: few questions do no harm, many overrule a bad decision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lamina.answers.calibration import Calibration
from lamina.answers.decisions import SpanDecision
from lamina.answers.decode import Candidate, Prediction
from lamina.data.examples import Answer, Example
from lamina.errors import LaminaError
from lamina.scoring.predictions import score_at
from lamina.scoring.recalibration import Replies, cross_validated, measure, refit, replies_of, share_of, too_few

CONTEXT = "the grey mouse ate the green cheese"
GOLD, OTHER = "grey mouse", "green cheese"
WIDTH = 2.0


def world(count: int, share: float, seed: int = 0, offset: float = 0.0) -> tuple[list[Prediction], list[Example]]:
    """Return questions of a model whose null odds are higher for unanswerable ones. `offset` is added to all null odds.

    The softmax over the two candidates is right: it gives the probability that each is the answer.
    """
    random = np.random.default_rng(seed)
    predictions, examples = [], []
    for number in range(count):
        null = number < round(share * count)
        odds = random.normal(1.5 if null else -1.5, WIDTH)
        gap = float(random.exponential(3.0))
        first, second = (GOLD, OTHER) if random.random() < 1 / (1 + np.exp(-gap)) else (OTHER, GOLD)
        scores = (0.0, -gap)
        candidates = tuple(
            Candidate(text, CONTEXT.index(text), CONTEXT.index(text) + len(text), score)
            for text, score in zip((first, second), scores, strict=True)
        )
        predictions.append(Prediction(f"q{number}", odds + offset, candidates))
        answers = () if null else (Answer(GOLD, CONTEXT.index(GOLD)),)
        examples.append(Example(f"q{number}", "?", f"{CONTEXT} {number % 40}", answers, f"q{number}", "a"))
    return predictions, examples


GOOD = refit(SpanDecision(), *world(4000, 0.2, seed=100))


def lost(decision: SpanDecision, test: tuple[list[Prediction], list[Example]]) -> float:
    """Return the F1 lost to the best threshold."""
    scores = measure(replies_of(decision, test[0]), test[1], share_of(test[1]))
    return score_at(*test, 0.0)["best_f1"] - scores["f1"]


def test_fifty_questions_do_not_spoil_a_good_decision() -> None:
    test = world(3000, 0.5, seed=1)
    found = [refit(GOOD, *world(50, 0.5, seed=seed)) for seed in range(10, 22)]
    alone = [refit(SpanDecision(), *world(50, 0.5, seed=seed)) for seed in range(10, 22)]
    errors, errors_alone = ([measure(replies_of(one, test[0]), test[1], 0.5)["ece"] for one in some] for some in (found, alone))
    assert np.mean([lost(one, test) for one in found]) < 0.5
    assert np.mean(errors) < 0.05
    assert np.mean(errors) < np.mean(errors_alone)
    assert max(lost(one, test) for one in found) < 2.0


@pytest.mark.parametrize("offset", [-6.0, 6.0])
def test_many_questions_overrule_a_bad_decision(offset: float) -> None:
    """In use all null odds are higher or lower than those of the older fit, which then is wrong."""
    test = world(2000, 0.5, seed=2, offset=offset)
    assert lost(GOOD, test) > 10
    found = refit(GOOD, *world(800, 0.5, seed=3, offset=offset))
    assert lost(found, test) < 0.6
    assert measure(replies_of(found, test[0]), test[1], 0.5)["ece"] < 0.05


def misfit(count: int) -> tuple[list[Prediction], list[Example]]:
    """Return questions whose null odds no logistic curve fits: some answerable ones have the highest odds of all."""
    predictions, examples = world(count, 0.5, seed=11)
    random = np.random.default_rng(12)
    changed = []
    for number, (one, example) in enumerate(zip(predictions, examples, strict=True)):
        centre = (20.0 if number % 3 == 0 else -1.0) if example.answers else 0.0
        best = replace(one.candidates[0], text=GOLD, score=0.0)
        changed.append(replace(one, null=centre + random.normal(0, 0.1), candidates=(best,)))
    return changed, examples


@pytest.mark.parametrize("share", [None, 0.5, 0.0])
def test_few_questions_do_not_replace_a_threshold_by_a_clearly_worse_one(share: float | None) -> None:
    """Decisions of older runs have no curve to stay near to."""
    older = SpanDecision(threshold=-0.5, question_threshold=0.5, unanswerable=share)
    data = misfit(100)
    found = refit(older, *data)
    assert found.threshold == -0.5 and found.question_threshold == 0.5
    assert found.curve is None, "a later shift begins at the kept threshold too"
    assert lost(found, data) < 1
    assert refit(SpanDecision(threshold=30.0), *data).threshold != 30.0, "a bad threshold is not kept"


def test_a_kept_threshold_is_shifted_to_the_new_share() -> None:
    """The threshold of a fit in training is for equal shares."""
    older = SpanDecision(threshold=-0.5, unanswerable=0.3)
    found = refit(older, *misfit(100), unanswerable=0.55)
    assert found.threshold == pytest.approx(-0.5 - np.log(0.55 / 0.45))


def test_questions_over_several_contexts_keep_their_threshold_too() -> None:
    predictions, examples = misfit(100)
    more = [replace(p, id=f"{p.id}-2", null=p.null + 40) for p in predictions]
    second = [replace(e, id=f"{e.id}-2", answers=()) for e in examples]
    found = refit(SpanDecision(threshold=2.0, question_threshold=-0.5), predictions + more, examples + second)
    assert found.question_threshold == -0.5


def test_a_declared_share_weighs_the_questions() -> None:
    few, many = world(1000, 0.2, seed=4), world(1000, 0.6, seed=5)
    weighed = refit(SpanDecision(), *few, unanswerable=0.6)
    plain = refit(SpanDecision(), *many)
    assert (weighed.unanswerable, plain.unanswerable, weighed.calibrated) == (0.6, 0.6, "labelled")
    assert weighed.threshold == pytest.approx(plain.threshold, abs=0.5)
    assert weighed.calibration.bias == pytest.approx(plain.calibration.bias, abs=0.7)
    assert refit(SpanDecision(), *few).threshold > weighed.threshold + 1


def test_measure_equals_the_official_scores_at_the_share_of_the_questions() -> None:
    predictions, examples = world(200, 0.3, seed=6)
    decision = SpanDecision(threshold=0.4)
    official = score_at(predictions, examples, 0.4)
    found = measure(replies_of(decision, predictions), examples, 0.3)
    for key in ("exact", "f1", "HasAns_exact", "HasAns_f1", "NoAns_exact", "NoAns_f1"):
        assert found[key] == pytest.approx(official[key])
    other = measure(replies_of(decision, predictions), examples, 0.9)
    assert other["f1"] == pytest.approx(0.1 * official["HasAns_f1"] + 0.9 * official["NoAns_f1"])


def test_the_calibration_error_is_that_of_the_replies() -> None:
    _, examples = world(4, 0.5)
    replies = Replies({"q0": "", "q1": "mouse", "q2": GOLD, "q3": ""}, [0.8, 0.8, 0.8, 0.8])
    assert measure(replies, examples, 0.5)["ece"] == pytest.approx(0.3)


def test_cross_validation_scores_questions_outside_the_fit() -> None:
    predictions, examples = world(400, 0.5, seed=7)
    fair = cross_validated(SpanDecision(), predictions, examples)
    assert fair is not None
    inside = measure(replies_of(refit(SpanDecision(), predictions, examples), predictions), examples, 0.5)
    assert fair.keys() == inside.keys()
    assert fair["f1"] == pytest.approx(inside["f1"], abs=3)
    assert cross_validated(SpanDecision(), *world(24, 0.25)) is None, "a fit on four folds has too few questions"
    some, asked = world(40, 0.25)
    some = [replace(one, candidates=()) if number in (0, 1, 2, 3, 4) else one for number, one in enumerate(some)]
    assert refit(SpanDecision(), some, asked).curve is not None
    assert cross_validated(SpanDecision(), some, asked) is None, "of four folds, too few questions have candidates"


def test_questions_with_several_contexts_have_a_threshold_of_their_own() -> None:
    predictions, examples = world(200, 0.5, seed=8)
    grouped = [
        Example(e.id, e.question, e.context, e.answers, f"g{n % 100}", e.article) for n, e in enumerate(examples)
    ]  # a group has an unanswerable and an answerable context
    assert refit(SpanDecision(), predictions, grouped).question_threshold is None, "no question is unanswerable"
    two = [Example(e.id, e.question, e.context, e.answers, f"g{n // 2}", e.article) for n, e in enumerate(examples)]
    found = refit(SpanDecision(), predictions, two)
    assert found.question_threshold is not None and found.question_threshold != found.threshold
    moved = refit(SpanDecision(threshold=1.0, question_threshold=3.0), predictions, examples)
    assert moved.question_threshold == pytest.approx(moved.threshold + 2.0)


@pytest.mark.parametrize(
    ("count", "share", "line"),
    [
        (19, 0.5, "data: 19 labelled questions are too few. Fix: give 20 or more, better 50"),
        (40, 0.1, "data: 4 of 40 questions are unanswerable. Fix: give 5 or more of each kind"),
        (40, 1.0, "data: 0 of 40 questions are answerable. Fix: give 5 or more of each kind"),
    ],
)
def test_too_few_questions_are_refused(count: int, share: float, line: str) -> None:
    predictions, examples = world(count, share)
    assert too_few(examples) == line
    with pytest.raises(LaminaError, match=r"Fix: give"):
        refit(SpanDecision(), predictions, examples)


def test_predictions_without_candidates_do_not_count() -> None:
    predictions, examples = world(200, 0.5, seed=9)
    empty = [Prediction("none", 3.0, ())]
    extra = [Example("none", "?", CONTEXT, (), "none", "a")]
    with_empty, without = refit(GOOD, predictions + empty, examples + extra), refit(GOOD, predictions, examples)
    assert with_empty.threshold == pytest.approx(without.threshold, abs=0.05)
    assert with_empty.calibration.temperature == pytest.approx(without.calibration.temperature, rel=0.05)
    nothing = [Prediction(p.id, 1.0, ()) for p in predictions]
    with pytest.raises(LaminaError, match="the model finds no candidates"):
        refit(GOOD, nothing, examples)


def test_an_older_decision_of_one_kind_does_not_count() -> None:
    one_kind = SpanDecision(threshold=5.0, calibration=Calibration(9.0, 9.0), unanswerable=0.0)
    data = world(100, 0.5, seed=10)
    assert refit(one_kind, *data) == refit(SpanDecision(), *data)
