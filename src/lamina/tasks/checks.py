"""Checks a recipe by building it without memory, before any weight is loaded."""

from __future__ import annotations

import torch

from lamina.config.build import build_losses, build_model
from lamina.config.recipe import Recipe, TaskOptions
from lamina.encoder import load as encoders
from lamina.encoder.blocks import drops
from lamina.errors import LaminaError
from lamina.model import Model
from lamina.tasks.kind import FileCache
from lamina.tasks.registry import kind_of


def resolved(recipe: Recipe, files: FileCache | None = None) -> Recipe:
    """The recipe with what only its data can tell."""
    files = files or FileCache()
    tasks = {name: kind_of(task).resolve(task, files) for name, task in recipe.tasks.items()}
    return recipe.model_copy(update={"tasks": tasks})


def build_on_meta(recipe: Recipe, source: encoders.Source | None = None) -> Model:
    """The model of a new training without memory or weights: checks the recipe and gives `inspect` its counts. `source` is the
    recipe's encoder, where it was found already."""
    source = source or encoders.find(recipe.encoder, counting=True)
    if recipe.window.length > source.config.max_length:
        raise LaminaError(
            f"window.length = {recipe.window.length}, but the positions of {source.name} end at "
            f"{source.config.max_length}: lower window.length"
        )
    for name, task in recipe.tasks.items():
        try:
            kind_of(task).check(task, recipe.window)
        except LaminaError as error:
            raise LaminaError(of_task(name, str(error))) from None
    build_losses(recipe)
    with torch.device("meta"):
        model = build_model(recipe, encoders.build(source)).train()
    for name, task in recipe.tasks.items():
        _check_dropout(name, task, dropping=drops(model.encoder) or drops(model.tasks[name]))
    return model


def of_task(name: str, message: str) -> str:
    """A message with the name of its task; recipes with one task do not name it."""
    return message if name == "main" else f"tasks.{name}: {message}"


def _check_dropout(name: str, task: TaskOptions, *, dropping: bool) -> None:
    """R-Drop needs dropout. A finished run may lack it: only a new training is refused."""
    rdrop = task.terms.rdrop
    if rdrop is not None and rdrop.weight and not dropping:
        raise LaminaError(
            of_task(
                name,
                "terms.rdrop compares two passes with different dropout, but nothing drops out: set encoder.dropout = 0.1 "
                "(of layers that do not train, tune.dropout = true), or leave it out",
            )
        )
