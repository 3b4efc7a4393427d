"""Turn the outputs of a sentence head into classes, scores and probabilities, without a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt

from lamina.utils.arrays import Doubles, Floats, Longs

ScoreMap = Literal["none", "bins", "cut", "sigmoid"]
ItemOutputs = Mapping[str, Floats]  # the fields of ClassOutputs, ScoreOutputs or PairOutputs, one row per item
MAPPED_CLASSES = 6  # 0 to 5, the labels of similarity
CUT = 0.5


def class_probabilities(outputs: ItemOutputs, threshold: float = 0.0, how: ScoreMap = "none") -> Doubles:
    """Return [I, C] the probability of every class. Class 1 of a pair is "similar"; its logit is `similar_logits`."""
    if "cosine" in outputs:
        alike = 1 / (1 + np.exp(-similar_logits(outputs, threshold, how)))
        return np.stack([1 - alike, alike], 1)
    logits = outputs["logits"].astype(np.float64)
    powers = np.exp(logits - logits.max(1, keepdims=True))
    chances: Doubles = powers / powers.sum(1, keepdims=True)
    return chances


def predicted_classes(outputs: ItemOutputs, threshold: float = 0.0, how: ScoreMap = "none") -> Longs:
    """Return [I] the most probable class."""
    if "cosine" in outputs:
        return np.asarray(similar_logits(outputs, threshold, how) > 0, np.int64)
    return np.asarray(outputs["logits"].argmax(1), np.int64)


def similar_logits(outputs: ItemOutputs, threshold: float = 0.0, how: ScoreMap = "none") -> Doubles:
    """Return [I] the logits of "similar" of pairs, reduced by `threshold`; above 0 means "similar".

    With "cut" the logit is 1 at a cosine of 0.5 or more, as in paper 002, and there is no threshold. Below, it is -1. A logit
    of 0 would leave both classes at a probability of one half.

    >>> similar_logits({"cosine": np.array([0.49, 0.5]), "logits": np.array([3.0, 4.0])}, how="cut").tolist()
    [-1.0, 1.0]
    """
    if how == "cut":
        return np.where(np.asarray(outputs["cosine"], np.float64) < CUT, -1.0, 1.0)
    return np.asarray(outputs["logits"], np.float64) - threshold


def predicted_scores(outputs: ItemOutputs, how: ScoreMap = "none") -> Doubles:
    """Return [I] scores from 0 (the lowest label) to 1 (the highest).

    The score of a pair is its cosine mapped by `how`, or for "sigmoid" the probability of "similar".

    >>> predicted_scores({"cosine": np.array([-0.25, 0.5], np.float32)}).tolist()
    [0.0, 0.5]
    """
    if "cosine" not in outputs:
        shares = outputs["scores"].astype(np.float64)
    else:
        shares = class_probabilities(outputs)[:, 1] if how == "sigmoid" else mapped(outputs["cosine"], how)
    return np.clip(shares, 0.0, 1.0)


def best_threshold(logits: Floats, gold: Doubles) -> float:
    """Return the threshold of "similar" nearest to 0 whose accuracy is within one standard error of the best.

    >>> best_threshold(np.array([-3, -2, 1, 4], np.float32), np.array([0.0, 0, 1, 1]))
    0.0
    >>> best_threshold(np.array([1, 2, 3, 4], np.float32), np.array([0.0, 0, 1, 1]))
    2.5
    """
    order = np.argsort(logits, kind="stable")
    values, alike = logits[order].astype(np.float64), gold[order] == 1
    right = np.concatenate([[alike.sum()], alike.sum() + np.cumsum(np.where(alike, -1, 1))]) / len(gold)  # [I + 1]
    between = (values[1:] + values[:-1]) / 2
    cuts = np.concatenate([[values[0] - 1], between, [values[-1] + 1]])
    possible = np.concatenate([[True], values[1:] > values[:-1], [True]])  # no threshold separates equal values
    best = right[possible].max()
    tolerance = np.sqrt(best * (1 - best) / len(gold))
    if right[np.searchsorted(values, 0.0, side="right")] >= best - tolerance:
        return 0.0
    good = possible & (right >= best - tolerance)
    return float(cuts[good][np.abs(cuts[good]).argmin()])


def mapped(cosines: npt.ArrayLike, how: Literal["none", "bins", "cut"]) -> Doubles:
    """Return cosines mapped as the option `map` of the cosine head says."""
    return {"none": lambda numbers: np.asarray(numbers, np.float64), "bins": binned, "cut": cut}[how](cosines)


def binned(cosines: npt.ArrayLike) -> Doubles:
    """Return the class of each cosine out of six equal classes from 0 to 1, divided by 5. Below 0 is the first class.

    >>> binned([-0.3, 0.1, 0.17, 0.5, 1.0]).tolist()
    [0.0, 0.0, 0.2, 0.6, 1.0]
    """
    classes = np.floor(np.asarray(cosines, np.float64) * MAPPED_CLASSES).clip(0, MAPPED_CLASSES - 1)
    shares: Doubles = classes / (MAPPED_CLASSES - 1)
    return shares


def cut(cosines: npt.ArrayLike) -> Doubles:
    """Return the cosines, with 0 for those below 0.5.

    >>> cut([-0.3, 0.49, 0.5, 0.9]).tolist()
    [0.0, 0.0, 0.5, 0.9]
    """
    numbers = np.asarray(cosines, np.float64)
    return np.where(numbers < CUT, 0.0, numbers)
