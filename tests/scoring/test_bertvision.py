from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.data.examples import Answer
from lamina.data.logits import SpanLogits
from lamina.data.windows import Windows
from lamina.errors import LaminaError
from lamina.scoring.bertvision import bertvision_legacy, gold_pieces
from tests import tiny

CLS = 101
Golds = Sequence[Sequence[Sequence[int]]]


def build(rows: Sequence[tuple[int, Sequence[int]]]) -> Windows:
    """Return windows from pairs (example, token ids after the classifier token)."""
    starts = np.cumsum([0, *(1 + len(ids) for _, ids in rows)]).astype(np.int64)
    tokens = int(starts[-1])
    return Windows(
        starts=starts,
        ids=np.array([token for _, ids in rows for token in (CLS, *ids)], np.int32),
        type_ids=np.zeros(tokens, np.int32),
        context=np.zeros(tokens, np.bool_),
        offsets=np.zeros((tokens, 2), np.int32),
        max_context=np.zeros(tokens, np.bool_),
        example=np.array([owner for owner, _ in rows], np.int32),
        gold=np.zeros((len(rows), 2), np.int32),
        pad=0,
    )


def logits(*pairs: tuple[Sequence[float], Sequence[float]]) -> SpanLogits:
    """Return logits from each window's starts and ends."""
    start, end = ([value for pair in pairs for value in pair[part]] for part in (0, 1))
    return SpanLogits(np.array(start, np.float32), np.array(end, np.float32))


def slow(windows: Windows, predicted: SpanLogits, golds: Golds) -> dict[str, float]:
    """Score by one plain loop per rule of the paper."""
    rows = []
    for number, wanted in enumerate(golds):
        best, answer = -1.0, [-1]
        for window in np.flatnonzero(windows.example == number).tolist():
            own = slice(*windows.starts[window : window + 2].tolist())
            start, end, ids = predicted.start[own].tolist(), predicted.end[own].tolist(), windows.ids[own].tolist()
            p_start, p_end = (max(math.exp(v) for v in part) / math.fsum(map(math.exp, part)) for part in (start, end))
            first, last = start.index(max(start)), end.index(max(end))
            if p_start * p_end > best + 1e-12:
                best, answer = p_start * p_end, [] if first == last == 0 else ids[first : last + 1]
        exact = f1 = 0.0
        for gold in wanted or [[]]:
            common = sum((Counter(answer) & Counter(gold)).values())
            exact = max(exact, float(answer == list(gold)))
            f1 = max(f1, 2 * common / (len(answer) + len(gold)) if answer or gold else 1.0)
        rows.append((bool(wanted), exact, f1))
    scores: dict[str, float] = {}
    for prefix, some in (("", rows), ("HasAns_", [r for r in rows if r[0]]), ("NoAns_", [r for r in rows if not r[0]])):
        if some:
            scores[f"{prefix}exact"] = 100 * sum(r[1] for r in some) / len(some)
            scores[f"{prefix}f1"] = 100 * sum(r[2] for r in some) / len(some)
            scores[f"{prefix}total"] = len(some)
    return scores


@given(st.data())
def test_scores_equal_those_of_a_loop(data: st.DataObject) -> None:
    ids = st.lists(st.integers(1, 4), max_size=5)
    counts = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=5), "windows of each example")
    windows = build([(number, data.draw(ids)) for number, count in enumerate(counts) for _ in range(count)])
    values = st.lists(st.integers(-8, 8), min_size=int(windows.starts[-1]), max_size=int(windows.starts[-1]))
    # Adding quarters of one thousandth makes the products of different windows differ.
    start, end = (np.array(data.draw(values), np.float32) + np.arange(windows.starts[-1]) / 4096 for _ in range(2))
    predicted = SpanLogits(start.astype(np.float32), end.astype(np.float32))
    golds = data.draw(st.lists(st.lists(ids.filter(bool), max_size=2), min_size=len(counts), max_size=len(counts)))
    assert bertvision_legacy(windows, predicted, golds) == pytest.approx(slow(windows, predicted, golds))


def test_the_most_confident_window_gives_the_answer() -> None:
    windows = build([(0, [7, 8]), (0, [8, 9])])
    predicted = logits(([0, 5, 0], [0, 0, 5]), ([0, 0, 3], [0, 0, 3]))
    assert bertvision_legacy(windows, predicted, [[[7, 8]]])["exact"] == 100
    predicted = logits(([0, 3, 0], [0, 0, 3]), ([0, 0, 5], [0, 0, 5]))
    assert bertvision_legacy(windows, predicted, [[[9]]])["exact"] == 100


