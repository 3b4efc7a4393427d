"""Save and load checkpoints. A stopped run continues from this one file with the same results."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NotRequired

import torch
from pydantic import ConfigDict, Field, with_config
from torch import Tensor, nn
from typing_extensions import TypedDict  # pydantic checks only this one in Python 3.11

from lamina.errors import LaminaError
from lamina.model.weights import Weights, load_weights, trained_weights
from lamina.objectives import Remembers
from lamina.training.loss_scale import LossScale
from lamina.utils.files import replacing
from lamina.utils.options import stored
from lamina.utils.run_folder import Amount, Count

FROM_START = "delete it to train from the start"
CHECKED = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)


@dataclass
class Costs:
    """The time and the tokens of a run so far, summed over all resumptions."""

    train_seconds: float = 0.0
    read_seconds: float = 0.0  # part of train_seconds: making batches and reading stored states
    store_seconds: float = 0.0  # before training, for storing the states of frozen layers and the outputs of teachers
    evaluate_seconds: float = 0.0
    tokens: int = 0
    padded_tokens: int = 0

    def count(self, mask: Tensor) -> None:
        """Add the tokens of a micro-batch; `mask` [R, T] is True on real tokens."""
        self.tokens += int(mask.sum())
        self.padded_tokens += mask.numel()


@dataclass
class State:
    """The progress of a run. `step` counts finished optimiser steps."""

    step: int = 0
    best_score: float = float("-inf")
    best_step: int = 0
    best: Weights = field(default_factory=dict)
    stale: int = 0  # evaluations since the best
    stopped: bool = False  # stopped early
    metrics_bytes: int = 0  # length of the metrics file
    costs: Costs = field(default_factory=Costs)
    scale: LossScale = field(default_factory=LossScale)


@with_config(CHECKED)
class _Costs(TypedDict):
    """The fields of `Costs`."""

    train_seconds: Amount
    read_seconds: Amount
    store_seconds: Amount
    evaluate_seconds: Amount
    tokens: Count
    padded_tokens: Count


@with_config(CHECKED)
class _Scale(TypedDict):
    """The fields of `LossScale`."""

    factor: Amount | None
    steady: Count


@with_config(CHECKED)
class _State(TypedDict):
    """The fields of `State`, with dictionaries for costs and scale. The best score is -inf before the first evaluation."""

    step: Count
    best_score: Annotated[float, Field(allow_inf_nan=True)]
    best_step: Count
    best: Weights
    stale: Count
    stopped: bool
    metrics_bytes: Count
    costs: _Costs
    scale: NotRequired[_Scale]  # older files have none


@with_config(CHECKED)
class _Content(TypedDict):
    """The content of the file."""

    weights: Weights
    optimizer: dict[str, Any]
    memories: NotRequired[list[dict[str, Any]]]  # of terms; older files have none
    state: _State


def save_checkpoint(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: State,
    memories: Sequence[Remembers] = (),
) -> None:
    content: _Content = {
        "weights": trained_weights(model),
        "optimizer": optimizer.state_dict(),
        "memories": [term.state_dict() for term in memories],
        "state": {**vars(state), "costs": vars(state.costs), "scale": vars(state.scale)},  # type: ignore[typeddict-item]
    }
    with replacing(path) as draft, draft.open("wb") as file:
        torch.save(content, file)


def load_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, memories: Sequence[Remembers] = ()
) -> State:
    try:
        with zipfile.ZipFile(path) as archive:  # torch does not compare the checksums in its file
            if damaged := archive.testzip():
                raise zipfile.BadZipFile(f"{damaged} differs from its checksum")
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise _unusable(path, error) from error
    known = stored(_Content, content, str(path), FROM_START)
    load_weights(model, known["weights"])
    try:
        optimizer.load_state_dict(known["optimizer"])
        for term, memory in zip(memories, known.get("memories", []), strict=True):
            term.load_state_dict(memory)
    except Exception as error:  # torch raises many kinds of errors for a state of another shape
        raise _unusable(path, error) from error
    state = known["state"]
    fields: dict[str, Any] = {**state}
    return State(**{**fields, "costs": Costs(**fields["costs"]), "scale": LossScale(**fields.get("scale", {}))})


def _unusable(path: Path, error: Exception) -> LaminaError:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return LaminaError(f"{path}: the checkpoint cannot be read ({reason}). Fix: {FROM_START}")
