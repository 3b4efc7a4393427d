"""Scores of sentence tasks, from 0 to 1: accuracy, macro-F1, and the correlations of Pearson and Spearman (from -1 to 1).

Also the shares of the classes, and one score for several tasks. All functions take numbers; none needs a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lamina.errors import LaminaError
from lamina.utils.arrays import Doubles

Numbers = npt.ArrayLike


def accuracy(predicted: Numbers, gold: Numbers) -> float:
    """Return the share of items whose class is right.

    >>> accuracy([0, 1, 1, 2], [0, 1, 2, 2])
    0.75
    """
    given, wanted = _pairs(predicted, gold)
    return float((given == wanted).mean())


def macro_f1(predicted: Numbers, gold: Numbers) -> float:
    """Return the mean of the F1 scores of all classes that occur in the labels or the predictions.

    >>> macro_f1([0, 0, 0], [0, 0, 1])
    0.4
    """
    given, wanted = _pairs(predicted, gold)
    scores = []
    for number in np.unique(np.concatenate([given, wanted])):
        right = ((given == number) & (wanted == number)).sum()
        scores.append(2 * right / ((given == number).sum() + (wanted == number).sum()))
    return float(np.mean(scores))


def pearson(predicted: Numbers, gold: Numbers) -> float:
    """Return Pearson's correlation; 0.0 if all predictions or all labels are equal, where it is undefined.

    >>> pearson([1, 2, 3], [2, 4, 6]), pearson([0.7, 0.7, 0.7], [1, 2, 3])
    (1.0, 0.0)
    """
    given, wanted = (_centred(numbers) for numbers in _pairs(predicted, gold))
    if not given.any() or not wanted.any():
        return 0.0
    correlation = given @ wanted / (np.linalg.norm(given) * np.linalg.norm(wanted))
    return float(np.clip(correlation, -1.0, 1.0))


def spearman(predicted: Numbers, gold: Numbers) -> float:
    """Return Spearman's correlation: that of the ranks.

    >>> spearman([0.1, 0.2, 0.9], [1, 3, 2])
    0.5
    """
    given, wanted = _pairs(predicted, gold)
    return pearson(ranks(given), ranks(wanted))


def ranks(numbers: Numbers) -> Doubles:
    """Return the rank of each number, 1 for the smallest; equal numbers share the mean of their ranks.

    >>> ranks([10, 30, 20, 20]).tolist()
    [1.0, 4.0, 2.5, 2.5]
    """
    _, which, count = np.unique(np.asarray(numbers, np.float64), return_inverse=True, return_counts=True)
    mean: Doubles = np.cumsum(count) - (count - 1) / 2
    return mean[which]


def distribution(labels: Numbers, classes: Sequence[str]) -> dict[str, float]:
    """Return the share of each class among labels, which are the numbers of classes.

    >>> distribution([0, 1, 1, 1], ["no", "yes", "absent"])
    {'no': 0.25, 'yes': 0.75, 'absent': 0.0}
    """
    numbers = np.asarray(labels).astype(np.int64)
    if not len(numbers):
        raise LaminaError("labels: there are none. Fix: give the labels of at least one item")
    if numbers.min() < 0 or numbers.max() >= len(classes):
        odd = numbers.min() if numbers.min() < 0 else numbers.max()
        raise LaminaError(f"labels: there is no class {odd}. Fix: give classes from 0 to {len(classes) - 1}")
    counts = np.bincount(numbers, minlength=len(classes))
    return {name: float(share) for name, share in zip(classes, counts / len(numbers), strict=True)}


# ---- several tasks


@dataclass(frozen=True, slots=True)
class TaskScore:
    """The score of one task and its number of items; `correlation` marks a Pearson, which may be below 0."""

    score: float
    rows: int
    correlation: bool = False


def overall(tasks: Sequence[TaskScore]) -> dict[str, float]:
    """Return one score for several tasks, by three definitions.

    These are the plain mean, CS224N's mean, where a correlation r counts as (r + 1) / 2, and the mean weighted by items.
    Paper 002 states .589 for the scores of its last row. None of the three gives that: the plain mean is .544, and
    CS224N's is .622.

    >>> last = [TaskScore(0.520, 1101), TaskScore(0.583, 20212), TaskScore(0.528, 863, correlation=True)]
    >>> {name: round(score, 3) for name, score in overall(last).items()}
    {'mean': 0.544, 'cs224n': 0.622, 'weighted': 0.578}
    >>> base = [TaskScore(0.385, 1101), TaskScore(0.375, 20212), TaskScore(0.280, 863, correlation=True)]
    >>> round(overall(base)["mean"], 3)
    0.347
    """
    if not tasks or sum(task.rows for task in tasks) == 0:
        raise LaminaError("tasks: there are no items to score. Fix: give at least one task with items")
    return {
        "mean": float(np.mean([task.score for task in tasks])),
        "cs224n": float(np.mean([(task.score + 1) / 2 if task.correlation else task.score for task in tasks])),
        "weighted": float(np.average([task.score for task in tasks], weights=[task.rows for task in tasks])),
    }


def _pairs(predicted: Numbers, gold: Numbers) -> tuple[Doubles, Doubles]:
    given, wanted = np.asarray(predicted, np.float64), np.asarray(gold, np.float64)
    if given.shape != wanted.shape or given.ndim != 1:
        raise LaminaError(f"predicted: {len(given)} predictions for {len(wanted)} labels. Fix: give one for each")
    if not len(given):
        raise LaminaError("predicted: there is nothing to score. Fix: give at least one item")
    if not (np.isfinite(given).all() and np.isfinite(wanted).all()):
        raise LaminaError(
            "predicted: a prediction or a label is not a finite number. "
            "Fix: correct the label, or train a model that diverged again"
        )
    return given, wanted


def _centred(numbers: Doubles) -> Doubles:
    """Return the numbers minus their mean, scaled to a largest value of 1; exactly 0 if all numbers are equal."""
    if numbers.max() == numbers.min():
        return np.zeros_like(numbers)
    scaled = numbers / np.abs(numbers).max()
    centred: Doubles = scaled - scaled.mean()
    centred /= np.abs(centred).max()
    return centred
