"""Recipe -> what a run is made from: the encoder's files, and each task's parts to train on, to choose by and to score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np

from lamina.augment.per_epoch import rewrite
from lamina.config.recipe import DataOptions, Recipe, TaskOptions
from lamina.data.examples import Example, Sentence
from lamina.data.labels import labels_in
from lamina.data.sentence_windows import make_sentence_windows
from lamina.data.sources import load_examples, load_sentences
from lamina.data.splits import (
    choose_contexts,
    counted,
    every,
    first_questions,
    hold_out_articles,
    hold_out_sentences,
    per_class,
    questions_of,
    sample,
    sample_questions,
    without_unseen,
)
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import Windows, make_windows
from lamina.encoder import load as encoders
from lamina.encoder.load import load_tokenizer
from lamina.errors import LaminaError
from lamina.state_cache.dataset import Part, Rewritten, Writer
from lamina.utils.progress import Progress

AnyPart = Part[Any]  # of questions or of sentences


@dataclass(frozen=True)
class Material:
    """What a run is made from, for each task."""

    source: encoders.Source
    tokenizer: Tokenizer
    training: Mapping[str, AnyPart]
    holdout: Mapping[str, AnyPart]
    dev: Mapping[str, AnyPart]

    def with_stores(self, training: Mapping[str, AnyPart], holdout: Mapping[str, AnyPart]) -> Material:
        return replace(self, training=training, holdout=holdout)


def prepare(recipe: Recipe, progress: Progress, *, dev: bool = True) -> Material:
    """Everything is read before training: a mistake in a dev set should not wait for its end. Without `dev`, no dev set is
    looked at."""
    source = encoders.find(recipe.encoder)
    tokenizer = load_tokenizer(source)
    training, holdout, scored = dict[str, AnyPart](), dict[str, AnyPart](), dict[str, AnyPart]()
    for name, task in recipe.tasks.items():
        progress.say(f"reading {task.data.train}")
        learned, held_out = split(task, recipe.train.seed)
        try:
            training[name] = training_part(recipe, name, learned, tokenizer)
            holdout[name], scored[name] = (
                Part(examples, cut(recipe, task, examples, tokenizer)) for examples in (held_out, dev_of(task) if dev else [])
            )
        except LaminaError as error:
            raise LaminaError(str(error) if name == "main" else f"tasks.{name}: {error}") from None
        told = f"{len(learned)} sentences" if task.of_sentences else counted(learned)
        windows = f"{len(training[name].windows)} windows"
        kept = f"{len(held_out)} held out" if task.of_sentences else f"{counted(held_out)} held out by article"
        which = f"{name}: " if len(recipe.tasks) > 1 else ""
        progress.say(f"{which}{told} in {windows} to train on, {kept}")
    return Material(source, tokenizer, training, holdout, scored)


def training_part(recipe: Recipe, name: str, examples: Sequence[Any], tokenizer: Tokenizer) -> AnyPart:
    """What a task trains on; where its texts are made anew for each pass over them, that of the first, and how to go on."""
    write = partial(write_lap, recipe, name, examples, tokenizer)
    if not recipe.tasks[name].augment.by_lap:
        return write(0)
    writer = Writer(write)
    first = writer.part(0)
    return Rewritten(first.examples, first.windows, writer=writer)


def write_lap(recipe: Recipe, name: str, examples: Sequence[Any], tokenizer: Tokenizer, lap: int) -> AnyPart:
    """What a task trains on in a pass over its data."""
    task, train = recipe.tasks[name], recipe.train
    if task.of_sentences:
        return Part(examples, cut(recipe, task, examples, tokenizer))
    made, moments = rewrite(examples, task.augment, seed=train.seed, lap=lap, epochs=train.epochs)
    windows = cut(recipe, task, made, tokenizer)
    return Part(made, windows, moments=None if moments is None else np.array(moments)[windows.example])


def resolved(recipe: Recipe) -> Recipe:
    """The recipe with what it does not say of its sentences as found in their training files: labels, and whether a row is
    a pair of texts."""
    tasks = {
        name: task.model_copy(update={"data": _with_labels(task.data)}) if task.of_sentences else task
        for name, task in recipe.tasks.items()
    }
    return recipe.model_copy(update={"tasks": tasks})


def _with_labels(data: DataOptions) -> DataOptions:
    known = data.classes is not None or data.scores is not None
    if known and data.pairs is not None:
        return data
    sentences = _sentences(data, data.train)
    found: dict[str, Any] = {"pairs": sentences[0].second is not None}
    if not known:
        labels = labels_in(cast(str, sentence.label) for sentence in sentences)
        if not labels.are_scores and not 2 <= len(labels.classes) <= max(2, len(sentences) // 3):
            one = len(labels.classes) == 1
            what = f"all labels are {labels.classes[0]!r}" if one else f"there are {len(labels.classes)} different labels"
            raise LaminaError(f"{data.train}: {what}: name the column of the labels with data.columns.label")
        found |= {"scores": (labels.low, labels.high)} if labels.are_scores else {"classes": labels.classes}
    return data.model_copy(update=found)


def split(task: TaskOptions, seed: int) -> tuple[list[Any], list[Any]]:
    """(to train on, held out). The fraction is taken of the former alone, so that fractions share their held-out part; so
    are the contexts of a question, because the threshold is tuned for all that a question may have."""
    data = task.data
    if task.of_sentences:
        sentences = _sentences(data, data.train)
        if data.dev_every is not None:
            sentences, _ = every(sentences, data.dev_every)
        left, held_out = hold_out_sentences(sample(sentences, data.questions, seed), data.holdout, seed)
        chosen = per_class(left, data.per_class, seed)
        return sample(chosen, _share(data.fraction, len(chosen)), seed), held_out
    examples = sample_questions(load_examples(data.train, duplicate_ids=data.duplicate_ids), data.questions, seed)
    kept, held_out_examples = hold_out_articles(examples, data.holdout, seed)
    kept = choose_contexts(without_unseen(kept, held_out_examples), data.contexts, data.choose, seed)
    return sample_questions(kept, _share(data.fraction, len(questions_of(kept))), seed), held_out_examples


def _share(share: float, count: int) -> int:
    return max(1, round(share * count))


def dev_of(task: TaskOptions) -> Sequence[Any]:
    """What the task is scored on; nothing where the recipe names nothing."""
    data = task.data
    if data.dev_every is not None:
        return every(_sentences(data, data.train), data.dev_every)[1][: data.dev_questions]
    if data.dev is None:
        return []
    if task.of_sentences:
        return _sentences(data, data.dev)[: data.dev_questions]
    return first_questions(load_examples(data.dev, duplicate_ids=data.duplicate_ids), data.dev_questions)


def cut(recipe: Recipe, task: TaskOptions, examples: Sequence[Any], tokenizer: Tokenizer) -> Windows:
    """The windows of a task's questions or sentences."""
    if not task.of_sentences:
        return make_windows(cast(Sequence[Example], examples), tokenizer, recipe.window)
    sentences = cast(Sequence[Sentence], examples)
    return make_sentence_windows(
        sentences, tokenizer, task.data.labels, length=recipe.window.length, sides=cast(Any, task.head).sides
    )


def _sentences(data: DataOptions, name: str) -> list[Sentence]:
    return load_sentences(name, data.columns, skip_broken=data.skip_broken, known_labels=data.classes is not None)
