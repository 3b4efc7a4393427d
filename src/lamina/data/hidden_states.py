"""HiddenStack: the hidden states that an encoder returns and that mixers and heads read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

POOLED = -1  # the "layer" number of the pooled state of the classifier token


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device. From pinned memory, a GPU copies it while the processor goes on."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


@dataclass(frozen=True, slots=True)
class HiddenStack:
    """The hidden states of some layers. Layer 0 is the output of the embeddings, layer `depth` that of the last block.

    `layers` has the numbers of the layers, `states` their states in the same order.
    """

    layers: tuple[int, ...]
    states: tuple[Tensor, ...]  # each [R, T, H]
    mask: Tensor  # [R, T], True on real tokens
    depth: int
    pooled: Tensor | None = None  # [R, H]

    def layer(self, index: int) -> Tensor:
        """Return the states of one layer, [R, T, H]."""
        return self.states[self.layers.index(index)]

    def with_lowest(self, layers: Sequence[int], states: Sequence[Tensor]) -> HiddenStack:
        """Return the stack with lower layers added below it."""
        return replace(self, layers=(*layers, *self.layers), states=(*states, *self.states))

    def to(self, device: torch.device) -> HiddenStack:
        """Return the stack on a device."""
        states = tuple(moved(state, device) for state in self.states)
        pooled = None if self.pooled is None else moved(self.pooled, device)
        return replace(self, states=states, mask=moved(self.mask, device), pooled=pooled)

    def cls(self) -> HiddenStack:
        """Return the stack of the first token only (T = 1)."""
        return replace(self, states=tuple(state[:, :1] for state in self.states), mask=self.mask[:, :1])
