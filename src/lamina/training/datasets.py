"""Read the datasets of a recipe: for each task the training split, the held-out split and the dev set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lamina.config.recipe import Recipe, TaskOptions
from lamina.data.examples import Example
from lamina.data.languages import common_language
from lamina.data.tokenizer import Tokenizer
from lamina.encoder import load as encoders
from lamina.errors import LaminaError
from lamina.state_cache.dataset import AugmentedDataset, Dataset, EpochCache
from lamina.tasks.checks import of_task
from lamina.tasks.kind import AnyKind, FileCache, counted
from lamina.tasks.registry import kind_of
from lamina.utils.progress import Progress

AnyDataset = Dataset[Any]  # of questions or of sentences
Datasets = Mapping[str, AnyDataset]  # by task


@dataclass(frozen=True)
class TrainingData:
    """All data of a run. Each split has a dataset for every task."""

    source: encoders.Source
    tokenizer: Tokenizer
    train: Datasets
    holdout: Datasets
    dev: Datasets


def language_of_texts(datasets: Datasets) -> str | None:
    """Return the language of the contexts of all questions; None if there are none, or if it is not clear."""
    questions = (example for dataset in datasets.values() for example in dataset.examples if isinstance(example, Example))
    return common_language(list(dict.fromkeys(example.context for example in questions)))


def load_data(
    recipe: Recipe, source: encoders.Source, files: FileCache, progress: Progress, *, dev: bool = True
) -> TrainingData:
    """Return all data of a run; without `dev`, no dev set is read.

    Dev sets are read before training, so that their errors appear at once.
    """
    tokenizer = encoders.load_tokenizer(source)
    train, holdout, scored = dict[str, AnyDataset](), dict[str, AnyDataset](), dict[str, AnyDataset]()
    for name, task in recipe.tasks.items():
        progress.say(f"reading {task.data.train_name}")
        kind = kind_of(task)
        try:
            splits = kind.splits(task, recipe.train.seed, files, dev=dev)
            train[name] = training_dataset(recipe, name, splits.train, tokenizer)
            holdout[name] = dataset_of(recipe, task, splits.holdout, tokenizer)
            scored[name] = dataset_of(recipe, task, splits.dev, tokenizer)
        except LaminaError as error:
            raise LaminaError(of_task(name, str(error))) from None
        which = f"{name}: " if len(recipe.tasks) > 1 else ""
        to_train, held_out = (counted(kind.counts(examples)) for examples in (splits.train, splits.holdout))
        progress.say(f"{which}{to_train} in {len(train[name].windows)} windows to train on, {held_out} held out")
        for one in task.data.sets if len(task.data.sets) > 1 else ():
            to_train, held_out = (_counted_from(one.name, kind, examples) for examples in (splits.train, splits.holdout))
            copies = f", {one.repeat} copies of each" if one.repeat > 1 else ""
            held = "" if task.data.held_out is not None else f", {held_out} held out"
            progress.say(f"{which}of {one.name}: {to_train} to train on{copies}{held}")
    return TrainingData(source, tokenizer, train, holdout, scored)


def _counted_from(source: str, kind: AnyKind, examples: Sequence[Any]) -> str:
    return counted(kind.counts([example for example in examples if example.source == source]))


def dataset_of(recipe: Recipe, task: TaskOptions, examples: Sequence[Any], tokenizer: Tokenizer) -> AnyDataset:
    """Return the dataset of a task's examples, with their windows."""
    return Dataset(examples, kind_of(task).windows(examples, tokenizer, task, recipe.window))


def training_dataset(recipe: Recipe, name: str, examples: Sequence[Any], tokenizer: Tokenizer) -> AnyDataset:
    """Return the training dataset of a task. If augmentation changes the texts, it makes a new dataset for each epoch."""
    make = partial(epoch_dataset, recipe, name, examples, tokenizer)
    if not recipe.tasks[name].augment.per_epoch:
        return make(0)
    epochs = EpochCache(make)
    first = epochs.dataset(0)
    return AugmentedDataset(first.examples, first.windows, null_windows=first.null_windows, seed=first.seed, epochs=epochs)


def epoch_dataset(recipe: Recipe, name: str, examples: Sequence[Any], tokenizer: Tokenizer, epoch: int) -> AnyDataset:
    """Return the training dataset of a task in one epoch."""
    task = recipe.tasks[name]
    made, moments = kind_of(task).epoch(examples, task, recipe.train, epoch)
    windows = dataset_of(recipe, task, made, tokenizer).windows
    places = None if moments is None else np.array(moments)[windows.example]
    return Dataset(made, windows, moments=places, null_windows=task.data.null_windows, seed=recipe.train.seed)
