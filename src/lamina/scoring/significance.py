"""Test whether two systems differ significantly, from their scores on the same items: questions, sentences or others.

- The interval of the mean difference is that of a paired bootstrap, which resamples items with both of their scores. We take
  the *expanded* percentiles of the resampled means (Hesterberg 2015, "What teachers should know about the bootstrap"). One
  departure: the degrees of freedom follow from the kurtosis of the differences. Two systems agree on most questions, so the
  few others decide. Plain percentiles take the number of these as known, and are too narrow. If few items differ, BCa and the
  studentised bootstrap cover the truth less often.
- The p-value is that of approximate randomisation (Noreen 1989; Yeh 2000). If the two systems were equal, their names could
  be swapped on every item, so the sign of every difference could be flipped.
- Items of one cluster (the questions on one text) are not independent. With clusters, whole clusters are resampled, and the
  signs of whole clusters are flipped.

Both are about the items: whether *these two* trained models would differ on other questions of the kind. They are not about
the recipes, because another seed gives another model. One in twenty comparisons at 95% is wrong by chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from lamina.errors import LaminaError
from lamina.utils.arrays import Doubles

Clusters = npt.NDArray[np.integer[Any]]
Verdict = Literal["better", "worse", "not distinguishable"]

LEVEL: Final = 0.95
POWER: Final = 0.8
RESAMPLES: Final = 10_000
_AT_ONCE: Final = 2**20  # numbers in memory


@dataclass(frozen=True)
class Difference:
    """The difference of the scores of system b and system a, and whether it is significant."""

    mean: float  # of b's score minus a's
    low: float  # the interval of the mean
    high: float
    p: float
    verdict: Verdict  # on b
    items: int
    clusters: int
    needed: int | None  # items for a difference of this size to be significant; None if the means are equal


def compare_scores(
    a: Doubles,
    b: Doubles,
    clusters: Clusters | None = None,
    *,
    level: float = LEVEL,
    power: float = POWER,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference:
    """Compare the scores [N] of two systems on the same items. `clusters` [N] are the numbers of the items' clusters.

    b is better or worse if the interval excludes 0 and p is at most 1 - level. The two conditions nearly always agree. If very
    few items differ, the interval is too narrow but p is right.
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape:
        raise LaminaError(
            f"a and b: scores of {len(a)} and of {len(b)} items. Fix: give scores of the same items, in the same order"
        )
    differences = b - a
    low, high = bootstrap_interval(differences, clusters, level=level, resamples=resamples, seed=seed)
    p = randomisation_p(differences, clusters, resamples=resamples, seed=seed)
    significant = p <= 1 - level and not low <= 0 <= high
    needed = items_needed(differences, clusters, level=level, power=power)
    if needed is not None and not significant:
        needed = max(needed, len(differences) + 1)  # these items were too few; the normal approximation needs many clusters
    sums, _ = _totals(differences, clusters)
    return Difference(
        mean=float(differences.mean()),
        low=low,
        high=high,
        p=p,
        verdict="not distinguishable" if not significant else "better" if low > 0 else "worse",
        items=len(differences),
        clusters=len(sums),
        needed=needed,
    )


