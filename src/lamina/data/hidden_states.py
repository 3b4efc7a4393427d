"""HiddenStack: what an encoder yields and all that comes after it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

POOLED = -1  # a mixer that asks for this "layer" gets the pooled state of the classifier token


@dataclass(frozen=True, slots=True)
class HiddenStack:
    """The hidden states of some layers; layer 0 is the embeddings' output, layer `depth` the last block's.

    Only the layers that were asked for are kept: `layers` and `states` run in parallel.
    """

    layers: tuple[int, ...]
    states: tuple[Tensor, ...]  # each [R, T, H]
    mask: Tensor  # [R, T], True on real tokens
    depth: int
    pooled: Tensor | None = None  # [R, H]

    def layer(self, index: int) -> Tensor:
        """The states of one kept layer, [R, T, H]."""
        return self.states[self.layers.index(index)]

    def with_lowest(self, layers: Sequence[int], states: Sequence[Tensor]) -> HiddenStack:
        """The same stack on top of some layers below it."""
        return replace(self, layers=(*layers, *self.layers), states=(*states, *self.states))

    def to(self, device: torch.device) -> HiddenStack:
        states = tuple(state.to(device, non_blocking=True) for state in self.states)
        pooled = None if self.pooled is None else self.pooled.to(device, non_blocking=True)
        return replace(self, states=states, mask=self.mask.to(device, non_blocking=True), pooled=pooled)

    def cls(self) -> HiddenStack:
        """The same stack cut to the first token (T = 1)."""
        return replace(self, states=tuple(state[:, :1] for state in self.states), mask=self.mask[:, :1])
