"""The model that `lamina fit` starts from, as a reader to compare with and a recipe to train.

Questions start from a reader: a run, or a question-answering checkpoint. Sentences start from an encoder, whose head is first
fitted on its frozen vectors (`fitting.linear`), or from a run that has the same labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import torch
from torch import Tensor

from lamina.config.build import build_model
from lamina.config.parse import Settings, parse_recipe, settings_of
from lamina.config.recipe import Recipe, TaskOptions
from lamina.config.train_options import choose_device, fast_precision
from lamina.data.examples import Sentence
from lamina.data.labels import Labels, labels_in
from lamina.data.sentences import ColumnOptions
from lamina.encoder import load as encoders
from lamina.fitting.linear import Loss, fit_linear
from lamina.heads.sentence import CosineHead, ScaleAndShift
from lamina.model import Model
from lamina.model.inference import TOKENS
from lamina.reader.load import Reader, load
from lamina.tasks.registry import kind_of
from lamina.training.datasets import AnyDataset, TrainingData, dataset_of
from lamina.training.task_group import decisions_json
from lamina.training.trainer import write_run
from lamina.utils.files import exists, expanded
from lamina.utils.run_folder import FORMAT, Run, RunInfo, versions
from lamina.utils.shipped import READER, SHIPPED

LENGTH: Final = 256  # tokens of a sentence window, at most


class Prepared(NamedTuple):
    """The start for some training examples: a reader to compare with, and the recipe that goes on from it."""

    reader: Reader
    recipe: Recipe


class Start(Protocol):
    """A model to start from."""

    recipe: Recipe  # the settings of all trainings, without a choice of layers and epochs

    def prepare(self, train: Sequence[Any], folder: Path) -> Prepared:
        """Return the start for these training examples. What is fitted on them is written into the folder."""
        ...


# Settings


def fields_of(settings: Settings) -> dict[str, object]:
    """Return the values of settings by the name of the field, without the name of the only task. Tables become their fields.

    >>> fields_of(["tasks.main.data.holdout=0.2", "train={epochs = 1, rates = {head = 0.1}}"])
    {'data.holdout': 0.2, 'train.epochs': 1, 'train.rates.head': 0.1}
    """
    found: dict[str, object] = {}
    for name, value in settings_of(settings):
        inside = {name.strip(): value}
        if isinstance(value, Mapping):
            inside = fields_of({f"{name.strip()}.{key}": own for key, own in value.items()})
        found |= {re.sub(r"^tasks\.[^.]+\.", "", key): own for key, own in inside.items()}
    return found


def _parsed(values: dict[str, Any], settings: Settings) -> Recipe:
    """Return the recipe of a start. On a CPU it trains in the fastest precision, unless the settings name one."""
    recipe = parse_recipe(values, settings, name="fit")
    if "train.precision" in fields_of(settings) or choose_device(recipe.train.device).type != "cpu":
        return recipe
    return recipe.model_copy(update={"train": recipe.train.model_copy(update={"precision": fast_precision()})})


# Questions


@dataclass(frozen=True)
class QuestionStart:
    """A reader of questions."""

    reader: Reader
    recipe: Recipe

    def prepare(self, train: Sequence[Any], folder: Path) -> Prepared:
        return Prepared(self.reader, self.recipe)


def question_start(model: str | Path | None, settings: Settings) -> QuestionStart:
    """Return the start of questions; None for the reader inside the package."""
    name = READER if model is None else str(model)
    if name not in SHIPPED and exists(folder := expanded(name)):
        name = str(folder)
    reader = load(name, backend="torch")
    old = reader.recipe
    task = reader.trained.span_task
    options = old.tasks[task]
    values = {
        "tasks": {
            task: {
                "data": {"train": ""},
                "mixer": old.model_dump(mode="json")["tasks"][task]["mixer"],
                "head": options.head.model_dump(mode="json") | {"start": name},
                "objective": options.objective.model_dump(mode="json"),
            }
        },
        "encoder": {"model": name, "dropout": old.encoder.dropout, "attention_dropout": old.encoder.attention_dropout},
        "window": old.window.model_dump(mode="json"),
        "answer": old.answer.model_dump(mode="json"),
    }
    return QuestionStart(reader, _parsed(values, settings))


# Sentences


@dataclass(frozen=True)
class SentenceStart:
    """An encoder, or a reader of sentences with the same labels."""

    recipe: Recipe
    reader: Reader | None = None

    def prepare(self, train: Sequence[Any], folder: Path) -> Prepared:
        """Fit the head on the vectors of the frozen encoder, unless the start has a head."""
        if self.reader is not None:
            return Prepared(self.reader, self.recipe)
        run = write_linear_start(self.recipe, train, folder)
        return Prepared(load(run.path, backend="torch"), with_head(self.recipe, run.path))


def sentence_start(
    model: str | Path | None, sentences: Sequence[Sentence], columns: ColumnOptions, settings: Settings
) -> SentenceStart:
    """Return the start of sentences; None for the default encoder of `lamina train`."""
    pairs = sentences[0].second is not None
    labels = labels_in(str(sentence.label) for sentence in sentences)
    data = {
        "train": "",
        "columns": columns.model_dump(),
        "pairs": pairs,
        "scores": (labels.low, labels.high) if labels.are_scores else None,
        "classes": labels.classes or None,
    }
    values: dict[str, Any] = {"data": data, **_head(labels, pairs=pairs)}
    if model is not None:
        folder = expanded(model)
        values["encoder"] = {"model": str(folder if exists(folder) else model)}
    recipe = _parsed(values, settings)
    positions = encoders.find(recipe.encoder).config.max_length
    fits = recipe.window.model_copy(update={"length": min(LENGTH, positions)})
    recipe = recipe if "window.length" in fields_of(settings) else recipe.model_copy(update={"window": fits})
    return _with_own_head(recipe, model)


def with_head(recipe: Recipe, folder: Path) -> Recipe:
    """Return the recipe of one task whose head starts from a run."""
    ((name, task),) = recipe.tasks.items()
    head = task.head.model_copy(update={"start": str(folder)})
    return recipe.model_copy(update={"tasks": {name: task.model_copy(update={"head": head})}})


def _with_own_head(recipe: Recipe, model: str | Path | None) -> SentenceStart:
    """Return the start with the head of a run that reads sentences with the same labels; else without a head."""
    folder = None if model is None else expanded(model)
    if folder is None or not Run(folder).exists:
        return SentenceStart(recipe)
    reader = load(folder, backend="torch")
    same = [task for task in reader.recipe.tasks.values() if _same_labels(task, recipe.main)]
    if len(reader.recipe.tasks) > 1 or not same:
        return SentenceStart(recipe)
    task = recipe.main.model_copy(update={"head": same[0].head, "objective": same[0].objective, "mixer": same[0].mixer})
    (name,) = reader.recipe.tasks
    own = recipe.model_copy(update={"tasks": {name: task}, "window": reader.recipe.window})
    return SentenceStart(with_head(own, folder), reader)


def _same_labels(one: TaskOptions, other: TaskOptions) -> bool:
    labels = one.data.labels == other.data.labels
    return one.head.kind == other.head.kind and labels and one.data.pairs == other.data.pairs


def _head(labels: Labels, *, pairs: bool) -> dict[str, Any]:
    """Return the head that fits the labels. Two classes of pairs are compared by their cosine, as scores are."""
    if not pairs:
        return {"head": {"type": "regression" if labels.are_scores else "classification"}}
    if labels.are_scores:
        return {"head": {"type": "cosine"}, "objective": {"type": "mse"}}
    return {"head": {"type": "cosine" if len(labels.classes) == 2 else "concatenation"}}


def write_linear_start(recipe: Recipe, sentences: Sequence[Any], folder: Path) -> Run:
    """Write a run whose encoder is that of the recipe, and whose head is fitted on the vectors of the sentences.

    A cosine that is compared with scores has nothing to fit.
    """
    frozen = recipe.model_copy(
        update={
            "tune": recipe.tune.model_copy(update={"layers": 0, "adapters": None, "lora": None, "norms": False}),
            "train": recipe.train.model_copy(update={"epochs": 0.0, "minutes": None}),
        }
    )
    ((name, task),) = frozen.tasks.items()
    source = encoders.find(recipe.encoder)
    tokenizer = encoders.load_tokenizer(source)
    model = build_model(frozen, encoders.load(source)).eval()
    _fit_head(model, name, task, dataset_of(frozen, task, sentences, tokenizer))
    info: RunInfo = {
        "format": FORMAT,
        "versions": versions(),
        "seed": recipe.train.seed,
        "encoder": {"name": source.name, "sha256": encoders.digest(source)},
        "tasks": decisions_json({name: kind_of(task).decision()}),
    }
    write_run(Run(folder), frozen, TrainingData(source, tokenizer, {}, {}, {}), model, info)
    return Run(folder)


def _fit_head(model: Model, name: str, task: TaskOptions, dataset: AnyDataset) -> None:
    """Fit the last linear map of a head in place."""
    head, labels = model.task(name).head, task.data.labels
    numbers = torch.from_numpy(dataset.windows.labels).double()
    shares = (numbers - labels.low) / (labels.high - labels.low) if labels.are_scores else numbers
    if isinstance(head, CosineHead):
        if isinstance(head.turn, ScaleAndShift) and task.objective.type == "binary_cross_entropy":
            found = fit_linear(_inputs(model, name, head.turn, dataset)[:, None], shares, "similar")
            with torch.no_grad():
                head.turn.scale.copy_(found.weight[0, 0])
                head.turn.shift.copy_(found.bias[0])
        return
    linear = head.read.linear  # type: ignore[attr-defined]  # all other heads of sentences have it
    loss: Loss = "scores" if labels.are_scores else "classes"
    found = fit_linear(_inputs(model, name, linear, dataset), shares, loss, linear.out_features)
    with torch.no_grad():
        linear.weight.copy_(found.weight)
        linear.bias.copy_(found.bias)


def _inputs(model: Model, name: str, module: torch.nn.Module, dataset: AnyDataset) -> Tensor:
    """Return what a module of the head reads, one row per item: [I, D], or [I] of a cosine."""
    seen: list[Tensor] = []
    hook = module.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
    count = dataset.windows.items
    rows = max(1, TOKENS // max(1, int(dataset.windows.item_lengths.max(initial=1))))
    try:
        with torch.no_grad():
            for first in range(0, count, rows):
                model(dataset.batch(range(first, min(first + rows, count))), name)
    finally:
        hook.remove()
    return torch.cat(seen)
