"""Save and load checkpoints. A stopped run continues from this one file with the same results."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor, nn
from torch.optim.optimizer import StateDict

from lamina.errors import LaminaError
from lamina.model.weights import Weights, load_weights, trained_weights
from lamina.objectives import Remembers
from lamina.utils.files import replacing


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


class _Content(TypedDict):
    """The content of the file. `state` has the fields of `State`, its costs as a dictionary."""

    weights: Weights
    optimizer: StateDict
    memories: list[dict[str, Tensor]]
    state: dict[str, Any]


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
        "state": {**vars(state), "costs": vars(state.costs)},
    }
    with replacing(path) as draft, draft.open("wb") as file:  # torch raises OSError for a full disk only with an open file
        torch.save(content, file)


def load_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, memories: Sequence[Remembers] = ()
) -> State:
    try:
        with zipfile.ZipFile(path) as archive:  # torch does not compare the checksums in its file
            if damaged := archive.testzip():
                raise zipfile.BadZipFile(f"{damaged} differs from its checksum")
        content: _Content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise LaminaError(f"{path}: the checkpoint cannot be read ({error}). Fix: delete it to train from the start") from error
    load_weights(model, content["weights"])
    optimizer.load_state_dict(content["optimizer"])
    for term, memory in zip(memories, content.get("memories", []), strict=True):
        term.load_state_dict(memory)
    state = content["state"]
    return State(**{**state, "costs": Costs(**state["costs"])})
