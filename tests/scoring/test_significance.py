"""Tests of intervals and p-values: against slow references, and on simulated systems with a known true difference."""

from __future__ import annotations

import math
import random
import tracemalloc
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest

from lamina.errors import LaminaError
from lamina.scoring.significance import (
    Clusters,
    bootstrap_interval,
    compare_scores,
    correlation_interval,
    items_needed,
    randomisation_p,
)
from lamina.utils.arrays import Doubles

STEPS = np.array([-1, -0.8, -2 / 3, -0.5, -0.4, -0.25, 0, 0.25, 0.4, 0.5, 2 / 3, 0.8, 1])


def chances(differ: float, in_favour: float) -> Doubles:
    """Return the probability of each of `STEPS` if the scores of two systems differ on the share `differ` of the questions.

    Mostly one system has found the answer and the other has not; else they differ by a few words.
    """
    sizes = np.array([0.7, *[0.06] * 5])  # of the differences 1, 0.8 … 0.25
    return np.concatenate([differ * (1 - in_favour) * sizes, [1 - differ], differ * in_favour * sizes[::-1]])


def draw(rng: np.random.Generator, items: int, likely: Doubles) -> Doubles:
    return rng.choice(STEPS, items, p=likely)


# Slow references


def students_t(level: float, freedom: float) -> float:
    """Return the two-sided quantile at `level`, by summing the density."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    x, covered, step = 0.0, 0.0, 1e-4
    while covered < level:
        covered += 2 * step * scale * (1 + (x + step / 2) ** 2 / freedom) ** (-(freedom + 1) / 2)
        x += step
    return x


def slow_interval(differences: Sequence[float], clusters: Sequence[int], resamples: int) -> tuple[float, float]:
    """Return the bootstrap interval by the textbook: draw clusters, take the means of their items, sort, take two of them."""
    members: dict[int, list[float]] = {}
    for value, cluster in zip(differences, clusters, strict=True):
        members.setdefault(cluster, []).append(value)
    groups = list(members.values())
    draws = random.Random(7)
    means = []
    for _ in range(resamples):
        items = [value for group in draws.choices(groups, k=len(groups)) for value in group]
        means.append(sum(items) / len(items))
    means.sort()
    mean, count = sum(differences) / len(differences), len(groups)
    residuals = [sum(group) - len(group) * mean for group in groups]
    variance = sum(r**2 for r in residuals) / count
    kurtosis = sum(r**4 for r in residuals) / count / variance**2
    reach = students_t(0.95, min(count - 1, 2 * count / (kurtosis - 1))) * math.sqrt(count / (count - 1))
    tail = math.erfc(reach / math.sqrt(2)) / 2
    return means[round(tail * resamples)], means[round((1 - tail) * resamples) - 1]


def exact_p(sums: Sequence[float]) -> float:
    """Return the p-value over all flips of signs."""
    observed = abs(sum(sums))
    flips = list(product((1, -1), repeat=len(sums)))
    hits = sum(abs(sum(sign * value for sign, value in zip(signs, sums, strict=True))) >= observed - 1e-9 for signs in flips)
    return hits / len(flips)


@pytest.mark.parametrize("clustered", [False, True])
def test_intervals_equal_those_of_the_slow_reference(clustered: bool) -> None:
    rng = np.random.default_rng(3)
    differences = draw(rng, 120, chances(0.4, 0.6))
    clusters = np.sort(rng.integers(0, 40, 120)) if clustered else np.arange(120)
    wanted = slow_interval(differences.tolist(), clusters.tolist(), 6000)
    found = bootstrap_interval(differences, clusters if clustered else None)
    width = wanted[1] - wanted[0]
    assert found == pytest.approx(wanted, abs=0.05 * width)
    assert found[0] < differences.mean() < found[1]


@pytest.mark.parametrize("seed", range(4))
def test_p_values_equal_those_of_all_flips(seed: int) -> None:
    differences = draw(np.random.default_rng(seed), 11, chances(0.8, 0.75))
    wanted = exact_p(differences.tolist())
    assert randomisation_p(differences) == pytest.approx(wanted, abs=4 * math.sqrt(wanted / 10_000))


def test_whole_clusters_are_flipped() -> None:
    """Four texts have three questions each, all better: significant with twelve flips, but not with four."""
    differences, clusters = np.ones(12), np.repeat(np.arange(4), 3)
    assert randomisation_p(differences) < 0.002
    assert exact_p([3.0] * 4) == 0.125
    assert randomisation_p(differences, clusters) == pytest.approx(0.125, abs=0.015)


# Simulated systems


def coverage(simulated: Callable[[np.random.Generator], tuple[Doubles, Clusters | None]], truth: float, times: int) -> float:
    rng = np.random.default_rng(11)
    covered = 0
    for seed in range(times):
        differences, clusters = simulated(rng)
        low, high = bootstrap_interval(differences, clusters, resamples=600, seed=seed)
        covered += low - 1e-12 <= truth <= high + 1e-12
    return covered / times


@pytest.mark.parametrize(
    ("items", "differ", "in_favour"),
    [(300, 0.03, 0.8), (300, 0.08, 0.5), (300, 0.08, 0.75), (1500, 0.08, 0.6), (1500, 0.25, 0.55)],
)
def test_intervals_cover_the_truth(items: int, differ: float, in_favour: float) -> None:
    likely = chances(differ, in_favour)
    found = coverage(lambda rng: (draw(rng, items, likely), None), float(likely @ STEPS), 1000)
    assert 0.93 <= found <= 0.97


def test_intervals_of_questions_that_depend_on_each_other() -> None:
    """On every text one system is better, so the differences within a text are correlated. Texts have 1 to 8 questions."""

    def simulated(rng: np.random.Generator) -> tuple[Doubles, Clusters | None]:
        clusters = np.repeat(np.arange(80), rng.integers(1, 9, 80))
        lean = rng.choice([0.2, 0.8], 80)[clusters]
        sign = np.where(rng.random(len(clusters)) < lean, 1.0, -1.0)
        return np.where(rng.random(len(clusters)) < 0.5, sign, 0.0), clusters

    assert 0.93 <= coverage(simulated, 0.0, 1000) <= 0.97
    assert coverage(lambda rng: (simulated(rng)[0], None), 0.0, 300) < 0.91, "intervals that ignore the clusters are too narrow"


@pytest.mark.parametrize("clustered", [False, True])
def test_p_values_of_equal_systems_are_uniform(clustered: bool) -> None:
    rng = np.random.default_rng(5)
    likely = chances(0.15, 0.5)
    clusters = np.repeat(np.arange(60), 5) if clustered else None
    p = np.array([randomisation_p(draw(rng, 300, likely), clusters, resamples=1000, seed=seed) for seed in range(1500)])
    for share in (0.05, 0.25, 0.5, 0.75):
        assert np.mean(p <= share) == pytest.approx(share, abs=0.02 if share == 0.05 else 0.05)


def test_the_needed_number_of_questions_gives_the_power() -> None:
    likely = chances(0.15, 0.6)
    kind = np.repeat(STEPS, np.round(20_000 * likely).astype(int))
    items = items_needed(kind)
    assert items is not None and 1000 < items < 2000
    rng = np.random.default_rng(6)
    zeros = np.zeros(items)
    verdicts = [compare_scores(zeros, draw(rng, items, likely), resamples=500, seed=seed).verdict for seed in range(400)]
    assert verdicts.count("better") / 400 == pytest.approx(0.8, abs=0.05)
    assert "worse" not in verdicts


# Identities


def test_the_needed_questions_by_hand() -> None:
    """The number is (1.96 + 0.84)² times the variance over the squared difference."""
    differences = np.array([1.0] * 30 + [-1.0] * 20 + [0.0] * 50)
    assert items_needed(differences) == math.ceil((1.959964 + 0.841621) ** 2 * differences.var(ddof=1) / 0.1**2)
    as_one = np.repeat(np.arange(50), 2)  # a pair of questions that always agree counts as one question
    doubled = items_needed(np.repeat(differences[::2], 2), as_one)
    single = items_needed(differences[::2])
    assert doubled is not None and single is not None
    assert doubled == pytest.approx(2 * single, abs=2)


def test_more_items_are_needed_after_an_insignificant_result() -> None:
    """Five texts favour one system: that happens by chance in 1 of 16 cases, whatever the sizes of the differences."""
    differences, clusters = np.tile([1.0, 1.0, 1.0, 0.0], 15), np.repeat(np.arange(5), 12)
    found = compare_scores(np.zeros(60), differences + 0.01 * clusters, clusters)
    assert found.verdict == "not distinguishable" and found.low > 0
    assert found.needed == 61


def test_clusters_of_one_item_change_nothing() -> None:
    differences = draw(np.random.default_rng(0), 200, chances(0.2, 0.6))
    assert compare_scores(np.zeros(200), differences, np.arange(200)) == compare_scores(np.zeros(200), differences)


def test_the_order_of_items_and_the_names_of_clusters_do_not_matter() -> None:
    rng = np.random.default_rng(0)
    differences, clusters = draw(rng, 200, chances(0.2, 0.6)), rng.integers(0, 50, 200)
    order = rng.permutation(200)
    one = compare_scores(np.zeros(200), differences, clusters)
    other = compare_scores(np.zeros(200), differences[order], 1000 - 3 * clusters[order])
    assert (other.low, other.high, other.p) == pytest.approx((one.low, one.high, one.p), abs=0.003)
    plain, shuffled = (compare_scores(np.zeros(200), values) for values in (differences, differences[order]))
    assert (shuffled.low, shuffled.high, shuffled.p) == (plain.low, plain.high, plain.p)


def test_swapping_the_systems_reverses_the_verdict() -> None:
    rng = np.random.default_rng(2)
    a = rng.random(500)
    b = a + rng.normal(0.1, 0.3, 500)  # scores may be any numbers
    one, other = compare_scores(a, b), compare_scores(b, a)
    assert (one.verdict, other.verdict) == ("better", "worse")
    assert (-other.high, -other.low) == pytest.approx((one.low, one.high), abs=0.002)
    assert (other.p, other.needed) == (one.p, one.needed)
    assert one.mean == pytest.approx(-other.mean) and 0 < one.low < one.mean < one.high
    error = 1.96 * float((b - a).std()) / math.sqrt(500)
    assert (one.low, one.high) == pytest.approx((one.mean - error, one.mean + error), abs=0.003)


def test_seeds() -> None:
    differences = draw(np.random.default_rng(0), 300, chances(0.2, 0.6))
    zeros = np.zeros(300)
    assert compare_scores(zeros, differences, seed=4) == compare_scores(zeros, differences, seed=4)
    assert compare_scores(zeros, differences, seed=4) != compare_scores(zeros, differences, seed=5)


def test_equal_systems() -> None:
    scores = np.random.default_rng(0).random(50)
    same = compare_scores(scores, scores)
    assert (same.mean, same.low, same.high, same.p, same.needed) == (0, 0, 0, 1, None)
    assert same.verdict == "not distinguishable"
    balanced = compare_scores(np.zeros(4), np.array([0.1, 0.2, -0.1, -0.2]))
    assert balanced.needed is None and balanced.p == 1


@pytest.mark.parametrize("items", [1, 2, 4, 5])
def test_five_differing_items_are_not_enough(items: int) -> None:
    """If all favour one system, the probability by chance is at least 2 in 2^5."""
    found = compare_scores(np.zeros(100), np.array([1.0] * items + [0.0] * (100 - items)))
    assert found.verdict == "not distinguishable" and found.p > 0.05
    assert found.low <= items / 100 <= found.high


def test_memory_is_bounded() -> None:
    """The counts of all resamples at once would need 80 MB."""
    differences = np.random.default_rng(0).normal(size=5000)
    tracemalloc.start()
    try:
        compare_scores(np.zeros(5000), differences, resamples=2000)
        assert tracemalloc.get_traced_memory()[1] < 30e6
    finally:
        tracemalloc.stop()


def test_input_that_cannot_be_compared() -> None:
    with pytest.raises(LaminaError, match="scores of 3 and of 2 items"):
        compare_scores(np.zeros(3), np.zeros(2))
    with pytest.raises(LaminaError, match=r"clusters: 2 numbers for 3 items\. Fix: "):
        compare_scores(np.zeros(3), np.zeros(3), np.array([0, 1]))
    with pytest.raises(LaminaError, match=r"needs at least 2 clusters, not 1\. Fix: "):
        compare_scores(np.zeros(3), np.zeros(3), np.zeros(3, np.int64))
    with pytest.raises(LaminaError, match="needs at least 2 items, not 0"):
        compare_scores(np.zeros(0), np.zeros(0))
    with pytest.raises(LaminaError, match="not one finite number per item"):
        compare_scores(np.zeros(2), np.array([0.0, np.nan]))


def test_interval_of_correlations_covers_the_difference() -> None:
    draw = np.random.default_rng(0)
    gold = draw.normal(size=200)
    poor, good = gold + 2 * draw.normal(size=200), gold + 0.5 * draw.normal(size=200)
    low, high = correlation_interval(poor, good, gold)
    difference = np.corrcoef(good, gold)[0, 1] - np.corrcoef(poor, gold)[0, 1]
    assert 0 < low < difference < high
    assert correlation_interval(good, good, gold) == (0.0, 0.0)
    assert correlation_interval(np.ones(200), np.ones(200), gold) == (0.0, 0.0)
    assert correlation_interval(poor[None], good[None], gold) == (low, high)
    narrow = correlation_interval(poor, good, gold, level=0.8)
    assert low < narrow[0] < narrow[1] < high


def test_interval_of_correlations_of_several_runs_is_that_of_their_mean_difference() -> None:
    """The mean of predictions with independent errors is better than each, so its correlation is another question."""
    draw = np.random.default_rng(1)
    gold = draw.normal(size=300)
    a = gold + 0.7 * draw.normal(size=300) + np.zeros((3, 1))  # [3, N] equal runs
    b = gold + draw.normal(size=(3, 300))  # worse runs, whose mean is about as good
    low, high = correlation_interval(a, b, gold)
    differences = [np.corrcoef(y, gold)[0, 1] - np.corrcoef(x, gold)[0, 1] for x, y in zip(a, b, strict=True)]
    assert low < np.mean(differences) < high < 0
    of_means = correlation_interval(a.mean(0), b.mean(0), gold)
    assert of_means[1] > 0
