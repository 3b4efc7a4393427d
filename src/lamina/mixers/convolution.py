"""Mixers that convolve over the layers of each token: its states are an image of height 1, width H and a channel per layer.

Paper: BERTVision. Tokens are not mixed; the kernels run along H. The small Xception is the paper's classifier. The details
of the others are not public, so their sizes are ours. The plain network is as written here. The Xception "span" is as large
as the paper's row "LP, adapter size 386 & xception" needs: with both stages before it and the head, 1.970% of BERT-large.
The Xception "full" is that of Chollet 2017 with kernels of height 1.

Departures:
- Only real tokens are convolved; the vectors of padding are 0. So padding costs nothing and is not in the batch statistics.
- The batch statistics move by a tenth each step. Keras moves them by a hundredth, which needs long runs.
- Weights start as in He et al. 2015.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from lamina.data.hidden_states import HiddenStack
from lamina.encoder.blocks import Dropout
from lamina.mixers.pooling import WithLastLayer
from lamina.mixers.shape import Shape
from lamina.utils.options import Options


class TokenPictures(nn.Module):
    """A network [N, layers, H] -> [N, D] over the N real tokens of a stack."""

    def __init__(self, network: nn.Module, layers: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.network = network
        self.layers = layers
        self.width = width

    def forward(self, stack: HiddenStack, queries: Tensor | None = None) -> Tensor:
        row, token = stack.mask.nonzero(as_tuple=True)  # [N] each
        dtype = next(self.network.parameters()).dtype
        pictures = torch.stack([stack.layer(layer)[row, token] for layer in self.layers], 1).to(dtype)  # [N, layers, H]
        vectors: Tensor = self.network(pictures)  # [N, D]
        mixed = vectors.new_zeros(*stack.mask.shape, self.width).index_put((row, token), vectors)  # [R, T, D]
        return mixed.unsqueeze(1)  # [R, 1, T, D]


class Convolution(nn.Conv1d):
    """A convolution along H that keeps the length, except for the stride."""

    def __init__(self, inner: int, outer: int, kernel: int = 1, *, stride: int = 1, groups: int = 1, bias: bool = True) -> None:
        super().__init__(inner, outer, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=bias)

    def reset_parameters(self) -> None:
        if not self.weight.is_meta:  # the meta device has no values, see `SpanHead`
            nn.init.kaiming_normal_(self.weight, nonlinearity="relu")
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class Norm(nn.BatchNorm1d):
    """Batch normalisation. A single value per channel has no statistics, so the running ones are used for it."""

    def forward(self, input: Tensor) -> Tensor:
        if self.training and input.shape[0] * input.shape[2] == 1:
            return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(input)


class MeanOverWidth(nn.Module):
    """Global average pooling: [N, C, W] -> [N, C]."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(-1)


def finished(
    network: nn.Module, layers: tuple[int, ...], width: int, shape: Shape, *, skip: bool
) -> TokenPictures | WithLastLayer:
    """Return the mixer of a network, with the states of the last layer appended if `skip`."""
    mixer = TokenPictures(network, layers, width)
    return WithLastLayer(mixer, shape.hidden, shape.depth) if skip else mixer


# ---- plain


def plain_tower(layers: int, channels: tuple[int, ...], kernel: int, dropout: float) -> nn.Sequential:
    """Return convolutions with ReLU and dropout, flattened: [N, layers, H] -> [N, channels[-1] * H]."""
    parts: list[nn.Module] = []
    for inner, outer in pairwise((layers, *channels)):
        parts += [Convolution(inner, outer, kernel), nn.ReLU(), Dropout(dropout)]
    return nn.Sequential(*parts, nn.Flatten())


class ConvolutionOptions(Options):
    """Options of the mixer "convolution"."""

    several: ClassVar[bool] = False  # the values of one layer can be convolved
    type: Literal["convolution"] = "convolution"
    """Convolve along the state of each token, with the layers as channels."""
    channels: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(32, 16), min_length=1)
    """Number of output channels of each convolution, in order."""
    kernel: Literal[1, 3, 5, 7] = 3
    """Number of neighbouring values that a convolution reads."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropout after each convolution, from 0 to below 1."""
    skip: bool = False
    """Append the states of the last layer to each vector of the mixer."""
    embeddings: bool = True
    """Include layer 0, the output of the embeddings."""

    def build(self, shape: Shape) -> TokenPictures | WithLastLayer:
        layers = shape.layers(embeddings=self.embeddings)
        network = plain_tower(len(layers), self.channels, self.kernel, self.dropout)
        return finished(network, layers, self.channels[-1] * shape.hidden, shape, skip=self.skip)


# ---- Inception


