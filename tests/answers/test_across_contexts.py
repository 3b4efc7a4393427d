"""Tests of several contexts of one question: the default rule, the paper's, and both in constant memory."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.answers.across_contexts import BestQuotes, comparable, together
from lamina.answers.calibration import Calibration
from lamina.answers.decode import Across, Candidate, Prediction
from lamina.answers.formats import nbest_json
from lamina.reader.replies import reply_of

SCORES = st.floats(-30, 30).map(lambda score: round(score, 2))


@st.composite
def predictions(draw: st.DrawFn) -> list[Prediction]:
    found = []
    for number in range(draw(st.integers(1, 6))):
        scores = sorted(draw(st.lists(SCORES, max_size=5)), reverse=True)
        candidates = tuple(Candidate(f"{number}-{place}", place, place + 3, score) for place, score in enumerate(scores))
        found.append(Prediction(f"q#{number}", draw(SCORES), candidates))
    return found


@given(predictions(), SCORES)
def test_the_margin_rule(contexts: list[Prediction], threshold: float) -> None:
    answer = together("q", contexts).answer(threshold)
    predicted = [one.answer(threshold) for one in contexts]
    pairs = zip(contexts, predicted, strict=True)
    answered = [(one.null_odds, one.candidates[0].text) for one, text in pairs if text is not None]
    if answer is None:
        assert not answered or min(answered)[0] == pytest.approx(threshold)
    else:
        assert answered and answer.text in [text for odds, text in answered if odds == pytest.approx(min(answered)[0])]


@given(predictions())
def test_the_papers_rule(contexts: list[Prediction]) -> None:
    """As in the paper: take each context's list of probabilities, its first entry, and the greatest of these."""
    firsts = [entries[0] for entries in nbest_json(contexts).values()]
    greatest = max(float(entry["probability"]) for entry in firsts)
    fitting = {entry["text"] for entry in firsts if entry["probability"] == pytest.approx(greatest)}
    answer = together("q", contexts, "paper_probability").answer(0.0)
    assert ("" if answer is None else answer.text) in fitting


def test_a_confident_null_overrides_other_contexts_only_by_the_papers_rule() -> None:
    sure = Prediction("q#0", 9.0, (Candidate("wrong", 0, 5, 0.0),))
    holds = Prediction("q#1", 0.0, (Candidate("right", 2, 7, 2.0), Candidate("rig", 2, 5, 1.0)))
    assert together("q", [sure, holds]).answer() == Candidate("right", 2, 7, 2.0)
    assert together("q", [sure, holds], "paper_probability").answer() is None
    assert together("q", [holds], "paper_probability").answer() is not None
    assert together("q", [sure, holds]).id == "q"


@given(predictions(), st.sampled_from(["margin", "paper_probability"]))
def test_a_single_context_keeps_its_prediction(contexts: list[Prediction], across: Across) -> None:
    one, alone = contexts[0], together("q", contexts[:1], across)
    assert [c.text for c in alone.candidates] == [c.text for c in one.candidates]
    assert alone.null_odds == pytest.approx(one.null_odds, abs=1e-9)
    assert Calibration().probabilities(alone) == pytest.approx(Calibration().probabilities(one), abs=1e-9)


@given(
    predictions(),
    st.sampled_from(["margin", "paper_probability"]),
    st.integers(1, 8),
    st.floats(0.3, 8),
    st.floats(-6, 6),
    SCORES,
)
def test_adding_contexts_one_by_one_equals_merging_them_at_once(
    contexts: list[Prediction], across: Across, keep: int, temperature: float, bias: float, threshold: float
) -> None:
    calibration = Calibration(temperature, bias)
    quotes = BestQuotes(keep, calibration, across)
    for number, one in enumerate(contexts):
        quotes.add(number, one)
    whole = together("q", contexts, across)
    assert [(q.text, q.start, q.end) for q in quotes.best] == [(c.text, c.start, c.end) for c in whole.candidates[:keep]]
    for quote in quotes.best:
        own = comparable(contexts[quote.context], across).candidates
        assert (quote.text, quote.start) in [(candidate.text, candidate.start) for candidate in own]
    answer = quotes.answer(threshold)
    wanted = whole.answer(threshold)
    assert (answer and (answer.text, answer.start)) == (wanted and (wanted.text, wanted.start))
    alone = [calibration.probabilities(context) for context in contexts]
    nulls = [comparable(context, across).null for context in contexts]
    surest = nulls.index(max(nulls)) if across == "paper_probability" else quotes.best[0].context if quotes.best else None
    assert quotes.no_answer == pytest.approx(1.0 if surest is None else alone[surest][0], abs=1e-9)
    for quote in quotes.best:
        place = [c.start for c in contexts[quote.context].candidates].index(quote.start)
        chance = alone[quote.context][1 + place]
        assert quote.confidence == pytest.approx(chance, abs=1e-9), "equal to that of its context alone"


