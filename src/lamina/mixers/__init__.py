"""Mixers: the hidden layers of an encoder -> one vector a token.

A mixer is an ``nn.Module`` that follows `Mixer`. Its options stand beside its maths; `MixerOptions` is the union of all
options, and so the registry. A mixer sees hidden states and the head's queries, never labels or texts.
"""

from __future__ import annotations

from typing import Annotated, Protocol, runtime_checkable

from pydantic import Field
from torch import Tensor

from lamina.data.hidden_states import HiddenStack
from lamina.mixers.attention import DotOptions, LayerAttention, LayerEncoderOptions, MultiplicativeOptions
from lamina.mixers.compression import CompressionOptions
from lamina.mixers.convolution import ConvolutionOptions, InceptionOptions, XceptionOptions
from lamina.mixers.pooling import AverageOptions, LastLayer, LastLayerOptions, LearnedOptions
from lamina.mixers.shape import Shape

MixerOptions = Annotated[
    LastLayerOptions
    | AverageOptions
    | LearnedOptions
    | DotOptions
    | MultiplicativeOptions
    | LayerEncoderOptions
    | CompressionOptions
    | ConvolutionOptions
    | InceptionOptions
    | XceptionOptions,
    Field(discriminator="type"),
]

__all__ = ["LastLayer", "LastLayerOptions", "LayerAttention", "Mixer", "MixerOptions", "Shape", "Weighing"]


class Mixer(Protocol):
    width: int  # D of the vectors it yields
    layers: tuple[int, ...]  # which layers it needs, in rising order; no others are kept

    def __call__(self, stack: HiddenStack, queries: Tensor | None = None) -> Tensor:
        """[R, Q, T, D] where Q is 1, or the number of the head's queries when each gets its own mixture."""
        ...


@runtime_checkable
class Weighing(Protocol):
    """A mixer whose vectors are made of layers that each have a weight."""

    layers: tuple[int, ...]

    def weights(self, stack: HiddenStack, queries: Tensor | None) -> Tensor:
        """[R, Q, T, n], or what broadcasts to it: how much each of the n layers counts. The mixer is in eval mode."""
        ...
