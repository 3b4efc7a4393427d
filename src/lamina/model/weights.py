"""The weights that a model trains: copied, compared by name and loaded."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lamina.errors import LaminaError

Weights = dict[str, Tensor]


def trained_weights(model: nn.Module) -> Weights:
    """Parameters that train, and buffers: what a run stores. Shared parameters appear once."""
    weights = {name: value for name, value in model.named_parameters() if value.requires_grad}
    return {name: value.detach() for name, value in (weights | dict(model.named_buffers())).items()}


def copy_weights(model: nn.Module) -> Weights:
    return {name: value.clone() for name, value in trained_weights(model).items()}


def load_weights(model: nn.Module, weights: Weights) -> None:
    """Puts stored weights back; the names must be exactly those that the model trains."""
    targets = trained_weights(model)
    if odd := sorted(targets.keys() ^ weights.keys()):
        raise LaminaError(f"the stored weights do not fit the model: {odd[0]} is only on one side ({len(odd)} such names)")
    with torch.no_grad():
        for name, target in targets.items():
            target.copy_(weights[name])
