"""Mixers that pool layers without attention."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from lamina.encoder.stack import HiddenStack
from lamina.mixers.shape import Shape


class LastLayer(nn.Module):
    """The plain model: the last layer's states, no parameters."""

    def __init__(self, hidden: int, depth: int) -> None:
        super().__init__()
        self.width = hidden
        self.layers = (depth,)

    def forward(self, stack: HiddenStack, queries: Tensor | None = None) -> Tensor:
        return stack.layer(stack.depth).unsqueeze(1)  # [R, 1, T, H]


class LastLayerOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["last"] = "last"

    def build(self, shape: Shape) -> LastLayer:
        return LastLayer(shape.hidden, shape.depth)
