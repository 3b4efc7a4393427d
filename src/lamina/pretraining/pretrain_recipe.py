"""`PretrainRecipe`, the settings of a pretraining run: encoder, texts and training. It is a TOML file; `--set` changes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lamina.config.parse import checked, read_values, with_settings
from lamina.encoder.blocks import EncoderConfig
from lamina.encoder.load import EncoderOptions
from lamina.encoder.presets import BERT_BASE, PRESETS
from lamina.pretraining.masking import MaskOptions
from lamina.pretraining.sequences import Packed
from lamina.pretraining.texts import PairSource, TextSource
from lamina.pretraining.vocabulary import VocabularyOptions
from lamina.training.schedules import Schedule


class ShapeOptions(BaseModel):
    """The shape of an encoder of BERT's family that starts from random weights."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    layers: int = Field(ge=1)
    hidden: int = Field(ge=1)
    heads: int = Field(ge=1)
    intermediate: int | None = Field(default=None, ge=1)  # None: four times `hidden`
    positions: int = Field(default=512, ge=8)
    dropout: float = Field(default=0.1, ge=0, lt=1)

    @model_validator(mode="after")
    def _heads_are_equal(self) -> ShapeOptions:
        if self.hidden % self.heads:
            raise ValueError(
                f"hidden = {self.hidden} cannot be divided into {self.heads} equal heads. Fix: choose a multiple of heads"
            )
        return self

    def config(self, vocabulary: int) -> EncoderConfig:
        return replace(
            BERT_BASE,
            layers=self.layers,
            hidden=self.hidden,
            embedding=self.hidden,
            heads=self.heads,
            intermediate=self.intermediate or 4 * self.hidden,
            positions=self.positions,
            dropout=self.dropout,
            vocab=vocabulary,
        )


class NspOptions(BaseModel):
    """Next-sentence prediction, on texts of several sentences and on labelled pairs."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    weight: float = Field(default=1.0, gt=0)  # of its loss beside that of the masked tokens
    pairs: tuple[PairSource, ...] = ()  # tables of pairs: duplicates count as following each other


class PretrainOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    epochs: float = Field(default=1.0, gt=0)
    lr: float = Field(default=1e-4, gt=0)
    head_lr: float = Field(default=3e-3, gt=0)  # while the head trains alone
    schedule: Schedule = "linear"  # after the warm-up
    warmup: float = Field(default=0.06, ge=0, lt=1)  # share of training
    cycles: int = Field(default=2, ge=1)  # of cosine_restarts
    decay: float = Field(default=0.96, gt=0, le=1)  # of exponential: what is left of the rate when it falls
    decay_every: float = Field(default=1.0, gt=0)  # of exponential: epochs after which it falls
    weight_decay: float = Field(default=0.01, ge=0)
    clip: float = Field(default=1.0, gt=0)
    batch_tokens: int = Field(default=4096, ge=1)  # padded tokens of a step
    memory_tokens: int = Field(default=4096, ge=1)  # padded tokens at once: a step is cut into micro-batches of this size
    evaluate_every: float = Field(default=0.25, gt=0)  # epochs
    checkpoint_minutes: float = Field(default=5.0, ge=0)
    seed: int = Field(default=0, ge=0, lt=2**63)
    threads: int | None = Field(default=None, ge=1)
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"


class PretrainRecipe(BaseModel):
    """Either `encoder`, a checkpoint with its own vocabulary, or `shape`, random weights with a new `vocabulary`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    texts: tuple[TextSource, ...] = ()
    exclude: tuple[TextSource, ...] = ()  # texts that must not be among them, such as a dev set's
    encoder: EncoderOptions | None = None
    shape: str | ShapeOptions | None = None  # a preset such as "tiny", or numbers
    vocabulary: VocabularyOptions | None = None
    length: int = Field(default=128, ge=8)  # tokens of a sequence
    packed: Packed = "join"
    mask: MaskOptions = MaskOptions()
    nsp: NspOptions | None = None
    head_first: float = Field(default=0.1, ge=0, lt=1)  # share of the steps in which a new head trains alone
    holdout: float = Field(default=0.05, ge=0, lt=1)  # share of the texts
    train: PretrainOptions = PretrainOptions()

    @model_validator(mode="before")
    @classmethod
    def _shapes_differ_in_kind(cls, values: Any) -> Any:
        """Check a table as ShapeOptions first: the errors of a union would be unclear."""
        if isinstance(values, dict) and isinstance(values.get("shape"), dict):
            return values | {"shape": ShapeOptions.model_validate(values["shape"])}
        return values

    @model_validator(mode="after")
    def _fits(self) -> PretrainRecipe:
        if not self.texts and not (self.nsp and self.nsp.pairs):
            raise ValueError('texts: is missing. Fix: name the texts to train on, such as texts = ["my.txt"]')
        if self.shape is not None and self.encoder is not None:
            raise ValueError("shape: the recipe has an encoder too. Fix: leave out either encoder or shape")
        if self.shape is None and self.vocabulary is not None:
            raise ValueError("vocabulary: an encoder has its own vocabulary. Fix: give a shape instead of the encoder")
        if isinstance(self.shape, str) and self.shape not in PRESETS:
            close = get_close_matches(self.shape, PRESETS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(PRESETS)}"
            raise ValueError(f"shape: there is no {self.shape!r}. Fix: {hint}")
        return self

    @property
    def vocabulary_or_default(self) -> VocabularyOptions:
        return self.vocabulary or VocabularyOptions()

    def shape_for(self, vocabulary: int) -> EncoderConfig:
        """Return the configuration of the encoder that `shape` describes. It has a pooler only with `nsp`."""
        assert self.shape is not None
        config = PRESETS[self.shape] if isinstance(self.shape, str) else self.shape.config(vocabulary)
        return replace(config, vocab=vocabulary, pooler=config.pooler and self.nsp is not None)


def read_pretrain_recipe(path: Path, settings: Sequence[str] = ()) -> PretrainRecipe:
    return parse_pretrain_recipe(read_values(path), settings, name=str(path))


def parse_pretrain_recipe(values: dict[str, Any], settings: Sequence[str] = (), *, name: str = "recipe") -> PretrainRecipe:
    return checked(PretrainRecipe, with_settings(values, settings), name=name)