@given(
    predictions(),
    st.sampled_from(["margin", "paper_probability"]),
    st.integers(1, 8),
    st.floats(0.3, 8),
    st.floats(-12, 12),
    SCORES,
    st.none() | SCORES | st.sampled_from([math.inf, -math.inf]),
)
def test_no_rival_is_surer_than_the_reply(
    contexts: list[Prediction],
    across: Across,
    top_k: int,
    temperature: float,
    bias: float,
    own: float,
    given_threshold: float | None,
) -> None:
    """Check the order of all confidences for any calibration, threshold of the model and threshold of the caller."""
    threshold = own if given_threshold is None else given_threshold
    quotes = BestQuotes(top_k, Calibration(temperature, bias), across)
    for number, one in enumerate(contexts):
        quotes.add(number, one)
    reply = reply_of("q", quotes, threshold, top_k, own)
    decided = quotes.answer(threshold)
    assert reply.text == (None if decided is None else decided.text), "confidences never change the decision"
    ranked = [reply.confidence, *(quote.confidence for quote in reply.others)]
    assert ranked == sorted(ranked, reverse=True)
    assert all(0 <= confidence <= 1 for confidence in (*ranked, reply.no_answer))
    assert reply.confidence >= reply.no_answer
    calibrated = quotes.best[0].confidence if quotes.best else 0.0
    if threshold == own:
        if reply.answer is None:
            assert reply.confidence >= quotes.no_answer
            assert reply.confidence == quotes.no_answer or calibrated > quotes.no_answer, "changed only out of order"
        else:
            assert reply.confidence >= calibrated
            assert reply.confidence == calibrated or calibrated < quotes.no_answer, "changed only out of order"
        assert reply.confidence <= max(calibrated, quotes.no_answer)
    few = BestQuotes(1, Calibration(temperature, bias), across)
    for number, one in enumerate(contexts):
        few.add(number, one)
    alone = reply_of("q", few, threshold, 1, own)
    assert (alone.confidence, alone.no_answer) == (reply.confidence, reply.no_answer), "it does not depend on top_k"


@given(predictions().map(lambda contexts: contexts[:1]), st.floats(0.3, 8), st.floats(-12, 12), SCORES)
def test_confidences_of_one_context_add_up_to_one(
    contexts: list[Prediction], temperature: float, bias: float, threshold: float
) -> None:
    quotes = BestQuotes(10, Calibration(temperature, bias))
    quotes.add(0, contexts[0])
    no_answer, found = quotes.in_order(threshold, threshold)
    total = no_answer + sum(quote.confidence for quote in found)
    assert total <= 1 + 1e-9
    if len(found) < 2 or found[1].confidence == quotes.best[1].confidence:  # the second is not surer than the mean
        assert total == pytest.approx(1.0)


def test_model_without_unanswerable_questions_is_not_sure_of_the_opposite() -> None:
    """Use the calibration of such a model: its bias makes "no answer" all but impossible."""
    quotes = BestQuotes(3, Calibration(0.7, -12.0))
    quotes.add(0, Prediction("q", 5.0, (Candidate("toml", 0, 4, 3.0), Candidate("json", 9, 13, 1.0))))
    reply = reply_of("Which format?", quotes, 0.0, 3, 0.0)
    assert reply.text is None
    assert reply.confidence == pytest.approx(0.473, abs=1e-3)
    assert [round(quote.confidence, 2) for quote in reply.others] == [0.47, 0.05]


def test_a_context_without_candidates() -> None:
    empty = Prediction("q#0", 3.0, ())
    assert together("q", [empty]).answer(1e6) is None
    quotes = BestQuotes(2, Calibration())
    quotes.add(0, empty)
    assert quotes.answer(1e12) is None and quotes.no_answer == 1.0
    quotes.add(1, Prediction("q#1", 1.0, (Candidate("x", 0, 1, 1.0),)))
    assert quotes.answer(0.0) is not None and quotes.no_answer == quotes.best[0].confidence == 0.5
