"""PCGrad: sums the gradients of a step's tasks without the components in which they conflict.

Paper: Yu et al. 2020. Each task's gradient g is compared with the other gradients g_j in random order. If the two conflict
(g . g_j < 0), g loses its component along g_j:

    g <- g - (g . g_j / g_j . g_j) g_j

Departure: every result is in the linear span of the tasks' gradients. So the code only computes the gradients' dot products.
It projects coefficients instead of gradients, and reads the gradients once more for their weighted sum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from lamina.utils.arrays import Doubles

Gradients = Sequence[Tensor | None]  # one per parameter; None where the task does not use it


def pcgrad(gradients: Sequence[Gradients], seed: int) -> list[Tensor | None]:
    """Return the sum of the tasks' gradients, each without its conflicts; `seed` draws the order of the projections."""
    weights = pcgrad_weights(_dot_products(gradients), seed).tolist()
    return [_weighted_sum(of_tasks, weights) for of_tasks in zip(*gradients, strict=True)]


def _dot_products(gradients: Sequence[Gradients]) -> Doubles:
    """Return the dot products of each two of K tasks' gradients, [K, K]."""
    products = np.zeros((len(gradients), len(gradients)))
    for i, of_one in enumerate(gradients):
        for j, of_other in enumerate(gradients[: i + 1]):
            pairs = [(a, b) for a, b in zip(of_one, of_other, strict=True) if a is not None and b is not None]
            products[i, j] = products[j, i] = sum(torch.dot(a.flatten(), b.flatten()).item() for a, b in pairs)
    return products


def pcgrad_weights(products: Doubles, seed: int) -> Doubles:
    """Return the weight of each task's gradient in the sum, [K], from their dot products [K, K].

    >>> pcgrad_weights(np.array([[1.0, 0.0], [0.0, 4.0]]), seed=0).tolist()
    [1.0, 1.0]
    """
    tasks = len(products)
    draw = np.random.default_rng(seed)
    projected = np.eye(tasks)  # [K, K] the coefficients of each projected gradient
    for task, coefficients in enumerate(projected):
        for other in draw.permutation(tasks).tolist():
            conflict = coefficients @ products[:, other]
            if other != task and conflict < 0 < products[other, other]:
                coefficients[other] -= conflict / products[other, other]
    weights: Doubles = projected.sum(0)
    return weights


def _weighted_sum(gradients: Sequence[Tensor | None], weights: Sequence[float]) -> Tensor | None:
    total: Tensor | None = None
    for gradient, weight in zip(gradients, weights, strict=True):
        if gradient is not None:
            total = gradient * weight if total is None else total.add_(gradient, alpha=weight)
    return total


class TaskGradients:
    """Collects the gradient of each task of a step, then gives the parameters their PCGrad sum."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._parameters = parameters
        self._of_tasks: list[list[Tensor | None]] = []

    def collect(self) -> None:
        """Move the gradient of the current task from the parameters to the list of gradients."""
        self._of_tasks.append([parameter.grad for parameter in self._parameters])
        for parameter in self._parameters:
            parameter.grad = None

    def combine(self, seed: int) -> None:
        """Set the gradient of each parameter to the sum over the tasks."""
        for parameter, gradient in zip(self._parameters, pcgrad(self._of_tasks, seed), strict=True):
            parameter.grad = gradient
        self._of_tasks = []
