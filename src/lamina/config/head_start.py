"""Start the head of a task from a finished run (`head.start`), or a span head from a question-answering checkpoint.

The head of the run must have the same type and shapes. Its mixer is used too if the options and shapes agree; else the mixer
of the new run has random weights. The new run stores all weights of its heads and mixers. So loading it does not need the
run that it started from. A checkpoint, a folder or a hub id, has the head `qa_outputs` and no mixer.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from lamina.config.data_options import DataOptions
from lamina.config.parse import parse_recipe
from lamina.config.recipe import MAIN, Recipe, TaskOptions
from lamina.encoder import load as encoders
from lamina.encoder.files import joined_sha256, read_tensors, sha256_of, tensor_names, weight_files
from lamina.encoder.hub import download
from lamina.errors import LaminaError
from lamina.heads.sentence import SentenceHeadOptions
from lamina.model import Model, Task
from lamina.model.weights import Weights, trained_weights
from lamina.utils.files import exists, is_file
from lamina.utils.run_folder import HeadInfo, Run
from lamina.utils.shipped import model_folder

_HEAD, _MIXER = "head.", "mixer."


class Start(NamedTuple):
    """A task of the run that a head starts from, and its weights by their names in `Task`."""

    folder: Path
    files: tuple[Path, ...]  # of the weights
    task: str
    options: TaskOptions
    weights: Weights


def start_heads(recipe: Recipe, model: Model) -> dict[str, HeadInfo]:
    """Copy the weights of the runs in `head.start` into a new model. Return what was copied, by task.

    A model on the meta device is only checked.

    Raises:
        LaminaError: A folder is no finished run, its run has no such task, or its head does not fit.
    """
    found: dict[str, HeadInfo] = {}
    for name, options in recipe.tasks.items():
        if options.head.start is None:
            continue
        try:
            start = _read(options.head.start, name, allow_pickle=recipe.encoder.allow_pickle)
            found[name] = _copy(start, options, model.task(name))
        except LaminaError as error:
            raise LaminaError(f"{f'tasks.{name}.'.removeprefix(MAIN)}head.start: {error}") from None
    return found


def described(name: str, info: HeadInfo) -> str:
    """Return a line about the start of a task's head."""
    where = f"{f'tasks.{name}.'.removeprefix(MAIN)}head.start"
    reason = info.get("new_mixer")
    return f"{where}: the head of {info['run']}" + (f"; the mixer is new, because {reason}" if reason else " with its mixer")


def _read(name: str, wanted: str, *, allow_pickle: bool) -> Start:
    """Return the task of a run that has the wanted name, or its only task; or the head of a checkpoint."""
    folder = model_folder(name)
    if not exists(folder) and encoders.HUB_ID.fullmatch(name):
        folder = download(name, pretrained=True, allow_pickle=allow_pickle)
    if not Run(folder).exists and is_file(folder / "config.json"):
        return _read_checkpoint(name, folder, allow_pickle=allow_pickle)
    run = Run.open(folder)
    run.check_files()
    tasks = parse_recipe(run.read_recipe(), name=str(run.recipe)).tasks
    task = wanted if wanted in tasks else next(iter(tasks))
    if wanted not in tasks and len(tasks) > 1:
        raise LaminaError(
            f"{name}: the run has no task {wanted!r}; its tasks: {', '.join(tasks)}. Fix: give the task one of these names"
        )
    prefix = f"tasks.{task}."
    names = [one for one in tensor_names((run.model,)) if one.startswith(prefix)]
    weights = {key.removeprefix(prefix): value for key, value in read_tensors((run.model,), names)}
    return Start(folder, (run.model,), task, tasks[task], weights)


def _read_checkpoint(name: str, folder: Path, *, allow_pickle: bool) -> Start:
    """Return the span head of a question-answering checkpoint."""
    files = weight_files(folder, allow_pickle=allow_pickle)
    names = {f"qa_outputs.{kind}": f"{_HEAD}{kind}" for kind in ("weight", "bias")}
    weights = {names[key]: value.float() for key, value in read_tensors(files, names)}
    if missing := sorted(set(names.values()) - weights.keys()):
        what = f"has no trained question-answering head ({missing[0].replace(_HEAD, 'qa_outputs.')} is missing)"
        raise LaminaError(f"{name}: {what}. Fix: name a run or a checkpoint of AutoModelForQuestionAnswering")
    return Start(folder, files, "main", TaskOptions(data=DataOptions(train="")), weights)


def _copy(start: Start, options: TaskOptions, task: Task) -> HeadInfo:
    """Copy the head, and the mixer if it agrees."""
    folder = start.folder
    old, new = start.options, options
    if old.head.type != new.head.type:
        raise LaminaError(
            f'{folder}: its head is of type "{old.head.type}", not "{new.head.type}". Fix: set head.type = "{old.head.type}"'
        )
    labels = old.data.labels.classes
    if isinstance(new.head, SentenceHeadOptions) and labels != new.data.labels.classes:
        raise LaminaError(
            f"{folder}: its classes are {', '.join(labels) or 'scores'}, not {', '.join(new.data.labels.classes) or 'scores'}. "
            "Fix: set data.classes to the same classes in the same order, or leave head.start out"
        )
    if difference := _difference(start.weights, _HEAD, task.head):
        raise LaminaError(f"{folder}: its head does not fit: {difference}. Fix: use the encoder and the mixer of that run")
    checksum = joined_sha256([sha256_of(file) for file in start.files])
    info: HeadInfo = {"run": str(options.head.start), "task": start.task, "sha256": checksum}
    with torch.no_grad():
        _load(start.weights, _HEAD, task.head)
        if old.mixer != new.mixer:
            info["new_mixer"] = "its options differ"
        elif difference := _difference(start.weights, _MIXER, task.mixer):
            info["new_mixer"] = difference
        else:
            _load(start.weights, _MIXER, task.mixer)
    return info


def _difference(weights: Weights, prefix: str, module: object) -> str | None:
    """Return the first weight of a module that a run lacks, has in another shape or has besides; None if all agree."""
    assert isinstance(module, nn.Module)
    ours, known = trained_weights(module), set(module.state_dict())
    theirs = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
    for name, value in ours.items():
        if name not in theirs:
            return f"it has no {prefix}{name}"
        if theirs[name].shape != value.shape:
            return f"the shape of {prefix}{name} is {tuple(theirs[name].shape)}, not {tuple(value.shape)}"
    other = sorted(set(theirs) - known)
    return f"it has {prefix}{other[0]}" if other else None


def _load(weights: Weights, prefix: str, module: object) -> None:
    assert isinstance(module, nn.Module)
    for name, target in trained_weights(module).items():
        target.copy_(weights[prefix + name])
