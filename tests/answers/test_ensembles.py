from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.answers.calibration import Calibration
from lamina.answers.decode import NO_CANDIDATE_ODDS, Candidate, Prediction, decode
from lamina.answers.ensembles import MASKED, How, at_threshold, combine, combine_nbest
from lamina.answers.formats import predictions_json
from lamina.data.logits import SpanLogits
from lamina.data.windows import WindowOptions, Windows
from lamina.errors import LaminaError
from tests import tiny

HOWS: tuple[How, ...] = ("max", "mean")
EXAMPLES = tiny.corpus(3)
WINDOWS = tiny.windows(EXAMPLES, WindowOptions(length=48, query=16, step=8))  # several windows per question


def model(seed: int, windows: Windows = WINDOWS, scale: float = 4.0) -> SpanLogits:
    random = np.random.default_rng(seed)
    return SpanLogits(*random.normal(random.normal(), scale, size=(2, int(windows.starts[-1]))).astype(np.float32))


def answers(logits: SpanLogits) -> list[Prediction]:
    return decode(WINDOWS, logits.start, logits.end, EXAMPLES)


def slow(models: Sequence[SpanLogits], windows: Windows, end: str, how: How) -> dict[int, float]:
    """Return the combined logits by token, by plain loops over the module's rules. Impossible tokens are left out."""
    combined = {}
    for number in np.unique(windows.example).tolist():
        own = np.flatnonzero(windows.example == number).tolist()
        firsts = [int(windows.starts[window]) for window in own]
        context = [t for window in own for t in range(*windows.starts[window : window + 2].tolist()) if windows.context[t]]
        lists = []
        for one in models:
            null = min(firsts, key=lambda token: float(one.start[token]) + float(one.end[token]))
            weights = {token: math.exp(getattr(one, end)[token]) for token in context}
            weights |= dict.fromkeys(firsts, math.exp(getattr(one, end)[null]))
            total = math.fsum([weights[token] for token in context] + [weights[null]])
            lists.append(({token: weight / total for token, weight in weights.items()}, math.log(total)))
        level = math.fsum(height for _, height in lists) / len(lists)
        for token in [*firsts, *context]:
            p = [chances[token] for chances, _ in lists]
            combined[token] = math.log(max(p) if how == "max" else math.fsum(p) / len(p)) + level
    return combined


# Logits


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_combining_equals_the_slow_loops(how: How, count: int) -> None:
    models = [model(seed) for seed in range(count)]
    combined = combine(models, WINDOWS, how)
    for end in ("start", "end"):
        values = getattr(combined, end)
        assert values.dtype == np.float32
        wanted = slow(models, WINDOWS, end, how)
        np.testing.assert_allclose(values[list(wanted)], list(wanted.values()), atol=1e-5)
        others = np.ones(len(values), np.bool_)
        others[list(wanted)] = False
        assert others.any()
        assert (values[others] == np.float32(MASKED)).all()


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_model_combined_with_itself_is_unchanged(how: How, times: int) -> None:
    alone = model(0)
    together = combine([alone] * times, WINDOWS, how)
    np.testing.assert_array_equal(together.start[WINDOWS.context], alone.start[WINDOWS.context])
    np.testing.assert_array_equal(together.end[WINDOWS.context], alone.end[WINDOWS.context])
    assert answers(together) == answers(alone)


@given(st.integers(0, 10_000), st.sampled_from(HOWS), st.sampled_from([0.1, 3.0, 1e4]))
@settings(max_examples=25)
def test_logits_are_finite_and_independent_of_the_order(seed: int, how: How, scale: float) -> None:
    models = [model(seed + number, scale=scale) for number in range(3)]
    one, other = combine(models, WINDOWS, how), combine(models[::-1], WINDOWS, how)
    for end in ("start", "end"):
        assert np.isfinite(getattr(one, end)).all()
        np.testing.assert_allclose(getattr(one, end), getattr(other, end), rtol=1e-6, atol=1e-6)


def test_max_follows_the_most_confident_model() -> None:
    """One model gives one token nearly all probability, the other is uniform: "max" follows the first."""
    token = int(np.flatnonzero(WINDOWS.context)[5])
    sure, unsure = np.zeros(len(WINDOWS.ids), np.float32), np.zeros(len(WINDOWS.ids), np.float32)
    sure[token] = 20
    greatest, mean = (combine([SpanLogits(sure, sure), SpanLogits(unsure, unsure)], WINDOWS, how).start for how in HOWS)
    assert np.argmax(greatest[: WINDOWS.starts[1]]) == token
    assert greatest[token] - mean[token] == pytest.approx(math.log(2), abs=0.05)


def test_no_windows() -> None:
    empty = replace(WINDOWS, starts=np.zeros(1, np.int64), context=WINDOWS.context[:0], example=WINDOWS.example[:0])
    none = SpanLogits(np.zeros(0, np.float32), np.zeros(0, np.float32))
    assert not len(combine([none, none], empty).start)


def test_logits_of_other_windows_are_refused() -> None:
    short = SpanLogits(model(0).start[:-1], model(0).end[:-1])
    with pytest.raises(LaminaError, match="combine those of the same windows"):
        combine([model(0), short], WINDOWS)
    with pytest.raises(LaminaError, match="combine those of the same windows"):
        combine([], WINDOWS)


def test_a_model_that_has_diverged_is_refused() -> None:
    broken = model(0)
    broken.end[3] = np.nan
    with pytest.raises(LaminaError, match="has diverged"):
        combine([model(1), broken], WINDOWS)


