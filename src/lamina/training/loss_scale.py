"""Loss scaling for float16, whose smallest gradients would round to zero.

The loss is multiplied by a factor before the backward pass, and the gradient is divided by it afterwards. A factor that is too
large makes the gradient infinite: then the step is left out and the factor halves. After many steps without that, it doubles.
The numbers are those of `torch.amp.GradScaler`. This one is part of the state of a run, so a resumed run has the same factors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import nn

FIRST: Final = 2.0**16
STEADY: Final = 2000  # steps without an infinite gradient, after which the factor doubles


@dataclass
class LossScale:
    """The factor of the loss; None for number formats that need none."""

    factor: float | None = None
    steady: int = 0  # steps since the factor changed

    @classmethod
    def of(cls, precision: torch.dtype) -> LossScale:
        """Return the first factor of a number format."""
        return cls(FIRST if precision == torch.float16 else None)

    def divide(self, parameters: Sequence[nn.Parameter]) -> None:
        """Divide the gradients of the parameters by the factor."""
        if self.factor is not None:
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.grad.mul_(1 / self.factor)

    def usable(self, norm: float) -> bool:
        """Return whether a step with this norm of the gradient can be taken, and adapt the factor.

        Without a factor, every step can.
        """
        if self.factor is None:
            return True
        if not math.isfinite(norm):
            self.factor, self.steady = self.factor / 2, 0
            return False
        self.steady += 1
        if self.steady == STEADY:
            self.factor, self.steady = self.factor * 2, 0
        return True
