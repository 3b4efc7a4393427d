"""Turns the labels of a batch into targets, and refuses labels that an objective cannot use."""

from __future__ import annotations

from torch import Tensor

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.errors import LaminaError

ALIKE = 0.6  # of the way from the lowest score to the highest: 3 of 0 to 5
SLACK = 1e-6  # for numbers that float32 rounds down


def numbers(batch: Batch) -> Tensor:
    """[I] the class or the score of each item."""
    if batch.labels is None:
        raise ValueError("this objective learns from labels, but the batch has none")
    return batch.labels


def shares(batch: Batch, labels: Labels) -> Tensor:
    """[I] scores as shares of the way from the lowest to the highest; of two classes, 0 and 1 as they are."""
    found = numbers(batch)
    return (found - labels.low) / (labels.high - labels.low) if labels.are_scores else found


def alike(batch: Batch, labels: Labels) -> Tensor:
    """[I] whether the two texts of an item are alike: the second class of two, or a score of at least `ALIKE` of the way."""
    return shares(batch, labels) >= ALIKE - SLACK


def need_pairs(name: str, labels: Labels) -> None:
    """Raise LaminaError for labels that do not say whether two texts are alike."""
    if not labels.are_scores and len(labels.classes) != 2:
        raise LaminaError(
            f"{name} needs scores or two classes, unlike and alike, but the labels are {len(labels.classes)} classes "
            f'({", ".join(labels.classes)}): choose objective.type = "cross_entropy"'
        )


def need_scores(name: str, labels: Labels) -> None:
    if not labels.are_scores:
        raise LaminaError(
            f"{name} needs scores, but the labels are classes ({', '.join(labels.classes)}): give the range of scores in "
            "data.scores, or choose another objective"
        )


def need_classes(name: str, labels: Labels) -> None:
    if labels.are_scores:
        raise LaminaError(
            f"{name} needs classes, but the labels are scores from {labels.low:g} to {labels.high:g}: name the classes in "
            'data.classes, or choose objective.type = "mse"'
        )
