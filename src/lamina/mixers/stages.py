"""Mixers one after another, such as BERTVision's "LP, adapter size 386 & xception" (001, Tables 1 and 2).

All stages but the last map a stack of layers to a stack of layers: pooling leaves one layer, compression makes each layer
narrower. The last stage maps what is left to token vectors. Widths follow from the stage before. Layers keep their numbers,
and a pooled layer has the number of the last one.

Departure: the skip connection of the last stage appends the last layer of the encoder, also if stages are before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from torch import Tensor, nn

from lamina.data.hidden_states import POOLED, HiddenStack
from lamina.errors import LaminaError
from lamina.mixers.attention import LayerAttention
from lamina.mixers.mixer import AnyMixerOptions, InnerOptions, Mixer, Stage, Weighing
from lamina.mixers.pooling import OneLayer
from lamina.mixers.shape import Shape


class Stages(nn.Module):
    """Stages that change the layers, and the mixer of what they leave."""

    last: Mixer

    def __init__(self, stages: Sequence[Stage], last: Mixer) -> None:
        super().__init__()
        self.inner = nn.Sequential(*stages)
        self.last = last
        self.layers = stages[0].layers
        self.width = last.width

    def forward(self, stack: HiddenStack, queries: Tensor | None = None) -> Tensor:
        return self.last(self.inner(stack), queries)  # [R, Q, T, D]


class StageWeights:
    """The layer weights of one of several stages (`Weighing`): the stages before it are computed first."""

    def __init__(self, before: nn.Module, weighing: Weighing) -> None:
        self.layers = weighing.layers
        self._before = before
        self._weighing = weighing

    def weights(self, stack: HiddenStack, queries: Tensor | None) -> Tensor:
        return self._weighing.weights(self._before(stack), queries)


def weighing(mixer: Mixer) -> Weighing | None:
    """Return what gives the layers their weights: the mixer, or one of its stages; None if nothing does."""
    if not isinstance(mixer, Stages):
        return mixer if isinstance(mixer, Weighing) else None
    for number, stage in enumerate(mixer.inner):
        if isinstance(stage, OneLayer) and isinstance(stage.mixer, Weighing):
            return StageWeights(mixer.inner[:number], stage.mixer)
    return StageWeights(mixer.inner, mixer.last) if isinstance(mixer.last, Weighing) else None


def attends(mixer: Mixer) -> bool:
    """Return whether the mixer, or its last stage, attends with the queries of the head."""
    return isinstance(mixer.last if isinstance(mixer, Stages) else mixer, LayerAttention)


def check_order(stages: Sequence[AnyMixerOptions]) -> None:
    """Raise ValueError if a stage cannot follow the one before it."""
    if len(stages) < 2:
        raise ValueError("a list needs two stages or more. Fix: write a single mixer as a table")
    for place, options in enumerate(stages[:-1]):
        if not isinstance(options, InnerOptions):
            what = f"{_name(place, options)} gives vectors that only the head reads, so no stage can follow it"
            raise ValueError(f"{what}. Fix: make it the last stage")
        if options.only_last:
            what = f"{_name(place, options)} has {options.only_last}, which is for the last stage, whose vectors the head reads"
            raise ValueError(f"{what}. Fix: set it to false")
    one = False  # whether one layer is left
    for place, (before, after) in enumerate(pairwise(stages), 1):
        one |= isinstance(before, InnerOptions) and before.leaves == "one"
        if one and after.several:
            what = f"{_name(place - 1, before)} leaves one layer, so {_name(place, after)} has nothing to combine"
            raise ValueError(f"{what}. Fix: remove one of them")


def build_stages(stages: Sequence[AnyMixerOptions], shape: Shape) -> Stages:
    """Return stages in a checked order, each built for the layers and the width that the stage before it leaves."""
    inner: list[Stage] = []
    for place, options in enumerate(stages[:-1]):
        assert isinstance(options, InnerOptions)
        stage = options.build_stage(shape)
        _check_reads_all(place, options, stage.layers, shape)
        inner.append(stage)
        shape = replace(shape, hidden=stage.width, pooled=POOLED in stage.leaves, left=stage.leaves)
    last = stages[-1].build(shape)
    _check_reads_all(len(inner), stages[-1], last.layers, shape)
    return Stages(inner, last)


def _check_reads_all(place: int, options: AnyMixerOptions, layers: tuple[int, ...], shape: Shape) -> None:
    if shape.left is not None and {*shape.left} - {*layers}:
        raise LaminaError(
            f"mixer: {_name(place, options)} reads only {len(layers)} of the {len(shape.left)} layers of mixer.{place - 1}. "
            f"Fix: read all of them, or leave layer 0 out with embeddings = false in mixer.0"
        )


def _name(place: int, options: AnyMixerOptions) -> str:
    return f'"{options.type}" (mixer.{place})'