def bootstrap_interval(
    differences: Doubles,
    clusters: Clusters | None = None,
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the interval that covers the true mean difference with probability `level`.

    Clusters with the same sum and size are of one kind. This draws the counts of the kinds instead of items, which has the
    same distribution. All questions on which both systems agree then cost one number.
    """
    sums, sizes = _totals(differences, clusters)  # [G] each
    kinds, counts = np.unique(np.stack([sums, sizes], axis=1), axis=0, return_counts=True)  # [K, 2], [K]
    random = np.random.default_rng(seed)
    means = []
    for rows in _pieces(resamples, len(kinds)):
        drawn = random.multinomial(len(sums), counts / len(sums), size=rows)  # [rows, K]
        total = drawn @ kinds  # [rows, 2] sum of differences, number of items
        means.append(total[:, 0] / total[:, 1])
    tail = NormalDist().cdf(-_reach(_residuals(sums, sizes), level))
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    return float(low), float(high)


def randomisation_p(
    differences: Doubles, clusters: Clusters | None = None, *, resamples: int = RESAMPLES, seed: int = 0
) -> float:
    """Return the share of sign flips whose mean is at least as far from 0 as the observed one, which counts as a flip.

    >>> randomisation_p(np.array([0.0, 0.0, 0.5, -0.5]))
    1.0
    """
    sums, _ = _totals(differences, clusters)
    sizes = np.sort(np.abs(sums[sums != 0]))  # [M]; sorted, so that p does not depend on the order of the items
    if not len(sizes):
        return 1.0
    total = float(sizes.sum())
    bar = abs(float(sums.sum())) - 1e-9 * total  # sums that differ by rounding only are equal
    random = np.random.default_rng(seed)
    hits = 0
    for rows in _pieces(resamples, len(sizes)):
        octets = random.integers(0, 256, (rows, -(-len(sizes) // 8)), dtype=np.uint8)
        up = np.unpackbits(octets, axis=1, count=len(sizes))  # [rows, M] 1 where the sign is plus
        hits += int(np.count_nonzero(np.abs(2 * (up @ sizes) - total) >= bar))
    return (1 + hits) / (1 + resamples)


def correlation_interval(
    a: Doubles, b: Doubles, gold: Doubles, *, level: float = LEVEL, resamples: int = 2_000, seed: int = 0
) -> tuple[float, float]:
    """Return the interval of the difference of two Pearson correlations with `gold` [N], that of b minus that of a.

    a and b have the shape [N], or [S, N] with a row for each of S pairs of runs: then it is the interval of the mean of their
    differences. It is the plain percentile interval of a paired bootstrap over the items. A resample whose values are all
    equal has the correlation 0.
    """
    pairs = list(zip(np.atleast_2d(a), np.atleast_2d(b), strict=True))
    random = np.random.default_rng(seed)
    found = []
    for rows in _pieces(resamples, len(gold)):
        drawn = random.integers(0, len(gold), (rows, len(gold)))  # [rows, N]
        right = gold[drawn]
        found.append(np.mean([_correlations(y[drawn], right) - _correlations(x[drawn], right) for x, y in pairs], axis=0))
    low, high = np.quantile(np.concatenate(found), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _correlations(a: Doubles, b: Doubles) -> Doubles:
    """Return [rows] the Pearson correlation of each row of two matrices [rows, N]."""
    a, b = a - a.mean(1, keepdims=True), b - b.mean(1, keepdims=True)
    lengths = np.sqrt((a**2).sum(1) * (b**2).sum(1))
    found: Doubles = np.where(lengths > 1e-12, (a * b).sum(1) / np.maximum(lengths, 1e-12), 0.0)
    return found


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values that are corrected for their number by Holm's method, in the same order.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    corrected = [0.0] * len(values)
    greatest = 0.0
    for place, number in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        greatest = max(greatest, min(1.0, (len(values) - place) * values[number]))
        corrected[number] = greatest
    return corrected


def cluster_error(differences: Doubles, clusters: Clusters | None = None) -> float:
    """Return the standard error of the mean difference over items in clusters.

    >>> round(cluster_error(np.array([1.0, 0.0, 1.0, 0.0])), 4)
    0.2887
    """
    sums, sizes = _totals(differences, clusters)
    squares = float((_residuals(sums, sizes) ** 2).sum()) * len(sums) / (len(sums) - 1)
    return math.sqrt(squares) / float(sizes.sum())


def items_needed(
    differences: Doubles, clusters: Clusters | None = None, *, level: float = LEVEL, power: float = POWER
) -> int | None:
    """Return how many items, in clusters like these, make a true difference of the observed size significant.

    The probability of that is `power`, by the normal approximation. None if the means are equal.
    """
    sums, sizes = _totals(differences, clusters)
    mean = float(sums.sum() / sizes.sum())
    if abs(mean) <= 1e-9 * float(np.abs(sums).sum() / sizes.sum()):
        return None
    groups = len(sums)
    squares = float((_residuals(sums, sizes) ** 2).sum()) * groups / (groups - 1)
    variance = squares / float(sizes.sum())  # of the mean, times the number of items
    reach = NormalDist().inv_cdf((1 + level) / 2) + NormalDist().inv_cdf(power)
    return math.ceil(variance * (reach / mean) ** 2)


def _totals(differences: Doubles, clusters: Clusters | None) -> tuple[Doubles, Doubles]:
    """Return [G] the sum of the differences and the number of items of each cluster; without clusters, of each item."""
    differences = np.asarray(differences, np.float64)
    if differences.ndim != 1 or not np.isfinite(differences).all():
        raise LaminaError("scores: they are not one finite number per item. Fix: give one number for each item")
    if clusters is None:
        sums, sizes = differences, np.ones(len(differences))
    else:
        if len(clusters) != len(differences):
            raise LaminaError(
                f"clusters: {len(clusters)} numbers for {len(differences)} items. Fix: give the cluster of each item"
            )
        of = np.unique(clusters, return_inverse=True)[1]
        sums, sizes = np.bincount(of, differences).astype(np.float64), np.bincount(of).astype(np.float64)
    if len(sums) < 2:
        noun = "items" if clusters is None else "clusters"
        raise LaminaError(f"scores: a comparison needs at least 2 {noun}, not {len(sums)}. Fix: score more {noun}")
    return sums, sizes


def _residuals(sums: Doubles, sizes: Doubles) -> Doubles:
    """Return [G] the sum of each cluster minus the sum expected from the mean of all items."""
    return sums - sizes * float(sums.sum() / sizes.sum())


def _reach(residuals: Doubles, level: float) -> float:
    """Return the half width of the interval in standard errors of the bootstrap.

    It is the quantile of Student's t, by the expansion of Cornish and Fisher. The variance of the residuals is as uncertain as
    that of normal ones with 2 G / (kurtosis - 1) degrees of freedom, at most G - 1. The bootstrap's standard error is too
    small by sqrt((G - 1) / G).
    """
    groups, z = len(residuals), NormalDist().inv_cdf((1 + level) / 2)
    squares = residuals**2
    variance = float(squares.mean())
    if not variance:
        return z
    kurtosis = float((squares**2).mean()) / variance**2
    per_freedom = max(1 / (groups - 1), (kurtosis - 1) / (2 * groups))
    t = z + (z**3 + z) / 4 * per_freedom + (5 * z**5 + 16 * z**3 + 3 * z) / 96 * per_freedom**2
    return t * math.sqrt(groups / (groups - 1))


def _pieces(rows: int, columns: int) -> Iterator[int]:
    """Yield numbers of rows that add up to `rows`, each small enough for that many columns in memory."""
    most = max(1, _AT_ONCE // columns)
    for start in range(0, rows, most):
        yield min(most, rows - start)
