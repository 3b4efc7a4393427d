"""Small trainable modules inside a frozen encoder: bottleneck adapters and LoRA.

Adapters (Houlsby et al. 2019): ``x + up(gelu(down(x)))`` after the attention's output and after the feed-forward's. Each
follows the dropout and precedes the residual sum. Kernels start near 0, so the encoder starts unchanged.

LoRA (Hu et al. 2021): a projection ``W x`` becomes ``W x + alpha / rank * B A x``; B starts at 0. Departure: the update is
computed beside the projection and not added to its weight, so no gradient has the size of the weight. `merge_lora` adds it
after training.

Each layer has its own modules, also where layers share a block (ALBERT).
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, cast

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor, nn

from lamina.encoder.blocks import Dropout, Encoder, Slots
from lamina.errors import LaminaError
from lamina.utils.options import Options

Projection = Literal["query", "key", "value", "output"]
Place = Literal["attention", "feed_forward"]


def _as_layers(value: object) -> object:
    if value == "all" or (type(value) is int and value >= 0):
        return value
    if isinstance(value, list | tuple) and value and all(type(layer) is int for layer in value):
        return tuple(value)
    raise ValueError('the value names no layers. Fix: give "all", a number of last layers, or a list of layers')


LayerChoice = Annotated[Literal["all"] | int | tuple[int, ...], BeforeValidator(_as_layers)]


class Adapter(nn.Module):
    """A bottleneck: x + up(gelu(down(x)))."""

    def __init__(self, hidden: int, size: int, init: float) -> None:
        super().__init__()
        self.down = nn.Linear(hidden, size)
        self.up = nn.Linear(size, hidden)
        for linear in (self.down, self.up):
            if not linear.weight.is_meta:
                nn.init.trunc_normal_(linear.weight, std=init, a=-2 * init, b=2 * init)
                nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + cast(Tensor, self.up(nn.functional.gelu(self.down(x))))


class LowRank(nn.Module):
    """A low-rank update: alpha / rank * B A x."""

    def __init__(self, hidden: int, rank: int, alpha: float, dropout: float) -> None:
        super().__init__()
        self.scale = alpha / rank
        self.a = nn.Parameter(torch.empty(rank, hidden))
        self.b = nn.Parameter(torch.zeros(hidden, rank))
        self.dropout = Dropout(dropout)
        if not self.a.is_meta:
            nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(nn.functional.linear(self.dropout(x), self.a), self.b * self.scale)

    @torch.no_grad()
    def product(self) -> Tensor:
        """Return the matrix that the update adds to the weight, [H, H]."""
        return self.scale * self.b @ self.a


class AdapterOptions(Options):
    """Which layers get bottleneck adapters, and their size."""

    size: int = Field(default=64, ge=1)
    """Number of values in the bottleneck of an adapter."""
    layers: LayerChoice = "all"
    """Layers with adapters: `all`, a number of last layers, or a list of layers from 1."""
    after: tuple[Place, ...] = Field(default=("attention", "feed_forward"), min_length=1)
    """Places of the adapters in a layer: after attention, after the feed-forward network, or both."""
    init: float = Field(default=1e-3, gt=0, allow_inf_nan=False)
    """Standard deviation of the initial weights; near 0, the encoder starts unchanged."""

    def insert(self, encoder: Encoder) -> None:
        """Add new adapters to the encoder."""
        for layer in chosen(self.layers, encoder.config.layers, "tune.adapters.layers"):
            slots = slots_of(encoder, layer)
            for place in self.after:
                setattr(slots, place, Adapter(encoder.config.hidden, self.size, self.init))


class LoraOptions(Options):
    """Which layers and projections get low-rank updates, and their rank."""

    rank: int = Field(default=8, ge=1)
    """Rank of each update."""
    alpha: float = Field(default=16.0, gt=0, allow_inf_nan=False)
    """Scale of each update; the update is multiplied by `alpha / rank`."""
    targets: tuple[Projection, ...] = Field(default=("query", "value"), min_length=1)
    """Projections of the attention to update."""
    layers: LayerChoice = "all"
    """Layers with updates: `all`, a number of last layers, or a list of layers from 1."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Probability of dropout on the input of an update, from 0 to below 1."""

    def insert(self, encoder: Encoder) -> None:
        """Add new updates to the encoder."""
        for layer in chosen(self.layers, encoder.config.layers, "tune.lora.layers"):
            updates = slots_of(encoder, layer).updates
            for target in self.targets:
                updates[target] = LowRank(encoder.config.hidden, self.rank, self.alpha, self.dropout)


def chosen(layers: LayerChoice, depth: int, field: str) -> tuple[int, ...]:
    """Return the layers 1..depth that a recipe chooses. `field` starts the message of an error.

    >>> chosen("all", 3, ""), chosen(2, 3, ""), chosen((1,), 3, "")
    ((1, 2, 3), (2, 3), (1,))
    """
    if layers == "all":
        return tuple(range(1, depth + 1))
    wanted = tuple(range(depth - layers + 1, depth + 1)) if isinstance(layers, int) else tuple(sorted(set(layers)))
    if not wanted or wanted[0] < 1 or wanted[-1] > depth:
        value = layers if isinstance(layers, int) else list(layers)
        raise LaminaError(
            f"{field}: {value} does not fit, since the encoder has layers 1 to {depth}. "
            'Fix: give "all", a number of last layers, or a list'
        )
    return wanted


def slots_of(encoder: Encoder, layer: int) -> Slots:
    """Return the layer's slots; create them if it has none."""
    if str(layer) not in encoder.adapters:
        encoder.adapters[str(layer)] = Slots()
    return cast(Slots, encoder.adapters[str(layer)])


def merge_lora(encoder: Encoder) -> None:
    """Add every update to the weight of its projection, and remove the updates. The outputs stay the same."""
    if encoder.config.shared and any(slots.updates for slots in all_slots(encoder)):
        raise LaminaError(
            "tune.lora: LoRA cannot be merged into ALBERT, whose layers share one block but have different updates. "
            "Fix: train ALBERT without LoRA"
        )
    for name, slots in encoder.adapters.items():
        updates = cast(Slots, slots).updates
        for target in list(updates):
            projection = cast(nn.Linear, getattr(encoder.layers[int(name) - 1].attention, target))
            with torch.no_grad():
                projection.weight += cast(LowRank, updates[target]).product()
            del updates[target]


def all_slots(encoder: Encoder) -> list[Slots]:
    return [cast(Slots, slots) for slots in encoder.adapters.values()]


def has_adapters(encoder: Encoder) -> bool:
    """Return whether the encoder has bottleneck adapters, which cannot be merged into its weights."""
    return any(isinstance(module, Adapter) for module in encoder.adapters.modules())
