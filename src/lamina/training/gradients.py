"""The gradients of a step's tasks, put together: added up, or with PCGrad where they conflict."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from lamina.training.pcgrad import pcgrad


class Surgery:
    """Takes each task's gradient off the parameters, and puts one back for all of them."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._parameters = parameters
        self._taken: list[list[Tensor | None]] = []

    def take(self) -> None:
        self._taken.append([parameter.grad for parameter in self._parameters])
        for parameter in self._parameters:
            parameter.grad = None

    def put_back(self, seed: int) -> None:
        for parameter, gradient in zip(self._parameters, pcgrad(self._taken, seed), strict=True):
            parameter.grad = gradient
        self._taken = []