class Inception(nn.Module):
    """Four branches side by side: kernels of 1, 3 and 5, and the maximum of 3 neighbours followed by a kernel of 1."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.views = nn.ModuleList(Convolution(inner, outer, kernel) for kernel in (1, 3, 5))
        self.pooled = Convolution(inner, outer)

    def forward(self, x: Tensor) -> Tensor:
        highest = F.max_pool1d(x, 3, stride=1, padding=1)
        return F.relu(torch.cat([*(view(x) for view in self.views), self.pooled(highest)], 1))  # [N, 4 * outer, W]


class InceptionOptions(Options):
    """Options of the mixer "inception", which has two blocks."""

    several: ClassVar[bool] = False  # the values of one layer can be convolved
    type: Literal["inception"] = "inception"
    """Use two Inception blocks with kernels of 1, 3 and 5 and a pooled branch."""
    channels: int = Field(default=32, ge=1)
    """Number of channels of each of the four branches of a block."""
    skip: bool = False
    """Append the states of the last layer to each vector of the mixer."""
    embeddings: bool = True
    """Include layer 0, the output of the embeddings."""

    def build(self, shape: Shape) -> TokenPictures | WithLastLayer:
        layers, width = shape.layers(embeddings=self.embeddings), 4 * self.channels
        blocks = Inception(len(layers), self.channels), Inception(width, self.channels)
        return finished(nn.Sequential(*blocks, MeanOverWidth()), layers, width, shape, skip=self.skip)


# ---- Xception


AVERAGE = partial(nn.AvgPool1d, 3, stride=2, padding=1, count_include_pad=False)
MAX = partial(nn.MaxPool1d, 3, stride=2, padding=1)


class XceptionPlan(NamedTuple):
    """The channels of an Xception, from input to output."""

    entry: tuple[int, int]  # two plain convolutions, the first with a stride
    stride: int
    blocks: tuple[tuple[int, ...], ...]  # separable convolutions, see `block`
    exit: tuple[int, ...]  # more separable convolutions, without residuals
    pool: Callable[[], nn.Module]


MIDDLE = (728, 728, 728)
PLANS = {
    "small": XceptionPlan((64, 128), 3, ((256, 512),), (), AVERAGE),
    "span": XceptionPlan((32, 64), 3, ((256, 256), (728, 728), *2 * (MIDDLE,), (728, 832)), (256,), MAX),
    "full": XceptionPlan((32, 64), 2, ((128, 128), (256, 256), (728, 728), *8 * (MIDDLE,), (728, 1024)), (1536, 2048), MAX),
}


def separable(inner: int, outer: int) -> list[nn.Module]:
    """Return a kernel of 3 in each channel alone, then a map across the channels."""
    return [Convolution(inner, inner, 3, groups=inner, bias=False), Convolution(inner, outer, bias=False), Norm(outer)]


class Residual(nn.Module):
    """main(x) + side(x)."""

    def __init__(self, main: nn.Module, side: nn.Module) -> None:
        super().__init__()
        self.main = main
        self.side = side

    def forward(self, x: Tensor) -> Tensor:
        joined: Tensor = self.main(x) + self.side(x)
        return joined


def block(inner: int, widths: tuple[int, ...], pool: Callable[[], nn.Module]) -> Residual:
    """Return separable convolutions with a residual connection.

    If they change the number of channels, pooling halves the width and the residual is a strided convolution. Otherwise the
    residual is the input itself.
    """
    parts = [part for pair in pairwise((inner, *widths)) for part in (nn.ReLU(), *separable(*pair))]
    if widths[-1] == inner:
        return Residual(nn.Sequential(*parts), nn.Identity())
    side = nn.Sequential(Convolution(inner, widths[-1], stride=2, bias=False), Norm(widths[-1]))
    return Residual(nn.Sequential(*parts, pool()), side)


def xception(layers: int, plan: XceptionPlan) -> tuple[nn.Sequential, int]:
    """Return the network [N, layers, H] -> [N, D], and D. Only the normalisations have biases."""
    first, width = plan.entry
    parts: list[nn.Module] = [Convolution(layers, first, 3, stride=plan.stride, bias=False), Norm(first), nn.ReLU()]
    parts += [Convolution(first, width, 3, bias=False), Norm(width), nn.ReLU()]
    for widths in plan.blocks:
        parts.append(block(width, widths, plan.pool))
        width = widths[-1]
    for outer in plan.exit:
        parts += [*separable(width, outer), nn.ReLU()]
        width = outer
    return nn.Sequential(*parts, MeanOverWidth()), width


class XceptionOptions(Options):
    """Options of the mixer "xception"."""

    several: ClassVar[bool] = False  # the values of one layer can be convolved
    type: Literal["xception"] = "xception"
    """Use separable convolutions with residual connections."""
    size: Literal["small", "span", "full"] = "small"
    """Size of the network: the paper's classifier, its span model (6.2 million parameters), or all of Xception."""
    skip: bool = False
    """Append the states of the last layer to each vector of the mixer."""
    embeddings: bool = True
    """Include layer 0, the output of the embeddings."""

    def build(self, shape: Shape) -> TokenPictures | WithLastLayer:
        layers = shape.layers(embeddings=self.embeddings)
        network, width = xception(len(layers), PLANS[self.size])
        return finished(network, layers, width, shape, skip=self.skip)
