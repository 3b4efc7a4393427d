from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from lamina.answers import decode as module
from lamina.answers.calibration import Calibration
from lamina.answers.decode import NO_CANDIDATE_ODDS, AnswerOptions, Candidate, Prediction, decode
from lamina.data.examples import Example
from lamina.data.windows import Windows
from lamina.errors import LaminaError
from lamina.utils.arrays import Floats

QUERY = 3  # [CLS] query [SEP], then the context, then [SEP]


def example(name: str, context: str) -> Example:
    return Example(id=name, question="?", context=context, answers=(), group=name, article="a")


def word_offsets(context: str) -> list[tuple[int, int]]:
    offsets, position = [], 0
    for word in context.split(" "):
        offsets.append((position, position + len(word)))
        position += len(word) + 1
    return offsets


def build(parts: Sequence[tuple[int, Sequence[tuple[int, int]]]]) -> Windows:
    """Return windows from pairs (example, offsets of its context tokens); every start is allowed."""
    lengths = [QUERY + len(offsets) + 1 for _, offsets in parts]
    starts = np.cumsum([0, *lengths]).astype(np.int64)
    tokens = int(starts[-1])
    context, spans = np.zeros(tokens, np.bool_), np.zeros((tokens, 2), np.int32)
    for first, (_, offsets) in zip(starts, parts, strict=False):
        own = slice(first + QUERY, first + QUERY + len(offsets))
        context[own] = True
        spans[own] = np.array(offsets, np.int32).reshape(-1, 2)
    return Windows(
        starts=starts,
        ids=np.zeros(tokens, np.int32),
        type_ids=np.zeros(tokens, np.int32),
        context=context,
        offsets=spans,
        max_context=context.copy(),
        example=np.array([owner for owner, _ in parts], np.int32),
        gold=np.zeros((len(parts), 2), np.int32),
        pad=0,
        fingerprint="test",
    )


def slow(
    windows: Windows, start: Floats, end: Floats, examples: Sequence[Example], n_best: int, max_tokens: int
) -> list[Prediction]:
    """Decode by one plain loop per rule."""
    pool = max(20, n_best)
    predictions = []
    for index, item in enumerate(examples):
        null, merged = math.inf, []
        for window in np.flatnonzero(windows.example == index).tolist():
            first, stop = windows.starts[window : window + 2].tolist()
            null = min(null, float(start[first]) + float(end[first]))
            inside = [t for t in range(first, stop) if windows.context[t]]
            begins = sorted((t for t in inside if windows.max_context[t]), key=lambda t: (-start[t], t))[:pool]
            ends = sorted(inside, key=lambda t: (-end[t], t))[:pool]
            found = [
                (-(float(start[b]) + float(end[e])), window, b, e) for b in begins for e in ends if b <= e < b + max_tokens
            ]
            merged += sorted(found)[:n_best]
        kept: list[Candidate] = []
        for score, _, b, e in sorted(merged):
            begin, stop = module.quote(item.context, int(windows.offsets[b, 0]), int(windows.offsets[e, 1]))
            text = item.context[begin:stop]
            if text and text not in {other.text for other in kept} and len(kept) < n_best:
                kept.append(Candidate(text, begin, stop, -score))
        predictions.append(Prediction(item.id, null, tuple(kept)))
    return predictions


def random_case(seed: int, ties: bool) -> tuple[Windows, Floats, Floats, list[Example]]:
    """Return a case with repeated texts, overlapping windows, and some or all starts of a window masked."""
    rng = np.random.default_rng(seed)
    examples, parts = [], []
    for index in range(int(rng.integers(1, 5))):
        context = " ".join(rng.choice(["a", "b", "ce\u0301", "한국"], int(rng.integers(1, 60))))
        examples.append(example(f"q{index}", context))
        offsets = word_offsets(context)
        size, step = int(rng.integers(1, 50)), int(rng.integers(5, 30))
        parts += [(index, offsets[at : at + size]) for at in range(0, len(offsets), step)]
    windows = build(parts)
    tokens = len(windows.ids)
    windows = dataclasses.replace(windows, max_context=windows.context & (rng.random(tokens) < rng.random() * 1.5))
    start, end = (rng.normal(size=tokens) * 4 for _ in range(2))
    if ties:
        start, end = np.round(start / 4), np.round(end / 4)  # rounding gives -0 as well
    return windows, start.astype(np.float32), end.astype(np.float32), examples


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    ties=st.booleans(),
    n_best=st.sampled_from([1, 2, 5, 20, 25]),
    longest=st.integers(1, 30),
)
def test_equals_the_slow_loop(seed: int, ties: bool, n_best: int, longest: int) -> None:
    case = random_case(seed, ties)
    assert decode(*case, AnswerOptions(n_best=n_best, max_tokens=longest)) == slow(*case, n_best, longest)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), ties=st.booleans())