def test_a_confident_null_of_one_window_does_not_raise_its_tokens() -> None:
    """Both models find the answer in the first window. One gives the second window a very high null score."""
    first, second = np.flatnonzero(WINDOWS.example == 0)[:2].tolist()
    right, wrong = (
        int(np.flatnonzero(WINDOWS.max_context[WINDOWS.starts[w] :])[0] + WINDOWS.starts[w]) for w in (first, second)
    )
    calm = np.zeros(len(WINDOWS.ids), np.float32)
    calm[right], calm[wrong] = 12, 9
    loud = calm.copy()
    loud[WINDOWS.starts[second]] = 30
    for how in HOWS:
        together = combine([SpanLogits(calm, calm), SpanLogits(loud, loud)], WINDOWS, how)
        assert together.start[right] - together.start[wrong] == pytest.approx(3, abs=1e-4)
        best = answers(together)[0].answer()
        assert best is not None
        assert best.start == WINDOWS.offsets[right, 0]


# Thresholds


@pytest.mark.parametrize("threshold", [-7.5, 0.0, 2.25])
def test_shifted_logits_give_at_zero_the_answers_at_the_threshold(threshold: float) -> None:
    alone = model(1)
    before = alone.start.copy()
    moved = answers(at_threshold(alone, WINDOWS, threshold))
    wanted = predictions_json(answers(alone), threshold)
    assert predictions_json(moved) == wanted
    assert any(wanted.values())
    np.testing.assert_array_equal(alone.start, before)


def test_at_threshold_removes_the_bias_of_a_model_to_no_answer() -> None:
    """Two models give the same answers. The null odds of one are higher by 60, and so is its threshold."""
    plain = model(2)
    biased = at_threshold(plain, WINDOWS, -60.0)
    wanted = predictions_json(answers(plain))
    assert sum(map(bool, wanted.values())) > len(wanted) / 2
    assert sum(map(bool, predictions_json(answers(combine([plain, biased], WINDOWS))).values())) < len(wanted) / 2
    assert predictions_json(answers(combine([plain, at_threshold(biased, WINDOWS, 60.0)], WINDOWS))) == wanted


# N-best lists


def slow_texts(models: Sequence[Prediction], how: How) -> dict[str, float]:
    """Return the combined probability by text, "" for "no answer"."""
    lists = []
    for one in models:
        null, *rest = Calibration().probabilities(one)
        lists.append({"": null} | dict(zip([c.text for c in one.candidates], rest, strict=True)))
    texts = {text for one in lists for text in one}
    values = {text: [one.get(text, 0.0) for one in lists] for text in texts}
    return {text: max(p) if how == "max" else sum(p) / len(p) for text, p in values.items()}


@pytest.mark.parametrize("how", HOWS)
def test_texts_are_combined_by_their_probabilities(how: How) -> None:
    models = [answers(model(seed)) for seed in range(3)]
    for number, together in enumerate(combine_nbest(models, how)):
        same = [one[number] for one in models]
        wanted = slow_texts(same, how)
        assert together.id == same[0].id
        assert together.null == pytest.approx(math.log(wanted.pop("")))
        assert {c.text: c.score for c in together.candidates} == pytest.approx({t: math.log(p) for t, p in wanted.items()})
        scores = [c.score for c in together.candidates]
        assert scores == sorted(scores, reverse=True)
        context = EXAMPLES[number].context
        assert all(context[c.start : c.end] == c.text for c in together.candidates)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("times", [1, 3])
def test_the_list_of_one_model_is_unchanged(how: How, times: int) -> None:
    alone = answers(model(3))
    for before, after in zip(alone, combine_nbest([alone] * times, how), strict=True):
        assert [(c.text, c.start, c.end) for c in after.candidates] == [(c.text, c.start, c.end) for c in before.candidates]
        assert after.null_odds == pytest.approx(before.null_odds)


def test_both_routes_agree_for_one_model() -> None:
    alone = model(4)
    by_logits = answers(combine([alone], WINDOWS))
    for one, other in zip(by_logits, combine_nbest([answers(alone)]), strict=True):
        assert [c.text for c in one.candidates] == [c.text for c in other.candidates]
        assert one.null_odds == pytest.approx(other.null_odds)
        assert (one.answer() is None) == (other.answer() is None)


def test_a_text_keeps_its_most_probable_position() -> None:
    here = Prediction("q", 0.0, (Candidate("fox", 4, 7, 1.0),))
    there = Prediction("q", 0.0, (Candidate("fox", 30, 33, 2.0),))
    together = combine_nbest([[here], [there]])[0]
    assert [(c.start, c.end) for c in together.candidates] == [(30, 33)]


def test_a_list_may_be_empty() -> None:
    nothing = Prediction("q", -3.0, ())
    fox = Prediction("q", 0.0, (Candidate("fox", 4, 7, 2.0),))
    assert combine_nbest([[nothing], [nothing]])[0].null_odds == NO_CANDIDATE_ODDS
    together = combine_nbest([[nothing], [fox]], "mean")[0]
    assert together.candidates[0].score == pytest.approx(math.log(Calibration().probabilities(fox)[1] / 2))
    assert together.null_odds > 0, "one model gives probability 1 to no answer"


def test_lists_of_other_questions_are_refused() -> None:
    one, other = Prediction("one", 0.0, ()), Prediction("other", 0.0, ())
    for models in ([[one], [other]], [[one], [one, other]], []):
        with pytest.raises(LaminaError, match="different questions"):
            combine_nbest(models)
