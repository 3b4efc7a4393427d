"""A mixer that compresses every token's state at every layer by a small linear map, and puts the results side by side.

Paper: BERTVision, the "adapter pooler". v_t = [f(h_t0) ... f(h_tL)] with f(h) = gelu(W h + b). The GELU is the tanh
approximation. W starts from a normal distribution with deviation 0.001, cut at two deviations; b starts at 0. One f serves
all layers, or each layer has its own. There is no projection back up and no residual.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, cast

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from lamina.data.hidden_states import HiddenStack
from lamina.mixers.mixer import Stage
from lamina.mixers.pooling import Average, Learned, OneLayer, WithLastLayer
from lamina.mixers.shape import Shape
from lamina.utils.options import Options

STD = 1e-3


class SharedDense(nn.Module):
    """One linear map for all layers: [R, T, n, H] -> [R, T, n, size]."""

    def __init__(self, hidden: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size, hidden))
        self.bias = nn.Parameter(torch.empty(size))
        start(self.weight, self.bias)

    def forward(self, states: Tensor) -> Tensor:
        return F.linear(states.to(self.weight.dtype), self.weight, self.bias)


class SeparateDense(nn.Module):
    """One linear map for each layer: [R, T, n, H] -> [R, T, n, size]."""

    def __init__(self, layers: int, hidden: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(layers, hidden, size))
        self.bias = nn.Parameter(torch.empty(layers * size))  # flat, since the optimiser does not decay vectors
        start(self.weight, self.bias)

    def forward(self, states: Tensor) -> Tensor:
        by_layer = states.to(self.weight.dtype).flatten(0, 1).transpose(0, 1)  # [n, R*T, H]
        bias = self.bias.view(len(self.weight), 1, -1)  # [n, 1, size]
        made = torch.baddbmm(bias, by_layer, self.weight)  # [n, R*T, size]
        return made.transpose(0, 1).view(*states.shape[:3], -1)


def start(weight: Tensor, bias: Tensor) -> None:
    """Initialise a linear map as in the paper."""
    if not weight.is_meta:  # the meta device has no values, see `SpanHead`
        nn.init.trunc_normal_(weight, std=STD, a=-2 * STD, b=2 * STD)
    nn.init.zeros_(bias)


def compressed(dense: nn.Module, stack: HiddenStack, layers: tuple[int, ...]) -> Tensor:
    """Return the compressed states of n layers, [R, T, n, size]."""
    states = torch.stack([stack.layer(layer) for layer in layers], 2)  # [R, T, n, H]
    return F.gelu(dense(states), approximate="tanh")


class CompressedLayers(Stage):
    """Compression as a stage: the same layers, each `size` wide."""

    def __init__(self, dense: nn.Module, layers: tuple[int, ...], size: int) -> None:
        super().__init__(size, layers, layers)
        self.dense = dense

    def forward(self, stack: HiddenStack) -> HiddenStack:
        states = compressed(self.dense, stack, self.layers).unbind(2)  # [R, T, size] each
        return replace(stack, layers=self.layers, states=states, pooled=None)


class Compression(nn.Module):
    """The compressed states of all layers side by side, width n * size."""

    def __init__(self, dense: nn.Module, layers: tuple[int, ...], size: int) -> None:
        super().__init__()
        self.dense = dense
        self.layers = layers
        self.width = size * len(layers)

    def forward(self, stack: HiddenStack, queries: Tensor | None = None) -> Tensor:
        return compressed(self.dense, stack, self.layers).flatten(2).unsqueeze(1)  # [R, 1, T, n * size]


class PooledCompression(nn.Module):
    """The layers pooled to one vector per token first, then compressed: width size."""

    def __init__(self, pool: nn.Module, dense: nn.Module, size: int) -> None:
        super().__init__()
        self.pool = pool
        self.dense = dense
        self.layers = cast(tuple[int, ...], pool.layers)
        self.width = size

    def forward(self, stack: HiddenStack, queries: Tensor | None = None) -> Tensor:
        return F.gelu(self.dense(self.pool(stack)), approximate="tanh")  # [R, 1, T, H] -> [R, 1, T, size]


class CompressionOptions(Options):
    """Options of the mixer "compression"."""

    type: Literal["compression"] = "compression"
    """Compress the states of each layer by a linear map and put them side by side."""
    size: int = Field(default=386, ge=1)
    """Number of values that each vector is compressed to."""
    shared: bool = True
    """Use one linear map for all layers instead of one for each."""
    skip: bool = False
    """Append the states of the last layer to the compressed vectors."""
    pool: Literal["learned", "average"] | None = None
    """Pool the layers first, then compress the one vector; without it, compress every layer."""
    embeddings: bool = True
    """Include layer 0, the output of the embeddings."""

    @model_validator(mode="after")
    def _one_vector_has_one_dense(self) -> CompressionOptions:
        if self.pool and not self.shared:
            raise ValueError(
                f'pool = "{self.pool}" leaves one vector per token, so shared = false has no effect. Fix: remove one of them'
            )
        return self

    @property
    def several(self) -> bool:
        return self.pool is not None

    @property
    def leaves(self) -> Literal["one", "all"]:
        return "one" if self.pool else "all"

    @property
    def only_last(self) -> str | None:
        return "skip = true" if self.skip else None

    def build_stage(self, shape: Shape) -> OneLayer | CompressedLayers:
        if self.pool:
            return OneLayer(self._pooled(shape), shape.depth)
        layers = shape.layers(embeddings=self.embeddings)
        return CompressedLayers(self._dense(shape, len(layers)), layers, self.size)

    def build(self, shape: Shape) -> Compression | PooledCompression | WithLastLayer:
        mixer = self._pooled(shape) if self.pool else self._unpooled(shape)
        return WithLastLayer(mixer, shape.hidden, shape.depth) if self.skip else mixer

    def _unpooled(self, shape: Shape) -> Compression:
        layers = shape.layers(embeddings=self.embeddings)
        return Compression(self._dense(shape, len(layers)), layers, self.size)

    def _dense(self, shape: Shape, layers: int) -> SharedDense | SeparateDense:
        return SharedDense(shape.hidden, self.size) if self.shared else SeparateDense(layers, shape.hidden, self.size)

    def _pooled(self, shape: Shape) -> PooledCompression:
        layers = shape.layers(embeddings=self.embeddings)
        pool = Average(shape.hidden, layers) if self.pool == "average" else Learned(shape.hidden, layers, init="random")
        return PooledCompression(pool, SharedDense(shape.hidden, self.size), self.size)
