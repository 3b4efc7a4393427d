"""The options of training that do not belong to one technique."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator

from lamina.errors import LaminaError


class RateOptions(BaseModel):
    """Learning rates of parts, instead of `train.lr`. `adapters` are LoRA's as well."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    encoder: float | None = Field(default=None, gt=0)
    adapters: float | None = Field(default=None, gt=0)
    mixer: float | None = Field(default=None, gt=0)
    head: float | None = Field(default=None, gt=0)


class TrainOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    epochs: float = Field(default=2.0, gt=0)
    minutes: float | None = Field(default=None, gt=0)  # a time budget instead of epochs; becomes a number of steps
    lr: float = Field(default=1e-4, gt=0)
    rates: RateOptions = RateOptions()
    layer_decay: float = Field(default=1.0, gt=0, le=1)  # each layer of the encoder has so much of the rate of the one above
    schedule: Literal["linear", "cosine", "cosine_restarts", "exponential", "constant"] = "linear"  # after the warm-up
    warmup: float = Field(default=0.06, ge=0, lt=1)  # share of training
    cycles: int = Field(default=2, ge=1)  # of cosine_restarts: how often it falls to 0
    decay: float = Field(default=0.96, gt=0, le=1)  # of exponential: what is left of the rate when it falls
    decay_every: float = Field(default=1.0, gt=0)  # of exponential: epochs after which it falls
    weight_decay: float = Field(default=0.01, ge=0)
    clip: float = Field(default=1.0, gt=0)
    batch_tokens: int = Field(default=3072, ge=1)  # padded tokens of a step
    batch_windows: int | None = Field(default=None, ge=1)  # a fixed number of windows (or pairs) a step instead
    memory_tokens: int = Field(default=4096, ge=1)  # padded tokens at once: a step is cut into micro-batches of this size
    evaluate_every: float = Field(default=0.25, gt=0)  # epochs
    keep: Literal["best", "last"] = "best"
    patience: int | None = Field(default=None, ge=1)  # stop after so many evaluations without a gain
    checkpoints: float | None = Field(default=None, ge=0.01)  # keep the model every so many epochs, as a run of its own
    scorer: Literal["official", "bertvision_legacy", "korquad"] = "official"  # the others beside the official SQuAD 2.0
    # Of several tasks:
    sampling: Literal["round_robin", "proportional", "annealed", "square_root", "combined"] = "round_robin"  # whose turn it is
    gradients: Literal["sum", "pcgrad"] = "sum"  # of a combined step's tasks
    choose: str = "mean"  # the checkpoint by the mean of the tasks' held-out scores, or by one task's
    curves: bool = False  # after each epoch, score the training split and the dev set too; neither chooses anything
    checkpoint_minutes: float = Field(default=5.0, ge=0)
    seed: int = Field(default=0, ge=0, lt=2**63)
    threads: int | None = Field(default=None, ge=1)
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"

    @model_validator(mode="after")
    def _annealing_knows_its_end(self) -> TrainOptions:
        if self.sampling == "annealed" and self.minutes is not None:
            raise ValueError('sampling = "annealed" must know how many epochs there are: set epochs instead of minutes')
        return self


def choose_device(name: str) -> torch.device:
    """`auto` is cuda, else mps, else cpu."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise LaminaError(f"device {name!r} cannot be used here ({reason}): choose auto, cpu, cuda or mps") from error
    return device


def choose_precision(name: str, device: torch.device) -> torch.dtype:
    """`auto` is bfloat16 on GPUs that have it, else float32."""
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" and torch.cuda.is_bf16_supported() else torch.float32
    return torch.float32 if name == "float32" else torch.bfloat16
