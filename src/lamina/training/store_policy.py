"""Decide whether the hidden states of a model's frozen layers are stored, and compute the size of the store."""

from __future__ import annotations

from dataclasses import replace

from lamina.config.recipe import Recipe, TaskOptions
from lamina.data.windows import Windows
from lamina.errors import LaminaError
from lamina.model import Model
from lamina.state_cache.extract import fingerprint, store_of, stored_starts
from lamina.state_cache.store import Contents, StoreError
from lamina.training.datasets import AnyDataset, TrainingData
from lamina.utils.progress import Progress


def with_stores(recipe: Recipe, model: Model, data: TrainingData, progress: Progress) -> TrainingData:
    """Return the data with the stored states of the model's frozen layers; unchanged if they cannot be stored."""
    if (reason := not_storable(recipe, model)) is not None:
        if recipe.cache.use == "always":
            raise LaminaError(f'cache.use: is "always", but {reason}. Fix: set cache.use = "auto"')
        if recipe.cache.use == "auto" and recipe.tune.layers != "all":
            progress.say(f"computing the frozen layers in every epoch: {reason}")
        return data
    splits = (data.train, data.holdout, *([data.dev] if recipe.cache.dev else []))
    size = sum(stored_bytes(recipe, model, one.windows, task) for split in splits for task, one in split.items())
    if size > recipe.cache.max_gb * 1e9:
        progress.say(
            f"the states of the frozen layers need {size / 1e9:.1f} GB, more than cache.max_gb = {recipe.cache.max_gb:g}: "
            "computing them in every epoch"
        )
        return data
    weights = {task: fingerprint(model.encoder, max(model.stored_layers(task))) for task in recipe.tasks}

    def stored(task: str, dataset: AnyDataset) -> AnyDataset:
        if not dataset.examples:
            return dataset
        held = contents(recipe, model, dataset.windows, weights[task], task)
        return replace(dataset, store=store_of(model.encoder, dataset.windows, held, progress))

    try:
        train, holdout, *dev = ({task: stored(task, dataset) for task, dataset in split.items()} for split in splits)
    except StoreError as error:
        progress.say(f"the states of the frozen layers cannot be stored, so every epoch computes them: {error}")
        return data
    return replace(data, train=train, holdout=holdout, dev=dev[0] if dev else data.dev)


def not_storable(recipe: Recipe, model: Model) -> str | None:
    """Return why the states of frozen layers cannot be stored; None if they can."""
    tune = recipe.tune
    if recipe.cache.use == "never":
        return 'cache.use = "never"'
    if tune.dropout:
        return "tune.dropout = true uses dropout in frozen layers, so their states differ every time"
    if (disturbed := next((name for name, task in recipe.tasks.items() if _perturbs(task)), None)) is not None:
        return f"terms.smart of task {disturbed!r} changes the embeddings, below all states that could be stored"
    if any(task.augment.per_epoch for task in recipe.tasks.values()):
        return "augment changes the texts in every epoch"
    if model.encoder.cut >= 1:
        return None
    if tune.norms:
        return "tune.norms = true trains the norms of all layers, so nothing is frozen below them"
    if tune.embeddings or (tune.layers == "all" and tune.embeddings is None):
        return "the embeddings train, so nothing is frozen below them"
    if model.encoder.config.shared:
        return "ALBERT's layers share one block, whose states can be stored only if it is frozen and has no adapters"
    return "layer 1 trains or has adapters, and storing the embeddings alone saves no time"


def _perturbs(task: TaskOptions) -> bool:
    return task.terms.smart is not None and task.terms.smart.weight > 0


def stored_bytes(recipe: Recipe, model: Model, windows: Windows, task: str = "main") -> int:
    """Return the size of the store of these windows in bytes. The model may be on the meta device."""
    found = contents(recipe, model, windows, "", task)
    return found.bytes(int(stored_starts(windows, found)[-1]))


def contents(recipe: Recipe, model: Model, windows: Windows, weights: str, task: str = "main") -> Contents:
    whole = model.encoder.cut == model.encoder.config.layers  # layers above the cut need the states of all tokens
    return Contents(
        weights=weights,
        windows=windows.fingerprint,
        layers=model.stored_layers(task),
        hidden=model.encoder.config.hidden,
        positions="cls" if whole and model.head_positions(task) == "cls" else "tokens",
        dtype=recipe.cache.dtype,
        model=recipe.encoder.model,
        data=recipe.tasks[task].data.train_name,
    )
