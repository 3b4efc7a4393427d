"""Count where predictions go wrong: confusion matrices, and the errors among the most confident predictions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lamina.errors import LaminaError
from lamina.utils.arrays import Doubles, Longs


def confusion(predicted: npt.ArrayLike, gold: npt.ArrayLike, classes: int) -> Longs:
    """Return [gold class, predicted class] the number of items, from class numbers.

    >>> confusion([0, 1, 1], [0, 0, 1], 2).tolist()
    [[1, 1], [0, 1]]
    """
    given, wanted = np.asarray(predicted, np.int64), np.asarray(gold, np.int64)
    if given.shape != wanted.shape:
        raise LaminaError(f"predicted: {len(given)} predictions for {len(wanted)} labels. Fix: give one for each")
    counts: Longs = np.bincount(wanted * classes + given, minlength=classes * classes).reshape(classes, classes)
    return counts


def risk_coverage(confidence: Sequence[float], right: Sequence[bool]) -> Doubles:
    """Return [N] the share of wrong predictions among the 1, 2, … N most confident ones.

    The mean over all N is the area under the risk-coverage curve (Geifman et al. 2019). Predictions of equal confidence have
    no order, so each of them counts with the mean of their errors.

    >>> risk_coverage([0.9, 0.5, 0.7, 0.7], [True, False, True, False]).round(2).tolist()
    [0.0, 0.25, 0.33, 0.5]
    """
    values, errors = np.asarray(confidence, np.float64), 1.0 - np.asarray(right, np.float64)
    _, group, sizes = np.unique(-values, return_inverse=True, return_counts=True)  # groups by falling confidence
    means = np.bincount(group, weights=errors, minlength=len(sizes)) / sizes
    risks: Doubles = np.cumsum(np.repeat(means, sizes)) / np.arange(1, len(values) + 1)
    return risks
