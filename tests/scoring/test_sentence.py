from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.answers.sentences import binned, cut, mapped
from lamina.errors import LaminaError
from lamina.scoring.sentence import TaskScore, accuracy, distribution, macro_f1, overall, pearson, ranks, spearman

class_pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30)
number = st.one_of(st.integers(-3, 3).map(float), st.floats(-100, 100))  # integers, so that ties are common
number_pairs = st.lists(st.tuples(number, number), min_size=1, max_size=25)


def naive_pearson(a: list[float], b: list[float]) -> float:
    if len(set(a)) == 1 or len(set(b)) == 1:
        return 0.0
    mean_a, mean_b = math.fsum(a) / len(a), math.fsum(b) / len(b)
    both = math.fsum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    of_a, of_b = math.fsum((x - mean_a) ** 2 for x in a), math.fsum((y - mean_b) ** 2 for y in b)
    return both / math.sqrt(of_a) / math.sqrt(of_b)


def naive_ranks(numbers: list[float]) -> list[float]:
    """Return the mean of the positions of each number in the sorted list."""
    places = {n: [place for place, m in enumerate(sorted(numbers), 1) if m == n] for n in set(numbers)}
    return [sum(places[n]) / len(places[n]) for n in numbers]


@given(class_pairs)
@settings(deadline=None)
def test_accuracy_and_macro_f1(pairs: list[tuple[int, int]]) -> None:
    predicted, gold = [a for a, _ in pairs], [b for _, b in pairs]
    assert accuracy(predicted, gold) == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
    scores = []
    for number in set(predicted) | set(gold):
        right = sum(a == b == number for a, b in pairs)
        precision = right / predicted.count(number) if number in predicted else 0.0
        recall = right / gold.count(number) if number in gold else 0.0
        scores.append(2 * precision * recall / (precision + recall) if right else 0.0)
    assert macro_f1(predicted, gold) == pytest.approx(sum(scores) / len(scores))


@given(number_pairs)
@settings(deadline=None)
def test_correlations(pairs: list[tuple[float, float]]) -> None:
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    spread = min(max(a) - min(a), max(b) - min(b))
    if spread == 0 or spread > 1e-4:  # in between, doubles are not precise enough
        assert pearson(a, b) == pytest.approx(naive_pearson(a, b), abs=1e-6)
    assert ranks(a).tolist() == naive_ranks(a)
    assert spearman(a, b) == pytest.approx(naive_pearson(naive_ranks(a), naive_ranks(b)), abs=1e-9)


def test_correlations_equal_those_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    draw = np.random.default_rng(0)
    for _ in range(20):
        a = draw.normal(size=50)
        b = (a + draw.normal(size=50)).round(1)
        assert pearson(a, b) == pytest.approx(stats.pearsonr(a, b).statistic)
        assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)


@pytest.mark.parametrize("metric", [pearson, spearman])
def test_a_constant_correlates_with_nothing(metric: Callable[[list[float], list[float]], float]) -> None:
    """There is no warning, which would be an error here, even if rounding makes the mean differ from the constant."""
    assert metric([0.1] * 3, [1.0, 2.0, 3.0]) == 0.0
    assert metric([1.0, 2.0, 3.0], [0.1] * 3) == 0.0
    assert metric([5.0], [3.0]) == 0.0


def test_correlation_does_not_change_with_the_scale() -> None:
    a, b = [0.2, 0.5, 0.4, 0.9], [1.0, 2.0, 4.0, 5.0]
    assert pearson([1e-200 * x for x in a], [1e200 * y for y in b]) == pytest.approx(pearson(a, b))
    assert pearson([-x for x in a], b) == pytest.approx(-pearson(a, b))


@given(st.lists(st.integers(0, 2), min_size=1, max_size=30))
@settings(deadline=None)
def test_distribution(labels: list[int]) -> None:
    found = distribution(labels, ["a", "b", "c"])
    assert found == {name: labels.count(number) / len(labels) for number, name in enumerate("abc")}
    assert sum(found.values()) == pytest.approx(1)


def test_overall_scores_of_the_papers_rows() -> None:
    """002's base row is the plain mean; its last row's .589 is none of the three definitions."""
    base = [TaskScore(0.385, 1101), TaskScore(0.375, 20212), TaskScore(0.280, 863, correlation=True)]
    last = [TaskScore(0.520, 1101), TaskScore(0.583, 20212), TaskScore(0.528, 863, correlation=True)]
    assert round(overall(base)["mean"], 3) == 0.347
    assert [round(overall(last)[how], 3) for how in ("mean", "cs224n")] == [0.544, 0.622]
    assert all(abs(score - 0.589) > 0.01 for score in overall(last).values())


def test_overall_weighted_by_rows_is_the_accuracy_over_all_items() -> None:
    first, second = [1, 1, 0, 1], [0, 1]
    tasks = [TaskScore(accuracy(right, [1] * len(right)), len(right)) for right in (first, second)]
    assert overall(tasks)["weighted"] == pytest.approx(accuracy(first + second, [1] * 6))
    assert overall(tasks)["cs224n"] == overall(tasks)["mean"]


@given(st.floats(-1, 1))
@settings(deadline=None)
def test_maps_of_cosines(cosine: float) -> None:
    share = float(binned([cosine])[0])
    edges = [1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6]
    if min(abs(cosine - edge) for edge in edges) > 1e-9:
        assert share == sum(cosine > edge for edge in edges) / 5
    assert float(cut([cosine])[0]) == (cosine if cosine >= 0.5 else 0)
    assert mapped([cosine], "none")[0] == cosine
    assert mapped([cosine], "bins")[0] == share
    assert mapped([cosine], "cut")[0] == cut([cosine])[0]


def test_input_that_cannot_be_scored() -> None:
    for call, message in (
        (lambda: accuracy([1, 2], [1]), "2 predictions for 1 labels"),
        (lambda: pearson([], []), "nothing to score"),
        (lambda: spearman([1.0, float("nan")], [1.0, 2.0]), "not a finite number"),
        (lambda: distribution([3], ["a", "b"]), r"labels: there is no class 3\. Fix: give classes from 0 to 1"),
        (lambda: distribution([], ["a", "b"]), "labels: there are none"),
        (lambda: overall([]), "no items to score"),
    ):
        with pytest.raises(LaminaError, match=message):
            call()
