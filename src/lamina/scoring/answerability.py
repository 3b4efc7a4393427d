"""Is a question answerable? From what a classifier says of each window to one verdict a question, and its scores.

A window without the answer is rightly called impossible even where another window holds it. So a question is impossible only
if every window says so ("min"). BERTVision (Jiang, Benge and King 2021) lets any window that says so decide ("max"), which
calls long texts impossible too often.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from lamina.errors import LaminaError
from lamina.utils.arrays import Bools, Doubles, Ints

IMPOSSIBLE = 1  # the class of windows without an answer


def answerability(impossible: npt.NDArray[np.floating], example: Ints, how: Literal["min", "max"] = "min") -> Doubles:
    """[E] the probability that a question is impossible, from that of each of its windows.

    `impossible` [W] holds the windows' probabilities, `example` [W] says whose windows they are (`Windows.example`).

    >>> answerability(np.array([0.9, 0.2, 0.7]), np.array([0, 0, 1], np.int32)).tolist()
    [0.2, 0.7]
    >>> answerability(np.array([0.9, 0.2, 0.7]), np.array([0, 0, 1], np.int32), "max").tolist()
    [0.9, 0.7]
    """
    if impossible.shape != example.shape:
        raise LaminaError(f"{len(impossible)} probabilities for {len(example)} windows: give one a window")
    if not np.isfinite(impossible).all():
        raise LaminaError("a probability that is no number: the model that gave it has diverged")
    merged = np.full(int(example.max(initial=-1)) + 1, np.inf if how == "min" else -np.inf)
    (np.minimum if how == "min" else np.maximum).at(merged, example, impossible.astype(np.float64))
    if not np.isfinite(merged).all():
        raise LaminaError(f"question {np.argmin(np.isfinite(merged)) + 1} has no windows: give the windows of every question")
    return merged


def score_answerability(impossible: Doubles, unanswerable: Bools) -> dict[str, float]:
    """Accuracy and F1 of the class "impossible" in percent; a question is called so above one half.

    Where no question is impossible and none is called so, the F1 is 0, as in scikit-learn.
    """
    if impossible.shape != unanswerable.shape or not len(unanswerable):
        raise LaminaError(f"{len(impossible)} verdicts for {len(unanswerable)} questions: give one a question, at least one")
    said = impossible > 0.5
    both, either = np.count_nonzero(said & unanswerable), np.count_nonzero(said) + np.count_nonzero(unanswerable)
    return {
        "accuracy": 100 * float(np.mean(said == unanswerable)),
        "f1": 100 * 2 * int(both) / int(either) if either else 0.0,
        "total": len(unanswerable),
    }
