"""Mixers: modules that turn the hidden layers of an encoder into one vector for each token.

A mixer is an ``nn.Module`` that follows `Mixer`. Its options are beside its maths. `MixerOptions` is the union of all
options, and so the registry. A mixer sees hidden states and the head's queries, never labels or texts. A list of options is
a mixer of several stages (`stages`). Options with `build_stage` fit in front of others; the rest fit at the end only.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, RootModel, Tag, model_validator

from lamina.mixers.attention import DotOptions, LayerAttention, LayerEncoderOptions, MultiplicativeOptions
from lamina.mixers.compression import CompressionOptions
from lamina.mixers.convolution import ConvolutionOptions, InceptionOptions, XceptionOptions
from lamina.mixers.mixer import Mixer, Weighing
from lamina.mixers.pooling import AverageOptions, LastLayer, LastLayerOptions, LearnedOptions, WithLastLayer
from lamina.mixers.shape import Shape
from lamina.mixers.stages import Stages, attends, build_stages, check_order, weighing

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


def _with_defaults_of_stages(stages: object) -> object:
    """Set the defaults that differ in a list: one mixture in front of another stage; later stages read every layer left."""
    if not isinstance(stages, list) or not all(isinstance(stage, dict) for stage in stages):
        return stages  # options, or a mistake that the types find
    filled = []
    for place, stage in enumerate(stages):
        defaults: dict[str, object] = {}
        if stage.get("type") == "learned" and place < len(stages) - 1:
            defaults["separate"] = False
        if place and stage.get("type") != "last":
            defaults["embeddings"] = True
        filled.append(defaults | stage)
    return filled


class StagesOptions(RootModel[tuple[MixerOptions, ...]]):
    """A list of mixers, one after another (`stages`)."""

    model_config = ConfigDict(frozen=True)

    root: Annotated[tuple[MixerOptions, ...], BeforeValidator(_with_defaults_of_stages)]
    """Mixers one after another: all but the last change the layers, the last turns them into token vectors."""

    @property
    def type(self) -> str:
        """Return the names of all stages."""
        return ", ".join(stage.type for stage in self.root)

    @model_validator(mode="after")
    def _order(self) -> StagesOptions:
        check_order(self.root)
        return self

    def build(self, shape: Shape) -> Stages | WithLastLayer:
        *inner, last = self.root
        if getattr(last, "skip", False):  # the last layer of the encoder is not among the layers that stages leave
            mixer = build_stages([*inner, last.model_copy(update={"skip": False})], shape)
            return WithLastLayer(mixer, shape.hidden, shape.depth)
        return build_stages(self.root, shape)


def _form(value: object) -> str:
    return "stages" if isinstance(value, list | tuple | StagesOptions) else "one"


# The field `mixer` of a task: one mixer as a table, or a list of mixers.
OneOrStages = Annotated[
    Annotated[MixerOptions, Tag("one")] | Annotated[StagesOptions, Tag("stages")], Field(discriminator=Discriminator(_form))
]

__all__ = [
    "LastLayer",
    "LastLayerOptions",
    "LayerAttention",
    "Mixer",
    "MixerOptions",
    "OneOrStages",
    "Shape",
    "Stages",
    "StagesOptions",
    "Weighing",
    "attends",
    "weighing",
]
