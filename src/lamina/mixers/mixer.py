"""The interfaces of mixers and of their options."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from torch import Tensor, nn

from lamina.data.hidden_states import HiddenStack
from lamina.mixers.shape import Shape


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


class Stage(nn.Module):
    """A mixer in front of another: it maps a stack to a stack with fewer layers, or with layers of another width."""

    def __init__(self, width: int, layers: tuple[int, ...], leaves: tuple[int, ...]) -> None:
        super().__init__()
        self.width = width  # of each layer that it leaves
        self.layers = layers  # the layers that it needs
        self.leaves = leaves  # the layers of the stack that it returns


class AnyMixerOptions(Protocol):
    """The options of a mixer."""

    @property
    def type(self) -> str:
        """Return the name of the mixer."""
        ...

    @property
    def several(self) -> bool:
        """Return whether it combines layers, so that one layer is too few."""
        ...

    def build(self, shape: Shape) -> Mixer:
        """Return the mixer for an encoder and a head."""
        ...


@runtime_checkable
class InnerOptions(AnyMixerOptions, Protocol):
    """The options of a mixer that other mixers can follow. A mixer without `build_stage` can only be the last stage."""

    @property
    def leaves(self) -> Literal["one", "all"]:
        """Return whether its stage leaves one layer or all layers."""
        ...

    @property
    def only_last(self) -> str | None:
        """Return a setting that only the last stage can have, such as "skip = true", or None."""
        ...

    def build_stage(self, shape: Shape) -> Stage:
        """Return the mixer as a stage in front of others."""
        ...
