"""`PretrainRecipe`, the settings of a pretraining run: encoder, texts and training. It is a TOML file; `--set` changes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from lamina.config.parse import checked, read_values, with_settings
from lamina.encoder.blocks import EncoderConfig
from lamina.encoder.load import EncoderOptions
from lamina.encoder.presets import BERT_BASE, PRESETS
from lamina.pretraining.masking import MaskOptions
from lamina.pretraining.sequences import Packed
from lamina.pretraining.span_questions import SpanQuestionOptions
from lamina.pretraining.texts import PairSource, TextSource
from lamina.pretraining.vocabulary import VocabularyOptions
from lamina.training.schedules import Schedule
from lamina.utils.options import Options


class ShapeOptions(Options):
    """The shape of an encoder of BERT's family that starts from random weights."""

    layers: int = Field(ge=1)
    """Number of layers."""
    hidden: int = Field(ge=1)
    """Size of the hidden states; a multiple of `heads`."""
    heads: int = Field(ge=1)
    """Number of attention heads of a layer."""
    intermediate: int | None = Field(default=None, ge=1)
    """Size of the feed-forward network's inner vectors; without it, four times `hidden`."""
    positions: int = Field(default=512, ge=8)
    """Longest sequence that the encoder accepts, in tokens, at least 8."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropout, from 0 to below 1."""

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


class NspOptions(Options):
    """Next-sentence prediction, on texts of several sentences and on labelled pairs."""

    weight: float = Field(default=1.0, gt=0)
    """Factor of the next-sentence loss beside the loss of masked tokens."""
    pairs: tuple[PairSource, ...] = ()
    """Tables of pairs of texts; pairs labelled as duplicates count as following each other."""


class PretrainOptions(Options):
    epochs: float = Field(default=1.0, gt=0)
    """Number of epochs; fractions are allowed."""
    minutes: float | None = Field(default=None, gt=0)
    """Time budget in minutes instead of `epochs`; only with `objective = "spans"`."""
    lr: float = Field(default=1e-4, gt=0)
    """Highest learning rate of AdamW."""
    head_lr: float = Field(default=3e-3, gt=0)
    """Learning rate while the head trains alone."""
    schedule: Schedule = "linear"
    """How the learning rate falls after the warm-up."""
    warmup: float = Field(default=0.06, ge=0, lt=1)
    """Share of the steps in which the learning rate rises from 0, below 1."""
    cycles: int = Field(default=2, ge=1)
    """How many times `cosine_restarts` falls to 0."""
    decay: float = Field(default=0.96, gt=0, le=1)
    """Factor that `exponential` multiplies the rate by, above 0 to 1."""
    decay_every: float = Field(default=1.0, gt=0)
    """Number of epochs between two decays of `exponential`."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Weight decay of matrices; vectors such as biases and norms have none."""
    clip: float = Field(default=1.0, gt=0)
    """Largest norm of the gradient; longer gradients are scaled down to it."""
    batch_tokens: int = Field(default=4096, ge=1)
    """Number of tokens per step, with padding."""
    memory_tokens: int = Field(default=4096, ge=1)
    """Number of tokens, with padding, in memory at once; larger steps are cut into micro-batches."""
    evaluate_every: float = Field(default=0.25, gt=0)
    """Number of epochs between two evaluations on the held-out split."""
    checkpoint_minutes: float = Field(default=5.0, ge=0)
    """Minutes between two checkpoints to resume from."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Number that fixes every random choice of the run."""
    threads: int | None = Field(default=None, ge=1)
    """Number of processor threads; without it, torch's own choice."""
    device: str = "auto"
    """Device to train on: `auto`, `cpu`, `cuda` or `mps`."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Number format of the computation; `auto` is bfloat16 on GPUs that support it, else float32."""


# The fields that have no effect on an objective.
UNUSED: dict[str, tuple[str, ...]] = {
    "masked": ("spans", "train.minutes"),
    "spans": ("shape", "vocabulary", "packed", "mask", "nsp", "head_first", "train.head_lr"),
}


class PretrainRecipe(Options):
    """Either `encoder`, a checkpoint with its own vocabulary, or `shape`, random weights with a new `vocabulary`."""

    objective: Literal["masked", "spans"] = "masked"
    """What to predict: masked tokens (`masked`), or the answers of questions made from the texts (`spans`)."""
    texts: tuple[TextSource, ...] = ()
    """Sources of the texts to train on."""
    exclude: tuple[TextSource, ...] = ()
    """Sources of texts that must not be among the training texts, such as a dev set."""
    encoder: EncoderOptions | None = None
    """Pretrained encoder to start from; give this or `shape`."""
    shape: str | ShapeOptions | None = None
    """Shape of a new encoder with random weights: a preset such as `tiny`, or its sizes."""
    vocabulary: VocabularyOptions | None = None
    """Vocabulary to build for a new encoder; only with `shape`."""
    length: int = Field(default=128, ge=8)
    """Number of tokens of a sequence, at least 8; with `spans`, of a question with its context."""
    packed: Packed = "join"
    """Fill a sequence with several texts (`join`), or give every text its own (`none`)."""
    mask: MaskOptions = MaskOptions()
    """Which tokens to mask."""
    nsp: NspOptions | None = None
    """Add next-sentence prediction; without it, only masked tokens are predicted."""
    spans: SpanQuestionOptions = SpanQuestionOptions()
    """Questions to make from the texts; only with `objective = "spans"`."""
    head_first: float = Field(default=0.1, ge=0, lt=1)
    """Share of the steps in which a new head trains alone, below 1."""
    holdout: float = Field(default=0.05, ge=0, lt=1)
    """Share of the texts in the held-out split, below 1."""
    train: PretrainOptions = PretrainOptions()
    """Optimiser, schedule, batches and device of the run."""

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

    @model_validator(mode="after")
    def _objective_uses_every_field(self) -> PretrainRecipe:
        for name in UNUSED[self.objective]:
            table, _, field = name.rpartition(".")
            options = self.train if table else self
            if getattr(options, field) != type(options).model_fields[field].default:
                raise ValueError(f'{name}: has no effect with objective = "{self.objective}". Fix: leave {name} out')
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
    return checked(PretrainRecipe, with_settings(values, settings), name=name, settings=settings)
