"""Copy and load the weights that a model trains."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lamina.errors import LaminaError

Weights = dict[str, Tensor]


def trained_weights(model: nn.Module) -> Weights:
    """Return the trainable parameters and all buffers, as a run stores them. Shared parameters appear once."""
    weights = {name: value for name, value in model.named_parameters() if value.requires_grad}
    return {name: value.detach() for name, value in (weights | dict(model.named_buffers())).items()}


def copy_weights(model: nn.Module) -> Weights:
    """Return a copy of the trained weights."""
    return {name: value.clone() for name, value in trained_weights(model).items()}


def load_weights(model: nn.Module, weights: Weights) -> None:
    """Load stored weights into a model; the names must be exactly those of its trained weights."""
    targets = trained_weights(model)
    if odd := sorted(targets.keys() ^ weights.keys()):
        raise LaminaError(
            f"{odd[0]}: only one of the stored weights and the model has this name ({len(odd)} such names). "
            "Fix: use the recipe that the weights were trained with"
        )
    for name, target in targets.items():
        if weights[name].shape != target.shape:
            what = f"its stored shape is {tuple(weights[name].shape)}, but the model needs {tuple(target.shape)}"
            raise LaminaError(f"{name}: {what}. Fix: use the recipe that the weights were trained with")
    with torch.no_grad():
        for name, target in targets.items():
            target.copy_(weights[name])
