"""HiddenStack: what an encoder yields and all that comes after it reads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor


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

    def cls(self) -> HiddenStack:
        """The same stack cut to the first token (T = 1)."""
        return replace(self, states=tuple(state[:, :1] for state in self.states), mask=self.mask[:, :1])
