"""Scores of sentence tasks, all as shares of 1: accuracy, macro-F1, the correlations of Pearson and Spearman, what classes are
said and how often, and one score for several tasks. No model is needed, only numbers.

Also the two maps from a cosine to a score that paper 002 (Stephens) tried and rejected.
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
    """The share of items whose class is right.

    >>> accuracy([0, 1, 1, 2], [0, 1, 2, 2])
    0.75
    """
    said, wanted = _pairs(predicted, gold)
    return float((said == wanted).mean())


def macro_f1(predicted: Numbers, gold: Numbers) -> float:
    """The mean of the F1 scores of all classes that occur, in the labels or among what was said.

    >>> macro_f1([0, 0, 0], [0, 0, 1])
    0.4
    """
    said, wanted = _pairs(predicted, gold)
    scores = []
    for number in np.unique(np.concatenate([said, wanted])):
        right = ((said == number) & (wanted == number)).sum()
        scores.append(2 * right / ((said == number).sum() + (wanted == number).sum()))
    return float(np.mean(scores))


def pearson(predicted: Numbers, gold: Numbers) -> float:
    """The correlation of two rows of numbers; 0.0 where one of them is the same number throughout, which tells nothing.

    >>> pearson([1, 2, 3], [2, 4, 6]), pearson([0.7, 0.7, 0.7], [1, 2, 3])
    (1.0, 0.0)
    """
    said, wanted = (_centred(numbers) for numbers in _pairs(predicted, gold))
    if not said.any() or not wanted.any():
        return 0.0
    correlation = said @ wanted / (np.linalg.norm(said) * np.linalg.norm(wanted))
    return float(np.clip(correlation, -1.0, 1.0))


def spearman(predicted: Numbers, gold: Numbers) -> float:
    """The correlation of the ranks.

    >>> spearman([0.1, 0.2, 0.9], [1, 3, 2])
    0.5
    """
    said, wanted = _pairs(predicted, gold)
    return pearson(ranks(said), ranks(wanted))


def ranks(numbers: Numbers) -> Doubles:
    """1 for the smallest; equal numbers share the mean of their ranks.

    >>> ranks([10, 30, 20, 20]).tolist()
    [1.0, 4.0, 2.5, 2.5]
    """
    _, which, count = np.unique(np.asarray(numbers, np.float64), return_inverse=True, return_counts=True)
    mean: Doubles = np.cumsum(count) - (count - 1) / 2
    return mean[which]


def distribution(labels: Numbers, classes: Sequence[str]) -> dict[str, float]:
    """The share of each class among labels, which are classes' numbers.

    >>> distribution([0, 1, 1, 1], ["no", "yes", "never said"])
    {'no': 0.25, 'yes': 0.75, 'never said': 0.0}
    """
    numbers = np.asarray(labels).astype(np.int64)
    if not len(numbers):
        raise LaminaError("there is nothing to count: give the labels of at least one item")
    if numbers.min() < 0 or numbers.max() >= len(classes):
        odd = numbers.min() if numbers.min() < 0 else numbers.max()
        raise LaminaError(f"there is a label of class {odd}, but the classes are 0 to {len(classes) - 1}")
    counts = np.bincount(numbers, minlength=len(classes))
    return {name: float(share) for name, share in zip(classes, counts / len(numbers), strict=True)}


# ---- several tasks


@dataclass(frozen=True, slots=True)
class TaskScore:
    """What one task scored on how many items; `correlation` for a Pearson, which may be below 0."""

    score: float
    rows: int
    correlation: bool = False


def overall(tasks: Sequence[TaskScore]) -> dict[str, float]:
    """One score for several tasks, by three definitions: the plain mean; CS224N's, where a correlation r counts as
    (r + 1) / 2; and the mean weighted by the tasks' items.

    Paper 002 states .589 for the scores of its last row. None of the three gives that: the plain mean is .544, and .622
    follows by CS224N's.

    >>> last = [TaskScore(0.520, 1101), TaskScore(0.583, 20212), TaskScore(0.528, 863, correlation=True)]
    >>> {name: round(score, 3) for name, score in overall(last).items()}
    {'mean': 0.544, 'cs224n': 0.622, 'weighted': 0.578}
    >>> base = [TaskScore(0.385, 1101), TaskScore(0.375, 20212), TaskScore(0.280, 863, correlation=True)]
    >>> round(overall(base)["mean"], 3)
    0.347
    """
    if not tasks or sum(task.rows for task in tasks) == 0:
        raise LaminaError("there is no overall score of no items: give at least one task with some")
    return {
        "mean": float(np.mean([task.score for task in tasks])),
        "cs224n": float(np.mean([(task.score + 1) / 2 if task.correlation else task.score for task in tasks])),
        "weighted": float(np.average([task.score for task in tasks], weights=[task.rows for task in tasks])),
    }


# ---- maps from a cosine to a score


def _pairs(predicted: Numbers, gold: Numbers) -> tuple[Doubles, Doubles]:
    said, wanted = np.asarray(predicted, np.float64), np.asarray(gold, np.float64)
    if said.shape != wanted.shape or said.ndim != 1:
        raise LaminaError(f"{len(said)} predictions for {len(wanted)} labels: give one for each")
    if not len(said):
        raise LaminaError("there is nothing to score: give at least one item")
    if not (np.isfinite(said).all() and np.isfinite(wanted).all()):
        raise LaminaError("a prediction or a label is no finite number: the model that gave it may have diverged")
    return said, wanted


def _centred(numbers: Doubles) -> Doubles:
    """Less their mean, scaled to a largest value of 1; all 0 if they are one number, whatever rounding makes of their mean."""
    if numbers.max() == numbers.min():
        return np.zeros_like(numbers)
    scaled = numbers / np.abs(numbers).max()
    centred: Doubles = scaled - scaled.mean()
    centred /= np.abs(centred).max()
    return centred
