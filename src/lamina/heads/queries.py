"""Queries for a mixer that attends with them, where the head has none by nature."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class AskingHead(nn.Module):
    """A head that learns queries once it is told to; until then it has none."""

    slots: int

    def __init__(self) -> None:
        super().__init__()
        self.asking: nn.Parameter | None = None

    def learn_queries(self, width: int) -> None:
        self.asking = nn.Parameter(torch.empty(self.slots, width))
        if not self.asking.is_meta:
            nn.init.normal_(self.asking, std=0.02)

    def queries(self) -> Tensor | None:
        """[slots, D], or none."""
        return self.asking