def test_a_short_list_is_the_beginning_of_a_long_one(seed: int, ties: bool) -> None:
    case = random_case(seed, ties)
    best = decode(*case, AnswerOptions(n_best=1))
    assert [p.candidates for p in best] == [p.candidates[:1] for p in decode(*case)]


@pytest.mark.parametrize("cells", [1, 900, 1 << 22])
def test_grouping_of_windows_changes_nothing(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = random_case(7, ties=True)
    expected = decode(*case)
    monkeypatch.setattr(module, "_CELLS", cells)
    assert decode(*case) == expected == decode(*case)


def logits(windows: Windows, peaks: dict[int, float]) -> Floats:
    """Return logits of -5 except at the peaks, which are positions over all windows' tokens."""
    values = np.full(len(windows.ids), -5, np.float32)
    values[list(peaks)] = list(peaks.values())
    return values


def test_candidates_quote_the_context() -> None:
    item = example("q", "the red fox ran")
    windows = build([(0, word_offsets(item.context))])
    (prediction,) = decode(windows, logits(windows, {4: 3}), logits(windows, {5: 4}), [item])
    assert prediction.candidates[0] == Candidate("red fox", 4, 11, 7.0)
    assert prediction.null == -10
    assert all(item.context[c.start : c.end] == c.text for c in prediction.candidates)
    assert [c.score for c in prediction.candidates] == sorted((c.score for c in prediction.candidates), reverse=True)


def test_only_tokens_of_the_context_are_answers() -> None:
    item = example("q", "x y")
    windows = build([(0, word_offsets(item.context))])
    outside = logits(windows, {0: 9, 1: 9, 2: 9, 5: 9})
    (prediction,) = decode(windows, outside, outside, [item])
    assert prediction.null == 18
    assert {c.text for c in prediction.candidates} == {"x", "y", "x y"}
    assert prediction.answer() is None


def test_starts_need_max_context_but_ends_do_not() -> None:
    item = example("q", "x y z")
    windows = build([(0, word_offsets(item.context))])
    windows.max_context[:] = False
    windows.max_context[3] = True
    (prediction,) = decode(windows, logits(windows, {4: 9}), logits(windows, {5: 9}), [item])
    assert [c.text for c in prediction.candidates] == ["x y z", "x", "x y"]


def test_null_is_the_smallest_over_windows() -> None:
    item = example("q", "x y")
    windows = build([(0, [(0, 1)]), (0, [(2, 3)])])
    (prediction,) = decode(windows, logits(windows, {0: 6, 5: 1}), logits(windows, {0: 6, 5: 2}), [item])
    assert prediction.null == 3


def test_max_tokens_counts_both_ends() -> None:
    item = example("q", "a b c d")
    windows = build([(0, word_offsets(item.context))])
    flat = logits(windows, {})
    (prediction,) = decode(windows, flat, flat, [item], AnswerOptions(max_tokens=2))
    assert [c.text for c in prediction.candidates] == ["a", "a b", "b", "b c", "c", "c d", "d"]


def test_ties_go_to_the_earlier_window_then_start_then_end() -> None:
    item = example("q", "a b c d")
    offsets = word_offsets(item.context)
    windows = build([(0, offsets[2:]), (0, offsets[:2])])
    flat = logits(windows, {})
    (prediction,) = decode(windows, flat, flat, [item])
    assert [c.text for c in prediction.candidates] == ["c", "c d", "d", "a", "a b", "b"]


def test_positions_that_tie_for_the_pool_are_the_earlier_ones() -> None:
    item = example("q", " ".join(f"w{i}" for i in range(60)))
    windows = build([(0, word_offsets(item.context))])
    zeros = np.zeros(len(windows.ids), np.float32)
    zeros[::2] = -0.0  # equal to 0, with other bits
    (prediction,) = decode(windows, zeros, zeros, [item], AnswerOptions(n_best=20, max_tokens=1))
    assert [c.text for c in prediction.candidates] == [f"w{i}" for i in range(20)]


def test_one_text_counts_once_with_its_best_place() -> None:
    item = example("q", "fox and fox")
    windows = build([(0, word_offsets(item.context))])
    (prediction,) = decode(windows, logits(windows, {3: 1, 5: 2}), logits(windows, {3: 1, 5: 2}), [item])
    assert [c for c in prediction.candidates if c.text == "fox"] == [Candidate("fox", 8, 11, 4.0)]


def test_tokens_of_one_character_give_one_candidate() -> None:
    item = example("q", "한")  # an uncased vocabulary splits the syllable into three tokens
    windows = build([(0, [(0, 1)] * 3)])
    flat = logits(windows, {})
    (prediction,) = decode(windows, flat, flat, [item])
    assert [c.text for c in prediction.candidates] == ["한"]


def test_duplicates_are_replaced_by_later_candidates() -> None:
    item = example("q", "a a a b")
    windows = build([(0, word_offsets(item.context))])
    peaks = logits(windows, {3: 9, 4: 8, 5: 7, 6: 1})
    (prediction,) = decode(windows, peaks, peaks, [item], AnswerOptions(n_best=20, max_tokens=1))
    assert [(c.text, c.start) for c in prediction.candidates] == [("a", 0), ("b", 6)]


def test_whole_words_count_once_with_their_best_score() -> None:
    item = example("q", "Odinson came")
    windows = build([(0, [(0, 3), (3, 7), (8, 12)])])  # Odi, nson, came
    start, end = logits(windows, {3: 5, 4: 4}), logits(windows, {3: 5, 4: 3, 5: 2})
    found = [decode(windows, start, end, [item], AnswerOptions(whole_words=wanted))[0].candidates for wanted in (False, True)]
    assert [(c.text, c.score) for c in found[0][:3]] == [("Odi", 10.0), ("Odinson", 8.0), ("Odinson came", 7.0)]
    assert [(c.text, c.score) for c in found[1][:2]] == [("Odinson", 10.0), ("Odinson came", 7.0)]
    assert [c.text for c in found[1][2:]] == ["came"]


@pytest.mark.parametrize("context", ["", "x y"])
def test_without_an_allowed_span_there_is_no_answer(context: str) -> None:
    items = [example("empty", context), example("full", "z")]
    windows = build([(0, word_offsets(context) if context else []), (1, [(0, 1)])])
    windows.max_context[: windows.starts[1]] = False
    flat = logits(windows, {})
    empty, full = decode(windows, flat, flat, items)
    assert empty.candidates == () and empty.answer(1e6) is None and empty.null == -10
    assert empty.null_odds == NO_CANDIDATE_ODDS and Calibration().probabilities(empty) == (1.0,)
    assert [c.text for c in full.candidates] == ["z"]


def test_white_space_is_no_answer() -> None:
    item = example("q", "\xa0 x")
    windows = build([(0, [(0, 1), (2, 3)])])
    flat = logits(windows, {})
    (prediction,) = decode(windows, flat, flat, [item])
    assert [(c.text, c.start) for c in prediction.candidates] == [("x", 2)]


def test_no_examples() -> None:
    nothing = np.zeros(0, np.float32)
    assert decode(build([]), nothing, nothing, []) == []


def test_threshold_and_probabilities() -> None:
    prediction = Prediction("q", 2.0, (Candidate("a", 0, 1, 2.0), Candidate("b", 2, 3, 2.0 - math.log(2))))
    assert prediction.answer() == prediction.candidates[0]  # odds equal to the threshold give the answer
    assert prediction.answer(-0.1) is None
    assert Calibration().probabilities(prediction) == pytest.approx((0.4, 0.4, 0.2))
    surer = dataclasses.replace(prediction, null=1000.0)
    assert Calibration().probabilities(surer) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda w, s, e, x: (w, s[:-1], e, x), r"^start: the logits have shape \(5,\) but the windows have 6 tokens"),
        (lambda w, s, e, x: (w, s, np.where(np.arange(6) == 2, np.nan, e), x), "^end: 1 of 6 logits are not finite"),
        (lambda w, s, e, x: (w, s, e, [*x, *x]), "the windows are of 1 examples but 2 were given"),
        (lambda w, s, e, x: (w, s, e, []), "the windows are of 1 examples but 0 were given"),
        (lambda w, s, e, x: (w, s, e, [example("other", "x")]), "windows of example 'other' reach beyond its context"),
    ],
)
def test_outputs_of_other_windows_or_examples_are_refused(fault: Callable[..., Any], message: str) -> None:
    windows = build([(0, [(0, 1), (2, 3)])])
    flat = logits(windows, {})
    with pytest.raises(LaminaError, match=message):
        decode(*fault(windows, flat, flat, [example("q", "x y")]))


@pytest.mark.parametrize("options", [{"n_best": 0}, {"max_tokens": 0}, {"nbest": 3}])
def test_options_are_checked(options: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        AnswerOptions(**options)