def test_a_tie_goes_to_the_earlier_window_and_the_earlier_token() -> None:
    windows = build([(0, [7, 8]), (0, [8, 7])])
    predicted = logits(([0, 4, 4], [0, 4, 4]), ([0, 4, 4], [0, 4, 4]))
    assert bertvision_legacy(windows, predicted, [[[7]]])["exact"] == 100


NULL, WORD, NEXT = 0, 1, 2  # tokens of the window [CLS] 7 8


def at(token: int) -> list[float]:
    return [9.0 if number == token else 0.0 for number in range(3)]


@pytest.mark.parametrize(
    ("start", "end", "golds", "exact", "f1"),
    [
        (NULL, NULL, [], 100, 100),  # the classifier token alone is "no answer"
        (NULL, NULL, [[7]], 0, 0),
        (NEXT, WORD, [], 100, 100),  # the end before the start: an empty slice, so "no answer"
        (WORD, NULL, [], 100, 100),
        (NEXT, WORD, [[8, 7]], 0, 0),
        (NULL, WORD, [], 0, 0),  # a span from the classifier token is two wordpieces
        (NULL, WORD, [[7]], 0, 200 / 3),
        (WORD, NEXT, [[7], [8, 7]], 0, 100),  # a bag of pieces, the best reference
        (WORD, WORD, [[9], [7]], 100, 100),
        (WORD, WORD, [], 0, 0),
    ],
)
def test_which_spans_are_no_answer(start: int, end: int, golds: list[list[int]], exact: float, f1: float) -> None:
    scores = bertvision_legacy(build([(0, [7, 8])]), logits((at(start), at(end))), [golds])
    prefix = "HasAns_" if golds else "NoAns_"
    assert scores == {
        key: pytest.approx(value)
        for name in ("", prefix)
        for key, value in ((f"{name}exact", exact), (f"{name}f1", f1), (f"{name}total", 1))
    }


def test_references_are_the_pieces_of_the_answers() -> None:
    examples = tiny.corpus(2)
    two = replace(examples[0], answers=(*examples[0].answers, Answer("born in 1800", examples[0].context.index("born"))))
    pieces = gold_pieces([two, *examples[1:]], tiny.tokenizer())
    assert [len(golds) for golds in pieces] == [2, *(len(example.answers) for example in examples[1:])]
    windows = tiny.windows(examples)
    for window, owner in enumerate(windows.example.tolist()):
        low, high = windows.gold[window].tolist()
        if low > 0:
            base = int(windows.starts[window])
            assert pieces[owner][0] == windows.ids[base + low : base + high + 1].tolist()
    assert gold_pieces([examples[4]], tiny.tokenizer()) == [[]]
    assert gold_pieces([], tiny.tokenizer()) == []


def test_a_perfect_model_scores_100() -> None:
    examples = tiny.corpus(2)
    windows = tiny.windows(examples)
    predicted = SpanLogits(np.zeros(len(windows.ids), np.float32), np.zeros(len(windows.ids), np.float32))
    sure = np.where(windows.gold[:, 0] > 0, 20.0, 10.0)  # a window with the answer wins
    predicted.start[windows.starts[:-1] + windows.gold[:, 0]] = sure
    predicted.end[windows.starts[:-1] + windows.gold[:, 1]] = sure
    scores = bertvision_legacy(windows, predicted, gold_pieces(examples, tiny.tokenizer()))
    assert (scores["exact"], scores["f1"], scores["total"]) == (100, 100, 10)
    assert (scores["HasAns_total"], scores["NoAns_total"]) == (8, 2)


def test_arrays_that_do_not_fit_are_refused() -> None:
    windows = build([(0, [7, 8])])
    predicted = logits((at(1), at(1)))
    with pytest.raises(LaminaError, match="windows of 1 examples but references of 2"):
        bertvision_legacy(windows, predicted, [[], []])
    with pytest.raises(LaminaError, match="use windows with token ids, and their logits"):
        bertvision_legacy(replace(windows, ids=np.zeros(0, np.int32)), predicted, [[]])
    with pytest.raises(LaminaError, match="use windows with token ids, and their logits"):
        bertvision_legacy(windows, SpanLogits(predicted.start[1:], predicted.end), [[]])
    with pytest.raises(LaminaError, match="has diverged"):
        bertvision_legacy(windows, SpanLogits(predicted.start, np.full_like(predicted.end, np.nan)), [[]])
