"""Fit the last linear map of a sentence head on frozen vectors: logistic regression, or ridge regression of scores.

With X the vectors of N texts, centred and divided by their mean length, and y their labels:

    minimise  sum_i loss(W x_i + b, y_i) + penalty / 2 |W|^2

The loss is the cross-entropy of classes, the binary cross-entropy of a cosine, or the squared error of scores. The penalty
is the one with the least loss in cross-validation. L-BFGS solves the problem to convergence, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Loss = Literal["classes", "similar", "scores"]

PENALTIES: Final = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
FOLDS: Final = 4
_LOSSES: Final[dict[Loss, Callable[[Tensor, Tensor], Tensor]]] = {
    "classes": lambda outputs, labels: F.cross_entropy(outputs, labels.long(), reduction="sum"),
    "similar": lambda outputs, labels: F.binary_cross_entropy_with_logits(outputs[:, 0], labels, reduction="sum"),
    "scores": lambda outputs, labels: F.mse_loss(outputs[:, 0], labels, reduction="sum"),
}


@dataclass(frozen=True)
class LinearMap:
    """outputs = weight x + bias."""

    weight: Tensor  # [outputs, D]
    bias: Tensor  # [outputs]

    def __call__(self, vectors: Tensor) -> Tensor:
        return vectors @ self.weight.T + self.bias  # [N, outputs]


def fit_linear(vectors: Tensor, labels: Tensor, loss: Loss, outputs: int = 1) -> LinearMap:
    """Return the map with the penalty that is best in cross-validation.

    Args:
        vectors: [N, D], one for each text or pair.
        labels: [N], the numbers of classes, 0 or 1, or scores as shares of their range.
        loss: What the labels are.
        outputs: The number of classes; 1 for the other losses.
    """
    vectors, labels = vectors.double(), labels.double()
    fold = torch.arange(len(labels)).remainder(FOLDS)[torch.argsort(torch.argsort(labels, stable=True))]  # each has all labels
    losses = {penalty: _cross_validated(vectors, labels, fold, loss, outputs, penalty) for penalty in PENALTIES}
    return solve(vectors, labels, loss, outputs, min(losses, key=losses.__getitem__))


def solve(vectors: Tensor, labels: Tensor, loss: Loss, outputs: int, penalty: float) -> LinearMap:
    """Return the map with the least penalised loss."""
    vectors, labels = vectors.double(), labels.double()
    centre = vectors.mean(0)
    length = (vectors - centre).norm(dim=1).mean().clamp_min(1e-12)
    scaled = (vectors - centre) / length  # [N, D]
    weight = torch.zeros(outputs, vectors.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(outputs, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=200, tolerance_grad=1e-7, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = _LOSSES[loss](scaled @ weight.T + bias, labels) + penalty / 2 * weight.square().sum()
        value.backward()
        return value

    with torch.enable_grad():
        optimizer.step(closure)
    own = weight.detach() / length
    return LinearMap(own.float(), (bias.detach() - own @ centre).float())


def _cross_validated(vectors: Tensor, labels: Tensor, fold: Tensor, loss: Loss, outputs: int, penalty: float) -> float:
    """Return the sum of the losses of all rows, each by a map that was fitted without its fold."""
    total = 0.0
    for number in range(FOLDS):
        out = fold == number
        if out.any() and not out.all():
            found = solve(vectors[~out], labels[~out], loss, outputs, penalty)
            total += float(_LOSSES[loss](found(vectors[out].float()).double(), labels[out]))
    return total
