"""Checkpoints: everything that a killed run needs to go on as if nothing had happened, in one file, replaced at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lamina.errors import LaminaError
from lamina.model.weights import Weights, load_weights, trained_weights
from lamina.objectives import Remembers
from lamina.utils.files import replacing


@dataclass
class Costs:
    """What training took so far, over all resumptions."""

    train_seconds: float = 0.0
    read_seconds: float = 0.0  # of these, for making batches and reading stored states
    store_seconds: float = 0.0  # before training, for storing the states of frozen layers
    evaluate_seconds: float = 0.0
    tokens: int = 0
    padded_tokens: int = 0


@dataclass
class State:
    """Where a run stands. `step` counts finished optimiser steps."""

    step: int = 0
    best_score: float = float("-inf")
    best_step: int = 0
    best: Weights = field(default_factory=dict)
    stale: int = 0  # evaluations since the best
    stopped: bool = False  # stopped early
    metrics_bytes: int = 0
    costs: Costs = field(default_factory=Costs)


def save_checkpoint(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: State,
    memories: Sequence[Remembers] = (),
) -> None:
    content = {
        "weights": trained_weights(model),
        "optimizer": optimizer.state_dict(),
        "memories": [term.state_dict() for term in memories],
        "state": {**vars(state), "costs": vars(state.costs)},
    }
    with replacing(path) as draft, draft.open("wb") as file:  # a full disk is an OSError only through a file of our own
        torch.save(content, file)


def load_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, memories: Sequence[Remembers] = ()
) -> State:
    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise LaminaError(f"{path}: the checkpoint cannot be read ({error}): delete it to train from the start") from error
    load_weights(model, content["weights"])
    optimizer.load_state_dict(content["optimizer"])
    for term, memory in zip(memories, content.get("memories", []), strict=True):
        term.load_state_dict(memory)
    state: dict[str, Any] = content["state"]
    return State(**{**state, "costs": Costs(**state["costs"])})
