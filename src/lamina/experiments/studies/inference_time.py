"""Measure a run's model on its dev set: the time of its forward passes, and the weights that its mixer gives to the layers.

The time is that of the forward passes alone, without reading, decoding or writing.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from lamina.experiments.layer_weights import look_at_layers
from lamina.mixers import weighing
from lamina.model.inference import TorchInference
from lamina.runs.load import load_trained
from lamina.state_cache.dataset import Dataset
from lamina.tasks.kind import FileCache
from lamina.tasks.registry import kind_of


def mean_layer_weights(run: Path, *, examples: int) -> dict[str, Any] | None:
    """Return the mean weight of each layer at the answers of some questions; None if the mixer has no such weights.

    Args:
        run: The folder of a finished run.
        examples: The number of questions, from the first of the dev set.
    """
    trained = load_trained(run, torch.device("cpu"))
    task = trained.find_spans()
    if task is None or weighing(trained.model.task(task).mixer) is None:
        return None
    options = trained.recipe.tasks[task]
    found = look_at_layers(trained, kind_of(options).dev(options, FileCache())[:examples])
    rows: dict[str, Any] = {row.end: list(row.weights) for row in found.rows if row.type == "all" and row.at == "answer"}
    return {"layers": list(found.layers), **rows}


def inference_seconds(run: Path, *, examples: int | None = None, repeats: int = 3) -> list[float]:
    """Return the seconds of each repeated pass over the dev set, after one pass that is not counted.

    Args:
        run: The folder of a finished run.
        examples: The number of examples of each task, from the first; None for all.
        repeats: The number of passes.

    Raises:
        LaminaError: The folder is not a finished run, or its dev set cannot be read.
    """
    trained = load_trained(run, torch.device("cpu"))
    files = FileCache()
    passes = []
    for name, task in trained.recipe.tasks.items():
        kind = kind_of(task)
        chosen = kind.dev(task, files)[:examples]
        windows = kind.windows(chosen, trained.tokenizer, task, trained.recipe.window)
        passes.append((kind, TorchInference(trained.model, name), Dataset(chosen, windows)))

    def seconds() -> float:
        began = time.perf_counter()
        for kind, infer, dataset in passes:
            kind.outputs(infer, dataset)
        return time.perf_counter() - began

    seconds()
    return [seconds() for _ in range(repeats)]
