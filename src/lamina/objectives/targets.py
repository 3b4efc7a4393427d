"""Turn the labels of a batch into targets, and refuse labels that an objective cannot use."""

from __future__ import annotations

from torch import Tensor

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.errors import LaminaError

ALIKE = 0.6  # share of the range of scores from which pairs are similar: 3 of 0 to 5
SLACK = 1e-6  # float32 may round a label down


def numbers(batch: Batch) -> Tensor:
    """Return the class or the score of each item, [I]."""
    if batch.labels is None:
        raise ValueError("batch.labels: this objective needs labels, but the batch has none")
    return batch.labels


def shares(batch: Batch, labels: Labels) -> Tensor:
    """Return scores as shares of their range, [I]; two classes stay 0 and 1."""
    found = numbers(batch)
    return (found - labels.low) / (labels.high - labels.low) if labels.are_scores else found


def alike(batch: Batch, labels: Labels) -> Tensor:
    """Return whether the two texts of each item are similar, [I]: the second of two classes, or a score of `ALIKE` or more."""
    return shares(batch, labels) >= ALIKE - SLACK


def need_pairs(name: str, labels: Labels) -> None:
    """Raise LaminaError for labels that do not tell similar from dissimilar texts."""
    if not labels.are_scores and len(labels.classes) != 2:
        raise LaminaError(
            f"{name}: it needs scores or two classes, dissimilar and similar, but the labels are {len(labels.classes)} classes "
            f'({", ".join(labels.classes)}). Fix: set objective.type = "cross_entropy"'
        )


def need_scores(name: str, labels: Labels) -> None:
    """Raise LaminaError for labels that are classes."""
    if not labels.are_scores:
        raise LaminaError(
            f"{name}: it needs scores, but the labels are classes ({', '.join(labels.classes)}). "
            "Fix: give the range of scores in data.scores, or choose another objective"
        )


def need_classes(name: str, labels: Labels) -> None:
    """Raise LaminaError for labels that are scores."""
    if labels.are_scores:
        raise LaminaError(
            f"{name}: it needs classes, but the labels are scores from {labels.low:g} to {labels.high:g}. "
            'Fix: list the classes in data.classes, or set objective.type = "mse"'
        )
