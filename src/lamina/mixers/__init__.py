"""Mixers: modules that turn the hidden layers of an encoder into one vector for each token.

A mixer is an ``nn.Module`` that follows `Mixer`. Its options are beside its maths. `MixerOptions` is the union of all
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
    """The interface of a mixer."""

    width: int  # D, the size of its vectors
    layers: tuple[int, ...]  # the layers that it needs, in rising order; no others are kept

    def __call__(self, stack: HiddenStack, queries: Tensor | None = None) -> Tensor:
        """Return the token vectors, [R, Q, T, D]. Q is 1, or the number of queries if each has its own mixture."""
        ...


@runtime_checkable
class Weighing(Protocol):
    """A mixer that gives each layer a weight."""

    layers: tuple[int, ...]

    def weights(self, stack: HiddenStack, queries: Tensor | None) -> Tensor:
        """Return the weight of each of the n layers, [R, Q, T, n] or a shape that broadcasts to it. Needs eval mode."""
        ...
