"""Test whether two systems are equivalent: whether their scores on the same items differ by less than a margin.

A test that finds no difference does not show that there is none. Two one-sided tests do (TOST; Schuirmann 1987): one rejects
that b is worse than a by the margin or more, the other that b is better by as much. Both reject at a level of 5% if and only
if the 90% interval of the mean difference lies between -margin and +margin. The interval is that of
`significance.bootstrap_interval`: paired, expanded, and by clusters.

If the whole interval lies beyond a margin, the two are different. Otherwise these items are too few to tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from lamina.errors import LaminaError
from lamina.scoring.significance import RESAMPLES, Clusters, bootstrap_interval
from lamina.utils.arrays import Doubles

EquivalenceVerdict = Literal["equivalent", "different", "undecided"]
ALPHA: Final = 0.05  # of each of the two tests


@dataclass(frozen=True)
class Equivalence:
    """Whether two systems differ by less than a margin, in the units of the scores."""

    margin: float
    mean: float  # of b's score minus a's
    low: float  # the interval of the mean whose level is 1 - 2 * ALPHA
    high: float
    verdict: EquivalenceVerdict
    items: int


def equivalence(
    a: Doubles,
    b: Doubles,
    margin: float,
    clusters: Clusters | None = None,
    *,
    alpha: float = ALPHA,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Equivalence:
    """Compare the scores [N] of two systems on the same items.

    Args:
        a: The scores of the first system.
        b: The scores of the second one, in the same order.
        margin: The least difference that matters, above 0, in the units of the scores.
        clusters: [N] the numbers of the items' clusters; None if items are independent.
        alpha: The level of each of the two tests.
        resamples: The number of resamples of the bootstrap.
        seed: The seed of the bootstrap.

    Raises:
        LaminaError: The scores are not of the same items.
        ValueError: The margin is not above 0.
    """
    if not margin > 0:
        raise ValueError(f"margin must be above 0, not {margin}")
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape:
        raise LaminaError(
            f"a and b: scores of {len(a)} and of {len(b)} items. Fix: give scores of the same items, in the same order"
        )
    low, high = bootstrap_interval(b - a, clusters, level=1 - 2 * alpha, resamples=resamples, seed=seed)
    if -margin < low and high < margin:
        verdict: EquivalenceVerdict = "equivalent"
    else:
        verdict = "different" if low > margin or high < -margin else "undecided"
    return Equivalence(margin, float((b - a).mean()), low, high, verdict, len(a))
