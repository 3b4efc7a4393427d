"""Merge a classifier's probabilities for windows into one for each question, and score them.

A window without the answer is rightly impossible even if another window has the answer. So a question is impossible only if
every window is ("min"). In BERTVision (Jiang, Benge and King 2021) one impossible window is enough ("max"), so long texts are
impossible too often.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from lamina.errors import LaminaError
from lamina.utils.arrays import Bools, Doubles, Ints

IMPOSSIBLE = 1  # the class of windows without an answer


def answerability(impossible: npt.NDArray[np.floating], example: Ints, how: Literal["min", "max"] = "min") -> Doubles:
    """Return [E] the probability that a question is impossible, from the probabilities of its windows.

    `impossible` [W] are the windows' probabilities, `example` [W] the number of each window's question (`Windows.example`).

    >>> answerability(np.array([0.9, 0.2, 0.7]), np.array([0, 0, 1], np.int32)).tolist()
    [0.2, 0.7]
    >>> answerability(np.array([0.9, 0.2, 0.7]), np.array([0, 0, 1], np.int32), "max").tolist()
    [0.9, 0.7]
    """
    if impossible.shape != example.shape:
        raise LaminaError(
            f"impossible: {len(impossible)} probabilities for {len(example)} windows. Fix: give one for each window"
        )
    if not np.isfinite(impossible).all():
        raise LaminaError(
            "impossible: a probability is not a finite number: the model has diverged. "
            "Fix: train it again with a lower train.lr"
        )
    merged = np.full(int(example.max(initial=-1)) + 1, np.inf if how == "min" else -np.inf)
    (np.minimum if how == "min" else np.maximum).at(merged, example, impossible.astype(np.float64))
    if not np.isfinite(merged).all():
        number = np.argmin(np.isfinite(merged)) + 1
        raise LaminaError(f"example: question {number} has no windows. Fix: give the windows of every question")
    return merged


def score_answerability(impossible: Doubles, unanswerable: Bools) -> dict[str, float]:
    """Return accuracy and F1 of the class "impossible" in percent, and the number of questions (`total`).

    `impossible` [E] are probabilities; above one half a question is predicted impossible. If no question is impossible or
    predicted so, the F1 is 0, as in scikit-learn.
    """
    if impossible.shape != unanswerable.shape or not len(unanswerable):
        raise LaminaError(
            f"impossible: {len(impossible)} probabilities for {len(unanswerable)} questions. "
            "Fix: give one for each question, and at least one question"
        )
    predicted = impossible > 0.5
    both, either = np.count_nonzero(predicted & unanswerable), np.count_nonzero(predicted) + np.count_nonzero(unanswerable)
    return {
        "accuracy": 100 * float(np.mean(predicted == unanswerable)),
        "f1": 100 * 2 * int(both) / int(either) if either else 0.0,
        "total": len(unanswerable),
    }
