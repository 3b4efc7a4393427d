"""The options of a run that belong to no single technique."""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from lamina.errors import LaminaError, first_line
from lamina.utils.options import Options


class RateOptions(Options):
    """Learning rates of single parts of the model, instead of `train.lr`. `adapters` includes LoRA."""

    encoder: float | None = Field(default=None, gt=0)
    """Highest learning rate of the encoder; without it, `train.lr`."""
    adapters: float | None = Field(default=None, gt=0)
    """Highest learning rate of adapters and LoRA; without it, `train.lr`."""
    mixer: float | None = Field(default=None, gt=0)
    """Highest learning rate of the mixer; without it, `train.lr`."""
    head: float | None = Field(default=None, gt=0)
    """Highest learning rate of the head; without it, `train.lr`."""


class TrainOptions(Options):
    """Optimiser, schedule, batches, checkpoints and device of a run."""

    epochs: float = Field(default=2.0, ge=0)
    """Number of epochs; fractions are allowed. 0 scores the untrained model."""
    minutes: float | None = Field(default=None, gt=0)
    """Time budget in minutes instead of `epochs`; it is converted into a number of steps."""
    lr: float = Field(default=1e-4, gt=0)
    """Highest learning rate of AdamW."""
    rates: RateOptions = RateOptions()
    """Learning rates of single parts of the model, instead of `train.lr`."""
    layer_decay: float = Field(default=1.0, gt=0, le=1)
    """Factor of the learning rate from each encoder layer to the one below, above 0 to 1."""
    schedule: Literal["linear", "cosine", "cosine_restarts", "exponential", "constant"] = "linear"
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
    batch_tokens: int = Field(default=3072, ge=1)
    """Number of tokens per step, with padding."""
    batch_windows: int | None = Field(default=None, ge=1)
    """Number of windows, or of pairs of texts, per step, instead of `batch_tokens`."""
    memory_tokens: int = Field(default=4096, ge=1)
    """Number of tokens, with padding, in memory at once; larger steps are cut into micro-batches."""
    evaluate_every: float = Field(default=0.25, gt=0)
    """Number of epochs between two evaluations on the held-out split."""
    keep: Literal["best", "last"] = "best"
    """Keep the checkpoint with the best held-out score, or the last one."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after this many evaluations without a better held-out score."""
    checkpoints: float | None = Field(default=None, ge=0.01)
    """Number of epochs between two saved models, each usable as a run; without it, none is saved."""
    checkpoint_outputs: bool = True
    """Score each of `train.checkpoints` on the dev set and save its outputs, as `ensemble`, `compare` and `analyze` need."""
    scorer: Literal["official", "bertvision_legacy", "korquad"] = "official"
    """Scores to report; `bertvision_legacy` and `korquad` are reported beside the official scores of SQuAD 2.0."""
    # For several tasks:
    sampling: Literal["round_robin", "proportional", "annealed", "square_root", "combined"] = "round_robin"
    """With several tasks, which task each step trains."""
    gradients: Literal["sum", "pcgrad"] = "sum"
    """How a combined step joins the gradients of its tasks."""
    choose: str = "mean"
    """With several tasks, choose the checkpoint by the mean held-out score or by that of the named task."""
    curves: bool = False
    """Score the training split and the dev set every `train.curves_every` epochs; these scores choose nothing."""
    curves_every: float = Field(default=1.0, ge=0.01)
    """Number of epochs between two points of `train.curves`; the end of the run is a point too."""
    curves_examples: int | None = Field(default=None, ge=1)
    """Examples of each split for `train.curves`; without it, 1,000 of the training split and the whole dev set."""
    checkpoint_minutes: float = Field(default=5.0, ge=0)
    """Minutes between two checkpoints to resume from."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Number that fixes every random choice of the run."""
    threads: int | None = Field(default=None, ge=1)
    """Number of processor threads; without it, torch's own choice."""
    device: str = "auto"
    """Device to train on: `auto`, `cpu`, `cuda` or `mps`."""
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Number format of the computation; `auto` is bfloat16 on GPUs that support it, else float32; `float16` scales the loss."""
    score_precision: Literal["auto", "float32", "bfloat16"] = "float32"
    """Number format of the model when the run scores its held-out split and its dev set; a saved model is in float32."""
    compile: bool = False
    """Compile the layers of the encoder with `torch.compile`; the first steps then take longer."""

    @property
    def untrained(self) -> bool:
        """Whether the run has no steps."""
        return self.epochs == 0 and self.minutes is None

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out `compile` if it is not set: then recipes are written as before it, and studies find their runs."""
        values: dict[str, Any] = write(self)
        return values if values.get("compile") else {name: value for name, value in values.items() if name != "compile"}

    @model_validator(mode="after")
    def _annealing_needs_epochs(self) -> TrainOptions:
        if self.sampling == "annealed" and self.minutes is not None:
            raise ValueError('sampling = "annealed" needs a number of epochs. Fix: set train.epochs instead of train.minutes')
        return self


def choose_device(name: str) -> torch.device:
    """Return the device of a name; `auto` is cuda if available, else mps, else cpu."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = first_line(error)
        raise LaminaError(f"device: {name!r} is not usable here ({reason}). Fix: choose auto, cpu, cuda or mps") from error
    return device


def fast_precision() -> Literal["float32", "bfloat16"]:
    """Return the number format in which this processor trains fastest: bfloat16 if it has instructions for it."""
    found: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()  # older versions of torch do not have it
    return "bfloat16" if found.get("avx512_bf16") or found.get("amx_bf16") else "float32"


def choose_precision(name: str, device: torch.device) -> torch.dtype:
    """Return the number format of the computation; `auto` is bfloat16 on GPUs that support it, else float32."""
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" and torch.cuda.is_bf16_supported() else torch.float32
    return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[name]
