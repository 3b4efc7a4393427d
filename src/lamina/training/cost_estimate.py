"""Estimate the parameters, memory, work and time of a recipe before training it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NotRequired, TypedDict

import torch

from lamina.config.recipe import Recipe
from lamina.config.train_options import TrainOptions
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import Windows
from lamina.encoder import load as encoders
from lamina.encoder.blocks import EncoderConfig
from lamina.encoder.freezing import trains
from lamina.errors import LaminaError
from lamina.model import Model
from lamina.objectives.smart import trained_by
from lamina.tasks.checks import build_on_meta, resolved
from lamina.tasks.kind import FileCache
from lamina.tasks.registry import kind_of
from lamina.training.datasets import dataset_of, epoch_dataset
from lamina.training.schedules import share_of_peak
from lamina.training.store_policy import not_storable, stored_bytes
from lamina.training.teachers import FoundTeacher, Teachers, find_teachers
from lamina.utils.arrays import Longs
from lamina.utils.files import read_json

USUAL_SHARE_OF_PEAK = 0.85  # benchmarks/train_throughput.py requires this share of the loop


class Parameters(TypedDict):
    total: int
    trainable: int
    by_part: dict[str, int]
    trainable_by_part: dict[str, int]


class StoreCost(TypedDict):
    layers: list[int]
    dtype: str
    gb: float
    fits: bool  # into cache.max_gb


class TeachersCost(TypedDict):
    runs: int
    gb: float  # of stored outputs
    flops: float  # once, before the first step


class TrainingCost(TypedDict):
    questions: int  # or sentences
    windows: int  # to train on in an epoch
    tokens_per_epoch: int
    store: StoreCost | None
    teachers: TeachersCost | None
    epochs: float | None  # None: no layer is computed in an epoch, so a time budget allows any number
    flops: float
    estimated_minutes: float


class CostReport(TypedDict):
    parameters: Parameters
    efficiency: NotRequired[float]
    training: TrainingCost | None  # None: the data could not be read
    note: NotRequired[str]  # the reason, if training is None
    memory_mb: int
    schedule: NotRequired[list[dict[str, float]]]


def inspect(recipe: Recipe, f1: float | None = None) -> CostReport:
    """Return the parameters, work, memory and time of a recipe; it loads no weights but those of teachers.

    `training` is None if the data cannot be read; `note` then has the reason. `f1`, the F1 that the recipe reached, adds its
    efficiency.
    """
    files = FileCache()
    with suppress(LaminaError):  # the recipe may already have the fields that are read from the data
        recipe = resolved(recipe, files)
    model = build_on_meta(recipe)
    teachers = _teachers(recipe)
    report: CostReport = {
        "parameters": count_parameters(model),
        "training": None,
        "memory_mb": round(_memory_bytes(model, recipe) / 1e6),
    }
    if f1 is not None:
        report["efficiency"] = round(efficiency(f1, report["parameters"]["trainable"]), 2)
    try:
        report["training"] = _training(recipe, model, teachers, files)
    except LaminaError as error:
        report["note"] = f"the work cannot be estimated: {error}"
    return report


def count_parameters(model: Model) -> Parameters:
    """Return the number of parameters in total and by module. Running statistics of batch norms count as not trainable."""
    by_part: dict[str, int] = {}
    trainable_by_part: dict[str, int] = {}
    numbers = [*model.named_parameters(), *((n, b) for n, b in model.named_buffers() if b.is_floating_point())]
    for name, value in numbers:
        part = ".".join(name.split(".")[:2] if name.startswith("encoder.") else name.split(".")[1:3])
        by_part[part] = by_part.get(part, 0) + value.numel()
        if value.requires_grad:
            trainable_by_part[part] = trainable_by_part.get(part, 0) + value.numel()
    return {
        "total": sum(by_part.values()),
        "trainable": sum(trainable_by_part.values()),
        "by_part": by_part,
        "trainable_by_part": trainable_by_part,
    }


def efficiency(f1: float, parameters: int) -> float:
    """Return the F1 points above 50 for each power of ten of parameters (paper 003).

    >>> round(efficiency(76.3, 108_311_810), 2)
    3.27
    """
    return (f1 - 50) / math.log10(parameters)


def f1_beside(recipe: Path) -> float | None:
    """Return the F1 at the tuned threshold of the run that a recipe.json belongs to; None if the run has no scores."""
    scores = recipe.with_name("scores.json")
    if recipe.name != "recipe.json" or not scores.is_file():
        return None
    f1 = read_json(scores).get("tuned", {}).get("f1")
    return None if f1 is None else float(f1)


def schedule_points(options: TrainOptions, epochs: float, count: int = 65) -> list[dict[str, float]]:
    """Return the learning rate at `count` evenly spaced points of a run, from its beginning to its end."""
    moments = [number / (count - 1) for number in range(count)]
    return [{"progress": moment, "lr": options.lr * share_of_peak(options, moment, epochs)} for moment in moments]


def layer_flops(config: EncoderConfig, length: int) -> float:
    """Return the floating-point operations of one block for one token of a window of `length`. Only products count."""
    weights = 4 * config.hidden**2 + 2 * config.hidden * config.intermediate
    return 2 * weights + 4 * length * config.hidden


def _flops_of_layer(config: EncoderConfig, lengths: Longs) -> float:
    """Return the work of one layer on windows of these lengths."""
    return float(sum(layer_flops(config, int(length)) * int(length) for length in lengths))


def _teachers(recipe: Recipe) -> Teachers:
    """Return the teachers of a recipe. Without any, no tokenizer is read."""
    if recipe.train.untrained or not any(task.terms.teacher for task in recipe.tasks.values()):
        return {}
    return find_teachers(recipe, Tokenizer(encoders.find(recipe.encoder, counting=True).tokenizer))


def _training(recipe: Recipe, model: Model, teachers: Teachers, files: FileCache) -> TrainingCost:
    source = encoders.find(recipe.encoder, counting=True)
    tokenizer = Tokenizer(source.tokenizer)
    live = once = below = 0.0
    size = questions = windows = tokens = 0
    taught: list[TeachersCost] = []
    reason = not_storable(recipe, model)
    for name, task in recipe.tasks.items():
        kind = kind_of(task)
        splits = kind.splits(task, recipe.train.seed, files, dev=recipe.cache.dev)
        dataset = epoch_dataset(recipe, name, splits.train, tokenizer, 0)
        train, used = dataset.windows, dataset.windows.windows_of(dataset.usable())
        holdout, dev = (dataset_of(recipe, task, some, tokenizer).windows for some in (splits.holdout, splits.dev))
        layer, whole = (_flops_of_layer(source.config, lengths) for lengths in (train.lengths[used], train.lengths))
        trained, blocks, frozen = _passes(model, name)
        extra = task.terms.extra
        live += ((1 + extra.passes) * trained + extra.forwards * blocks) * layer
        once += frozen * (whole + _flops_of_layer(source.config, dev.lengths))
        taught.append(_teachers_cost(teachers.get(name, ()), train))
        below += (1 + extra.passes + extra.forwards) * frozen * layer  # if the frozen blocks run in every epoch
        if reason is None:
            size += sum(stored_bytes(recipe, model, split, name) for split in (train, holdout, dev))
        questions += next(iter(kind.counts(splits.train).values()))
        windows += len(used)
        tokens += int(train.lengths[used].sum())
    store = _store_cost(recipe, model, size) if reason is None else None
    if store is None or not store["fits"]:
        live, once = live + below, 0.0
    once += sum(cost["flops"] for cost in taught)
    rate = USUAL_SHARE_OF_PEAK * matmul_peak()
    epochs = recipe.train.epochs
    if recipe.train.minutes is not None:
        epochs = max(0.0, 60 * recipe.train.minutes * rate - once) / live if live else math.inf
    flops = once + epochs * live if live else once
    return {
        "questions": questions,
        "windows": windows,
        "tokens_per_epoch": tokens,
        "store": store,
        "teachers": _sum(taught) if teachers else None,
        "epochs": round(epochs, 2) if math.isfinite(epochs) else None,
        "flops": flops,
        "estimated_minutes": round(flops / rate / 60, 1),
    }


def _store_cost(recipe: Recipe, model: Model, size: int) -> StoreCost:
    return {
        "layers": sorted({layer for name in recipe.tasks for layer in model.stored_layers(name)}),
        "dtype": recipe.cache.dtype,
        "gb": round(size / 1e9, 3),
        "fits": size <= recipe.cache.max_gb * 1e9,
    }


def _teachers_cost(teachers: Sequence[FoundTeacher], windows: Windows) -> TeachersCost:
    """Return the cost of the teachers of one task."""
    size = sum(one.contents(windows).bytes(int(one.starts(windows)[-1])) for one in teachers)
    flops = sum(one.config.layers * _flops_of_layer(one.config, windows.lengths) for one in teachers)
    return {"runs": len(teachers), "gb": size / 1e9, "flops": float(flops)}


def _sum(costs: Sequence[TeachersCost]) -> TeachersCost:
    """Return the cost of the teachers of all tasks."""
    return {
        "runs": sum(cost["runs"] for cost in costs),
        "gb": round(sum(cost["gb"] for cost in costs), 3),
        "flops": sum(cost["flops"] for cost in costs),
    }


def _passes(model: Model, task: str) -> tuple[int, int, int]:
    """Return the work of an epoch above the cut (in forward passes of one block), and the blocks above and below it."""
    top = max(model.stored_layers(task, cut=model.encoder.config.layers))  # no layer above it is computed
    frozen = min(top, max(0, model.encoder.cut))
    above = model.encoder.layers[frozen:top]
    return sum(3 if trains(block) else 2 for block in above), len(above), frozen  # the third is the weights' gradients


def matmul_peak(size: int = 1536, repeats: int = 5) -> float:
    """Measure the floating-point operations per second of a large matrix product on this machine."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = math.inf
    for _ in range(repeats):
        began = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best


def _memory_bytes(model: Model, recipe: Recipe) -> float:
    """Return the bytes of weights, gradients and two moments in float32, copies of loss terms, and activations."""
    config = model.encoder.config
    activations = (config.layers - max(0, model.encoder.cut)) * (8 * config.hidden + 2 * config.intermediate)  # per token
    tokens = min(recipe.train.memory_tokens, recipe.train.batch_tokens if recipe.train.batch_windows is None else math.inf)
    stored = sum(p.numel() for p in model.parameters()) + 3 * sum(p.numel() for p in model.parameters() if p.requires_grad)
    for name, task in recipe.tasks.items():
        stored += task.terms.extra.copies * sum(value.numel() for value in trained_by(model, name).values())
    at_once = 1 + max(min(1, task.terms.extra.passes) for task in recipe.tasks.values())
    return 4.0 * (stored + at_once * activations * tokens)
