"""Choose which weights of an encoder train: the last layers, all norms, the embeddings, adapters. The rest is frozen.

`prepare` runs once, after the weights are loaded and before the optimiser is built. The layers below the first trainable
parameter (up to `Encoder.cut`) stay in eval mode during training. They compute the same states for a window every time,
so a store can replace them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator
from torch import nn

from lamina.encoder.adapters import AdapterOptions, LoraOptions
from lamina.encoder.blocks import Encoder
from lamina.errors import LaminaError
from lamina.utils.options import Options


def _as_count(value: object) -> object:
    if value == "all" or (type(value) is int and value >= 0):
        return value
    raise ValueError('the value is no number of layers. Fix: give "all" or a number of last layers, 0 or more')


class TuneOptions(Options):
    """Which weights train besides those of the mixer and the head, which always train."""

    layers: Annotated[Literal["all"] | int, BeforeValidator(_as_count)] = "all"
    """Number of last layers to train, and with them a pooler that a head reads; `all` also trains the embeddings."""
    norms: bool = False
    """Train every layer norm, also in frozen layers and in the embeddings."""
    embeddings: bool | None = None
    """Train the embeddings; without it, they train when all layers do."""
    dropout: bool = False
    """Apply dropout in frozen layers too; their states then cannot be stored."""
    adapters: AdapterOptions | None = None
    """Add bottleneck adapters to the encoder."""
    lora: LoraOptions | None = None
    """Add low-rank updates to the attention of the encoder."""


def prepare(encoder: Encoder, options: TuneOptions, *, pooled: bool = False) -> None:
    """Insert adapters and choose the trainable weights; set ``requires_grad`` and ``encoder.cut``.

    `pooled` says that a head reads the pooled state.
    """
    choose(encoder, options, pooled=pooled)
    for inserted in (options.adapters, options.lora):
        if inserted is not None:
            inserted.insert(encoder)  # new parameters train
    encoder.cut = -1 if options.dropout else first_trained(encoder) - 1


def choose(encoder: Encoder, options: TuneOptions, *, pooled: bool = False) -> None:
    """Set ``requires_grad`` of the encoder's own weights."""
    depth, everything = encoder.config.layers, options.layers == "all"
    count = depth if options.layers == "all" else options.layers
    if count > depth:
        raise LaminaError(f'tune.layers: {count}, but the encoder has {depth} layers. Fix: give "all" or at most {depth}')
    if encoder.config.shared and 0 < count < depth:
        raise LaminaError(
            f"tune.layers: {count}, but the layers of ALBERT share one block, so all of them train or none. "
            'Fix: set tune.layers to 0 or "all", or use tune.adapters, which are separate for each layer'
        )
    encoder.requires_grad_(False)
    for block in encoder.layers[depth - count :]:
        block.requires_grad_(True)
    encoder.embeddings.requires_grad_(everything if options.embeddings is None else options.embeddings)
    if encoder.pooler is not None:
        encoder.pooler.requires_grad_(everything or (pooled and count > 0))
    if options.norms:
        for module in encoder.modules():
            if isinstance(module, nn.LayerNorm):
                module.requires_grad_(True)


def first_trained(encoder: Encoder) -> int:
    """Return the lowest layer with a trainable weight; 0 is the embeddings, depth + 1 means none."""
    depth = encoder.config.layers
    if trains(encoder.embeddings):
        return 0
    for layer, block in enumerate(encoder.layers, 1):
        slots = encoder.slots(layer)
        if trains(block) or (slots is not None and trains(slots)):
            return 1 if encoder.config.shared else layer  # a shared block cannot be in eval mode and train
    return depth + 1


def trains(module: nn.Module) -> bool:
    """Return whether a module has a trainable parameter."""
    return any(parameter.requires_grad for parameter in module.parameters())
