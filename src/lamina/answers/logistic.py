"""Logistic curves of one variable: their values, and their fit by Newton's method."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from lamina.utils.arrays import Bools, Doubles

ROUNDS = 50
RIDGE = 1e-6  # keeps the equations solvable if all values are equal

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Line(NamedTuple):
    """The logistic curve sigmoid(level + slope * x)."""

    level: Number
    slope: Number

    def at(self, x: Doubles) -> Doubles:
        """Return the values of the curve."""
        return sigmoid(self.level + self.slope * x)


def fit_line(x: Doubles, targets: Doubles, weights: Doubles, *, least: float = -math.inf, most: float = math.inf) -> Line:
    """Return the curve with the least log loss whose slope is from `least` to `most`.

    Args:
        x: The variable, [N].
        targets: The shares to fit, [N], from 0 to 1.
        weights: The weights of the rows, [N].
        least: The least slope.
        most: The greatest slope.
    """
    centre, scale = float(x.mean()), float(x.std()) or 1.0
    rows = np.stack([np.ones(len(x)), (x - centre) / scale], 1)  # [N, 2]
    found = _newton(rows, targets, weights, np.zeros(len(x)))
    slope = float(np.clip(found[1] / scale, least, most))
    if slope != found[1] / scale:  # at a bound: fit the level alone
        found = _newton(rows[:, :1], targets, weights, slope * scale * rows[:, 1])
    return Line(float(found[0]) - slope * centre, slope)


def _newton(rows: Doubles, targets: Doubles, weights: Doubles, offset: Doubles) -> Doubles:
    """Return the coefficients of the columns of `rows` [N, C] for sigmoid(offset + rows @ coefficients)."""
    found = np.zeros(rows.shape[1])
    ridge = RIDGE * weights.sum() * np.eye(rows.shape[1])
    for _ in range(ROUNDS):
        p = sigmoid(offset + rows @ found)
        slopes = rows.T @ (weights * (targets - p)) - ridge @ found
        step = np.linalg.solve((rows.T * (weights * p * (1 - p))) @ rows + ridge, slopes)
        found = found + np.clip(step, -1.0, 1.0)  # whole steps can go astray far from the optimum
        if np.abs(step).max() < 1e-9:
            break
    return found


def platt_targets(events: Bools) -> Doubles:
    """Return the targets of Platt's method, [N]: a little less than 1 and more than 0, as one more question of each kind gives.

    >>> platt_targets(np.array([True, True, False])).tolist()
    [0.75, 0.75, 0.3333333333333333]
    """
    happened = int(events.sum())
    return np.where(events, (happened + 1) / (happened + 2), 1 / (len(events) - happened + 2))


def logit(share: float) -> float:
    """Return the logarithm of the odds of a share between 0 and 1.

    >>> logit(0.5)
    0.0
    """
    return math.log(share / (1 - share))


def sigmoid(values: Doubles) -> Doubles:
    """Return 1 / (1 + exp(-values)), without overflow."""
    result: Doubles = 1 / (1 + np.exp(-np.clip(values, -60.0, 60.0)))
    return result
