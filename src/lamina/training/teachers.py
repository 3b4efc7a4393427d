"""Find the teachers of a recipe (`terms.teacher`), check that they fit, and store their outputs before the first step.

A teacher reads the windows of the student, so it needs the same tokenizer and enough positions. It runs once over the training
split, in eval mode and in float32. The outputs are stored in float32 too: two numbers for each token take about a hundredth of
the space of stored states. Equal weights and equal windows share a store, also between ensembles.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from lamina.config.recipe import Recipe, TaskOptions
from lamina.data.batches import make_batch
from lamina.data.examples import Example
from lamina.data.labels import Labels
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import WindowOptions, Windows, make_windows
from lamina.encoder.blocks import EncoderConfig
from lamina.encoder.load import EncoderOptions
from lamina.errors import LaminaError
from lamina.heads.sentence import SentenceHeadOptions
from lamina.objectives.teacher import taught_values
from lamina.runs.load import Trained, load_trained
from lamina.state_cache.extract import add_weights, gathered
from lamina.state_cache.store import Contents, Store, open_store
from lamina.tasks.checks import of_task
from lamina.training.datasets import AnyDataset, TrainingData
from lamina.utils.arrays import Longs
from lamina.utils.progress import Progress
from lamina.utils.run_folder import TeacherInfo

CPU = torch.device("cpu")


@dataclass(frozen=True)
class FoundTeacher:
    """A teacher that fits its student. Its weights are not in memory."""

    name: str  # as in the recipe
    task: str  # in its own recipe
    fingerprint: str  # of its weights and options
    config: EncoderConfig
    positions: Literal["tokens", "cls"]  # whether it has outputs for each token of a window, or for each item
    width: int  # numbers of a token or item

    def contents(self, windows: Windows, data: str = "") -> Contents:
        """Return the contents of the store of its outputs."""
        return Contents(
            weights=self.fingerprint,
            windows=windows.fingerprint,
            layers=(),
            hidden=self.width,
            positions=self.positions,
            dtype="float32",
            model=self.name,
            data=data,
        )

    def starts(self, windows: Windows) -> Longs:
        """Return where the outputs of each window, or of each item, begin in the store."""
        return windows.starts if self.positions == "tokens" else np.arange(windows.items + 1)


Teachers = Mapping[str, Sequence[FoundTeacher]]  # by task; only tasks with teachers
NO_TEACHERS: Teachers = MappingProxyType({})


def find_teachers(recipe: Recipe, tokenizer: Tokenizer) -> Teachers:
    """Return the teachers of each task of a resolved recipe. `tokenizer` is the student's.

    Raises:
        LaminaError: A teacher cannot be loaded, or it does not fit its student.
    """
    found: dict[str, list[FoundTeacher]] = {}
    for name, task in recipe.tasks.items():
        options = task.terms.teacher
        if options is None or not options.weight:
            continue
        try:
            found[name] = [_find(run, recipe, name, tokenizer) for run in options.runs]
        except LaminaError as error:
            raise LaminaError(of_task(name, f"terms.teacher.runs: {error}")) from None
    return found


def described_teachers(teachers: Teachers) -> dict[str, list[TeacherInfo]]:
    """Return the teachers in the format of run.json."""
    return {
        name: [{"run": one.name, "task": one.task, "sha256": one.fingerprint} for one in found]
        for name, found in teachers.items()
    }


def with_teachers(
    recipe: Recipe, teachers: Teachers, data: TrainingData, device: torch.device, progress: Progress
) -> TrainingData:
    """Return the data with the stored outputs of the teachers on the training splits; compute what is missing."""
    train: dict[str, AnyDataset] = dict(data.train)
    for name, found in teachers.items():
        dataset, source = train[name], recipe.tasks[name].data.train_name
        stores = []
        for teacher in found:
            progress.say(of_task(name, f"terms.teacher: the outputs of {teacher.name}"))
            load = partial(load_trained, teacher.name, device, allow_pickle=recipe.encoder.allow_pickle)
            stores.append(_stored(teacher, dataset.windows, source, load, progress))
        train[name] = replace(dataset, teachers=stores)
    return replace(data, train=train)


def _stored(teacher: FoundTeacher, windows: Windows, data: str, load: partial[Trained], progress: Progress) -> Store:
    """Return the store of a teacher's outputs. The teacher is loaded only if some are missing."""
    contents, starts = teacher.contents(windows, data), teacher.starts(windows)
    lengths = windows.lengths if teacher.positions == "tokens" else windows.item_lengths
    loaded: list[Trained] = []

    def extract(rows: Longs) -> Tensor:
        if not loaded:
            loaded.append(load())
        model = loaded[0].model
        device = next(model.parameters()).device

        def outputs_of(some: Longs) -> Tensor:
            batch = make_batch(windows, some if teacher.positions == "tokens" else windows.windows_of(some)).to(device)
            values = taught_values(model(batch, teacher.task))  # [R, T, 2] or [I, C]
            return values.unsqueeze(2) if teacher.positions == "tokens" else values[:, None, None]

        return gathered(rows, compute=outputs_of, counts=np.diff(starts), lengths=lengths, contents=contents, device=device)

    return open_store(contents, starts, extract, progress=progress)


