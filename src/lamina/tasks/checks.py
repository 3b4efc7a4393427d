"""Check a recipe before any weight is loaded, by building its model on the meta device."""

from __future__ import annotations

import torch

from lamina.config.build import build_losses, build_model
from lamina.config.head_start import start_heads
from lamina.config.recipe import Recipe, TaskOptions
from lamina.encoder import load as encoders
from lamina.encoder.blocks import drops
from lamina.errors import LaminaError
from lamina.model import Model
from lamina.tasks.kind import FileCache
from lamina.tasks.registry import kind_of

MOST_PARAMETERS = 2**34  # 64 GB of weights


def resolved(recipe: Recipe, files: FileCache | None = None) -> Recipe:
    """Return the recipe with the fields that are read from its data, such as labels."""
    files = files or FileCache()
    tasks = {name: kind_of(task).resolve(task, files) for name, task in recipe.tasks.items()}
    return recipe.model_copy(update={"tasks": tasks})


def build_on_meta(recipe: Recipe, source: encoders.Source | None = None) -> Model:
    """Return the model of a new run on the meta device, without memory or weights.

    Building it checks the recipe, and `inspect` counts its parameters. `source` is the recipe's encoder, if it is known.
    """
    source = source or encoders.find(recipe.encoder, counting=True)
    if recipe.window.length > source.config.max_length:
        raise LaminaError(
            f"window.length: is {recipe.window.length}, but {source.name} has {source.config.max_length} positions. "
            f"Fix: set window.length to at most {source.config.max_length}"
        )
    for name, task in recipe.tasks.items():
        try:
            kind_of(task).check(task, recipe.window)
        except LaminaError as error:
            raise LaminaError(of_task(name, str(error))) from None
    build_losses(recipe)
    model = _built(recipe, source)
    start_heads(recipe, model)
    for name, task in recipe.tasks.items():
        _check_dropout(name, task, dropping=drops(model.encoder) or drops(model.tasks[name]))
    return model


def _built(recipe: Recipe, source: encoders.Source) -> Model:
    """Return the model on the meta device. Sizes that no machine has memory for raise LaminaError."""
    fix = "lower the sizes in the tables encoder, tune, mixer and head"
    try:
        with torch.device("meta"):
            model = build_model(recipe, encoders.build(source)).train()
    except (RuntimeError, OverflowError) as error:
        if "overflow" not in str(error).lower():
            raise
        raise LaminaError(f"model: a size of the recipe is too large for any tensor. Fix: {fix}") from None
    count = sum(parameter.numel() for parameter in model.parameters())
    if count > MOST_PARAMETERS:
        raise LaminaError(f"model: would have {count:,} parameters, more than {MOST_PARAMETERS:,}. Fix: {fix}")
    return model


def of_task(name: str, message: str) -> str:
    """Return a message with the name of its task in front; the only task of a recipe, "main", is not named."""
    return message if name == "main" else f"tasks.{name}: {message}"


def _check_dropout(name: str, task: TaskOptions, *, dropping: bool) -> None:
    """Raise LaminaError if R-Drop has no dropout to work with. Finished runs without dropout are not checked."""
    rdrop = task.terms.rdrop
    if rdrop is not None and rdrop.weight and not dropping:
        raise LaminaError(
            of_task(
                name,
                "terms.rdrop: compares two forward passes with different dropout, but this model has no dropout. "
                "Fix: set encoder.dropout = 0.1 (for frozen layers tune.dropout = true), or leave terms.rdrop out",
            )
        )
