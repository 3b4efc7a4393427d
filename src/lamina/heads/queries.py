"""Learned queries for heads without rows that score a token vector, if a mixer attends with them."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class AskingHead(nn.Module):
    """A head that has no queries until `learn_queries` adds some."""

    slots: int

    def __init__(self) -> None:
        super().__init__()
        self.asking: nn.Parameter | None = None

    def learn_queries(self, width: int) -> None:
        """Add queries [slots, width]."""
        self.asking = nn.Parameter(torch.empty(self.slots, width))
        if not self.asking.is_meta:
            nn.init.normal_(self.asking, std=0.02)

    def queries(self) -> Tensor | None:
        """Return the queries [slots, D], or None."""
        return self.asking