def _find(run: str, recipe: Recipe, name: str, tokenizer: Tokenizer) -> FoundTeacher:
    """Load a teacher, check it and return its description."""
    trained = load_trained(run, CPU, allow_pickle=recipe.encoder.allow_pickle)
    task = _task_of(run, trained.recipe, name)
    config = trained.model.encoder.config
    _check_head(run, trained.recipe.tasks[task], recipe.tasks[name])
    if trained.tokenizer.definition != tokenizer.definition:
        theirs, ours = (_tokenizer_name(options) for options in (trained.recipe.encoder, recipe.encoder))
        raise LaminaError(
            f"{run}: its tokenizer is that of {theirs}, which differs from that of {ours}, so it cannot read these windows. "
            "Fix: name teachers with the tokenizer of encoder.model"
        )
    if recipe.window.length > config.max_length:
        raise LaminaError(
            f"{run}: has {config.max_length} positions, but window.length is {recipe.window.length}. "
            f"Fix: set window.length to at most {config.max_length}, or name another teacher"
        )
    positions, width = _shape(trained, task)
    return FoundTeacher(run, task, _fingerprint(trained, task), config, positions, width)


def _task_of(run: str, recipe: Recipe, wanted: str) -> str:
    """Return the task of a teacher that has the student's name, or its only task."""
    if wanted in recipe.tasks:
        return wanted
    if len(recipe.tasks) > 1:
        raise LaminaError(
            f"{run}: the run has no task {wanted!r}; its tasks: {', '.join(recipe.tasks)}. "
            "Fix: give the task one of these names"
        )
    return next(iter(recipe.tasks))


def _check_head(run: str, teacher: TaskOptions, student: TaskOptions) -> None:
    """Raise LaminaError if the outputs of a teacher have another meaning than those of its student."""
    sentences = isinstance(student.head, SentenceHeadOptions)
    if teacher.head.kind != student.head.kind or (sentences and teacher.head.type != student.head.type):
        raise LaminaError(
            f'{run}: its head is of type "{teacher.head.type}", not "{student.head.type}". '
            f'Fix: name runs with a head of type "{student.head.type}"'
        )
    if sentences and teacher.data.labels != student.data.labels:
        raise LaminaError(
            f"{run}: its labels are {_shown(teacher.data.labels)}, not {_shown(student.data.labels)}. "
            "Fix: set data.classes or data.scores to the same labels in the same order"
        )


def _shown(labels: Labels) -> str:
    return f"scores from {labels.low:g} to {labels.high:g}" if labels.are_scores else ", ".join(labels.classes)


def _tokenizer_name(options: EncoderOptions) -> str:
    return options.tokenizer or options.model


def _shape(trained: Trained, task: str) -> tuple[Literal["tokens", "cls"], int]:
    """Return the kind of positions and the width of a teacher's outputs, from its outputs for one short text."""
    head = trained.recipe.tasks[task].head
    sides = head.sides if isinstance(head, SentenceHeadOptions) else 1
    windows = make_windows([Example("", "a", "a", (), "", "")], trained.tokenizer, WindowOptions())
    batch = replace(make_batch(windows, [0] * sides), sides=sides)
    with torch.inference_mode():
        values = taught_values(trained.model(batch, task))  # [1, T, 2] or [1, C]
    return "tokens" if values.ndim == 3 else "cls", values.shape[-1]


def _fingerprint(trained: Trained, task: str) -> str:
    """Return a checksum of all that the outputs of a teacher depend on, besides the windows.

    Teachers run in eval mode, without dropout. Their weights are those after training, whatever their heads started from.
    """
    options = trained.recipe.tasks[task]
    head = options.head.model_dump(mode="json", exclude={"start"})
    parts = [part.model_dump(mode="json") for part in (options.mixer, trained.recipe.tune)]
    shape = _without_dropout([trained.model.encoder.config.to_json(), head, *parts])
    digest = hashlib.sha256(json.dumps(["outputs", shape], sort_keys=True).encode())
    for module in (trained.model.encoder, trained.model.task(task)):
        add_weights(digest, module)
    return digest.hexdigest()


def _without_dropout(value: Any) -> Any:
    """Return JSON values without the fields of dropout.

    >>> _without_dropout([{"hidden": 8, "attention_dropout": 0.1}, {"lora": {"rank": 2, "dropout": 0.1}}])
    [{'hidden': 8}, {'lora': {'rank': 2}}]
    """
    if isinstance(value, dict):
        return {key: _without_dropout(own) for key, own in value.items() if not key.endswith("dropout")}
    return [_without_dropout(own) for own in value] if isinstance(value, list) else value
