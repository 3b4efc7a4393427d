"""Gradient surgery: what one task's gradient takes from another's is left out before they are summed.

Paper: Yu et al. 2020 (PCGrad). Each task's gradient g goes through the others g_j in random order, and where they conflict
(g . g_j < 0) loses its part along g_j:

    g <- g - (g . g_j / g_j . g_j) g_j

All of that stays within the span of the tasks' gradients, so here only the products of the gradients with one another are
computed, the projections are done on coefficients, and the gradients are read a second time for their weighted sum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Gradients = Sequence[Tensor | None]  # one a parameter; None where the task does not reach it
Doubles = npt.NDArray[np.float64]


def pcgrad(gradients: Sequence[Gradients], seed: int) -> list[Tensor | None]:
    """The sum of the tasks' gradients, each without what conflicts with the others; the order of these is drawn by `seed`."""
    weights = surgery_weights(dot_products(gradients), seed).tolist()
    return [_weighted_sum(of_tasks, weights) for of_tasks in zip(*gradients, strict=True)]


def dot_products(gradients: Sequence[Gradients]) -> Doubles:
    """[K, K] the products of K tasks' gradients with one another."""
    products = np.zeros((len(gradients), len(gradients)))
    for i, of_one in enumerate(gradients):
        for j, of_other in enumerate(gradients[: i + 1]):
            pairs = [(a, b) for a, b in zip(of_one, of_other, strict=True) if a is not None and b is not None]
            products[i, j] = products[j, i] = sum(torch.dot(a.flatten(), b.flatten()).item() for a, b in pairs)
    return products


def surgery_weights(products: Doubles, seed: int) -> Doubles:
    """[K] how much of each task's gradient is in the sum, from their products [K, K].

    >>> surgery_weights(np.array([[1.0, 0.0], [0.0, 4.0]]), seed=0).tolist()
    [1.0, 1.0]
    """
    tasks = len(products)
    draw = np.random.default_rng(seed)
    parts = np.eye(tasks)  # [K, K] each projected gradient as a mixture of all
    for task, part in enumerate(parts):
        for other in draw.permutation(tasks).tolist():
            conflict = part @ products[:, other]
            if other != task and conflict < 0 < products[other, other]:
                part[other] -= conflict / products[other, other]
    weights: Doubles = parts.sum(0)
    return weights


def _weighted_sum(gradients: Sequence[Tensor | None], weights: Sequence[float]) -> Tensor | None:
    total: Tensor | None = None
    for gradient, weight in zip(gradients, weights, strict=True):
        if gradient is not None:
            total = gradient * weight if total is None else total.add_(gradient, alpha=weight)
    return total
