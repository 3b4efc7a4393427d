"""Mixers that pool layers without attention: the last layer, the average, a learned mixture.

Papers: Devlin et al. 2019 (last), BERTVision (average pooling "AP", learned pooling "LP", after Tenney et al. 2019),
Peters et al. 2018 (ELMo: v = gamma * sum_i softmax(w)_i h_i).

Departures: BERTVision's public port of LP to torch takes the softmax of the states instead of the weights, and does not
train the weights. Here w and gamma train, as in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from lamina.data.hidden_states import POOLED, HiddenStack
from lamina.mixers.mixer import Mixer, Stage
from lamina.mixers.shape import Shape
from lamina.utils.options import Options

Init = Literal["uniform", "random", "last"]
LAST_LOGIT = 10.0  # with it, the softmax gives the last of 25 layers 0.999


class OneLayer(Stage):
    """A mixer as a stage: its vectors are the only layer that is left. The mixer must have one mixture (Q = 1)."""

    mixer: Mixer

    def __init__(self, mixer: Mixer, depth: int) -> None:
        super().__init__(mixer.width, mixer.layers, (depth,))
        self.mixer = mixer

    def forward(self, stack: HiddenStack) -> HiddenStack:
        vectors = self.mixer(stack)[:, 0]  # [R, T, D]
        return replace(stack, layers=self.leaves, states=(vectors,), pooled=None)


class LastLayer(nn.Module):
    """The plain model: the states of the last layer, or the pooled state if the head reads that. It has no parameters."""

    def __init__(self, hidden: int, layer: int) -> None:
        super().__init__()
        self.width = hidden
        self.layers: tuple[int, ...] = (layer,)

    def forward(self, stack: HiddenStack, queries: Tensor | None = None) -> Tensor:
        return stack.layer(self.layers[-1]).unsqueeze(1)  # [R, 1, T, H]


class LastLayerOptions(Options):
    """Options of the mixer "last"."""

    several: ClassVar[bool] = True
    leaves: ClassVar[Literal["one"]] = "one"
    only_last: ClassVar[None] = None
    type: Literal["last"] = "last"
    """Use the states of the last layer, or the pooled state if the head asks for it."""

    def build(self, shape: Shape) -> LastLayer:
        return LastLayer(shape.hidden, POOLED if shape.pooled else shape.depth)

    def build_stage(self, shape: Shape) -> OneLayer:
        return OneLayer(self.build(shape), shape.depth)


class WithLastLayer(nn.Module):
    """Another mixer whose vectors are followed by the states of the last layer (BERTVision's skip connection)."""

    def __init__(self, mixer: nn.Module, hidden: int, depth: int) -> None:
        super().__init__()
        self.mixer = mixer
        self.width = cast(int, mixer.width) + hidden
        self.layers = tuple(sorted({*cast(tuple[int, ...], mixer.layers), depth}))

    def forward(self, stack: HiddenStack, queries: Tensor | None = None) -> Tensor:
        mixed: Tensor = self.mixer(stack, queries)  # [R, Q, T, D]
        last = stack.layer(stack.depth).to(mixed.dtype).unsqueeze(1).expand(-1, mixed.shape[1], -1, -1)
        return torch.cat([mixed, last], -1)  # [R, Q, T, D + H]


class Average(nn.Module):
    """The mean of some layers. It has no parameters."""

    def __init__(self, hidden: int, layers: tuple[int, ...]) -> None:
        super().__init__()
        self.width = hidden
        self.layers = layers

    def forward(self, stack: HiddenStack, queries: Tensor | None = None) -> Tensor:
        first, *others = (stack.layer(layer) for layer in self.layers)  # [R, T, H] each
        share = 1 / len(self.layers)
        mean = first.float() * share
        for state in others:
            mean.add_(state, alpha=share)  # in place: the backward pass does not need the sums
        return mean.unsqueeze(1)  # [R, 1, T, H]


class AverageOptions(Options):
    """Options of the mixer "average". Without `embeddings` the first layer is layer 1."""

    several: ClassVar[bool] = True
    leaves: ClassVar[Literal["one"]] = "one"
    only_last: ClassVar[None] = None
    type: Literal["average"] = "average"
    """Use the mean of the layers."""
    layers: Literal["all", "first_last"] = "all"
    """Average all layers, or the first and the last."""
    embeddings: bool = True
    """Include layer 0, the output of the embeddings; without it, the first layer is layer 1."""

    def build(self, shape: Shape) -> Average:
        layers = shape.layers(embeddings=self.embeddings)
        if self.layers == "first_last":
            layers = tuple(sorted({min(layer for layer in layers if layer != POOLED), shape.depth}))
        return Average(shape.hidden, layers)

    def build_stage(self, shape: Shape) -> OneLayer:
        return OneLayer(self.build(shape), shape.depth)


class WeightedSum(torch.autograd.Function):
    """out_q = sum_i w_qi h_i for weights [Q, n] and n states [R, T, H]: [R, Q, T, H].

    The states are never stacked, and the backward pass keeps only them. Torch's own functions would copy all states into a
    stack, which takes several times as long, or multiply each state with the gradient.
    """

    @staticmethod
    def forward(ctx: Any, weights: Tensor, *states: Tensor) -> Tensor:
        ctx.save_for_backward(weights, *states)
        return weighted_sum(weights[:, None], states)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weights, *states = ctx.saved_tensors
        (grad,) = grads  # [R, Q, T, H]
        of_weights = dot_products(grad, states) if ctx.needs_input_grad[0] else None
        of_states: Sequence[Tensor | None] = [None] * len(states)
        if any(ctx.needs_input_grad[1:]):
            of_all = weighted_sum(weights.t()[:, None], grad.unbind(1))  # [R, n, T, H]
            of_states = [part.to(state.dtype) for part, state in zip(of_all.unbind(1), states, strict=True)]
        return of_weights, *of_states


def weighted_sum(weights: Tensor, states: Sequence[Tensor]) -> Tensor:
    """Return the weighted sum of n states [R, T, H] as [R, Q, T, H]; each state is read once.

    The weights are [R, Q, T, n], or [Q, 1, n] for all tokens.
    """
    first, *others = (state.to(weights.dtype).unsqueeze(1) for state in states)  # [R, 1, T, H] each
    column, *columns = weights.unsqueeze(-2).unbind(-1)  # [R, Q, T, 1] or [Q, 1, 1] each
    total = first * column
    for state, column in zip(others, columns, strict=True):
        total.addcmul_(state, column)
    return total


def dot_products(grad: Tensor, states: Sequence[Tensor]) -> Tensor:
    """Return <grad_q, h_i>: [R, Q, T, H] and n of [R, T, H] -> [Q, n]."""
    across = grad.flatten(2).transpose(1, 2)  # [R, T*H, Q]
    rows = [torch.bmm(state.to(grad.dtype).flatten(1).unsqueeze(1), across) for state in states]  # [R, 1, Q] each
    return torch.stack(rows).sum(1).squeeze(1).t()


class Learned(nn.Module):
    """gamma * sum_i w_i h_i with trained w, through a softmax unless `raw`; `sets` of (w, gamma) give Q = sets."""

    def __init__(
        self, hidden: int, layers: tuple[int, ...], *, sets: int = 1, raw: bool = False, init: Init = "uniform"
    ) -> None:
        super().__init__()
        self.width = hidden
        self.layers = layers
        self.raw = raw
        self.init: Init = init
        self.weight = nn.Parameter(torch.empty(sets * len(layers)))  # flat, since the optimiser does not decay vectors
        self.gamma = nn.Parameter(torch.empty(sets))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.ones_(self.gamma)
        even = 1 / len(self.layers) if self.raw else 0.0
        nn.init.constant_(self.weight, even)
        if self.init == "random" and not self.weight.is_meta:  # the meta device has no values, see `SpanHead`
            nn.init.normal_(self.weight, mean=even, std=0.05)
        if self.init == "last":
            nn.init.zeros_(self.weight)
            nn.init.constant_(self._rows()[:, -1], 1.0 if self.raw else LAST_LOGIT)

    def _rows(self) -> Tensor:
        return self.weight.view(len(self.gamma), -1)  # [Q, n]

    def mixture(self) -> Tensor:
        """Return the weight of each layer without gamma, [Q, n]."""
        return self._rows() if self.raw else self._rows().softmax(-1)

    def weights(self, stack: HiddenStack, queries: Tensor | None) -> Tensor:
        """Return the weight of each layer, the same for every token: [1, Q, 1, n]."""
        return self.mixture()[None, :, None]

    def forward(self, stack: HiddenStack, queries: Tensor | None = None) -> Tensor:
        weights = self.gamma[:, None] * self.mixture()  # [Q, n]
        states = [stack.layer(layer) for layer in self.layers]
        mixed: Tensor = WeightedSum.apply(weights, *states)  # type: ignore[no-untyped-call]
        return mixed  # [R, Q, T, H]


class LearnedOptions(Options):
    """Options of the mixer "learned". BERTVision's LP is separate = false, init = "random"."""

    several: ClassVar[bool] = True
    leaves: ClassVar[Literal["one"]] = "one"
    type: Literal["learned"] = "learned"
    """Use a weighted sum of the layers with trained weights."""
    separate: bool = True
    """Train separate weights for each output of the head; the default in front of another stage is false."""
    raw: bool = False
    """Use the weights without a softmax."""
    init: Init = "uniform"
    """Initial weights: equal, random around equal, or nearly all on the last layer."""
    embeddings: bool = True
    """Include layer 0, the output of the embeddings."""

    def build(self, shape: Shape) -> Learned:
        layers = shape.layers(embeddings=self.embeddings)
        return Learned(shape.hidden, layers, sets=shape.slots if self.separate else 1, raw=self.raw, init=self.init)

    @property
    def only_last(self) -> str | None:
        return "separate = true" if self.separate else None

    def build_stage(self, shape: Shape) -> OneLayer:
        return OneLayer(self.build(shape), shape.depth)
