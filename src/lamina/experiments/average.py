"""Average the weights of finished runs of one recipe into a new run (a model soup), which costs no more to use than one.

Paper: Wortsman et al. 2022, the uniform soup. Runs that begin with the same pretrained weights end near each other, so their
mean can work. For encoders with random first weights this is not expected. The checkpoints of one run (`train.checkpoints`)
are runs too: their mean is stochastic weight averaging (Izmailov et al. 2018).

Checkpoints of one run, and runs of one seed, have the same held-out split. Thresholds and calibrations are fitted on it if the
training data are unchanged. Runs of several seeds have no common held-out split: each was trained on articles that others
held out. Then the threshold for "no answer" is 0 and confidences are not calibrated, unless `data` names questions that no
member was trained on. Questions of the dev set and of the training data are rejected: a threshold fitted on them would give
scores that are too good.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from lamina.config.differences import first_difference
from lamina.config.parse import parse_recipe
from lamina.config.recipe import Recipe, TaskOptions
from lamina.config.train_options import choose_device
from lamina.data.tokenizer import Tokenizer
from lamina.errors import LaminaError, LaminaWarning, first_line
from lamina.model.weights import load_weights, trained_weights
from lamina.runs.load import load_trained
from lamina.tasks.kind import AnyKind, FileCache
from lamina.tasks.registry import kind_of
from lamina.training.datasets import AnyDataset, dataset_of
from lamina.training.task_group import Decisions, TaskGroup, decisions_json
from lamina.utils.files import check_new, read_bytes, replacing
from lamina.utils.new_folders import new_folder
from lamina.utils.progress import Progress, Silent
from lamina.utils.run_folder import FORMAT, AverageInfo, EncoderInfo, Run, RunInfo, versions

_FIX = "write the average into a new folder"
_BATCHES = "num_batches_tracked"  # differs between seeds: they hold out different articles, so their steps differ
_OF_THE_MACHINE = ("seed", "threads", "device", "checkpoint_minutes")  # fields of `train` in which members may differ


def average(
    runs: Sequence[Path],
    out: Path,
    *,
    data: str | None = None,
    progress: Progress | None = None,
    allow_pickle: bool = False,
) -> Run:
    """Write the mean of finished runs as the new run folder `out`, score it on the recipe's dev set, and return it.

    The runs must have the same recipe apart from the seed. `data` names questions (or sentences) to fit thresholds on.
    `allow_pickle` is as for `lamina.load`.
    """
    progress = progress or Silent()
    if not runs:
        raise LaminaError("runs: an average needs runs. Fix: name at least one")
    check_new(out, _FIX)
    members = [Run.open(path) for path in runs]
    for member in members:
        member.check_files()
        if member.read_info().get("weights") == "int8":
            what = "its weights are packed in 8 bits, and packed models cannot be averaged"
            raise LaminaError(f"{member.path}: {what}. Fix: average the runs before they are packed")
    recipe = _same_recipe(members)
    weights = mean_weights([member.model for member in members])
    progress.say(f"averaging {len(members)} runs, {len(weights)} weights each")
    device = choose_device(recipe.train.device)
    trained = load_trained(members[0].path, device, allow_pickle=allow_pickle)
    if weights.keys() == trained_weights(trained.model).keys():  # the run folders leave out frozen weights
        load_weights(trained.model, weights)
    else:
        trained.model.load_state_dict(weights)
    infos = [member.read_info() for member in members]
    seeds = sorted({seed for info in infos for seed in _seeds(info)})
    unseen, dev = _datasets(recipe, trained.tokenizer, infos, data, seeds)
    group = TaskGroup(recipe, trained.tokenizer)
    decisions = group.fit(trained.model, unseen)
    fitted_on = data or ("the held-out split" if any(dataset.examples for dataset in unseen.values()) else None)
    with new_folder(out, _FIX) as draft:
        group.score(Run(draft), trained.model, dev, decisions, progress)
        _write(Run(draft), members, weights, decisions, {"seeds": seeds, "fitted_on": fitted_on})
    return Run(out)


def _datasets(
    recipe: Recipe, tokenizer: Tokenizer, infos: Sequence[RunInfo], data: str | None, seeds: Collection[int]
) -> tuple[dict[str, AnyDataset], dict[str, AnyDataset]]:
    """Return for each task the dataset to fit the decision on, and the dev set."""
    fingerprints = [info.get("windows", [])[len(recipe.tasks) :] for info in infos]  # those of the training splits are first
    same = all(found == fingerprints[0] for found in fingerprints)
    held_out = dict(zip(recipe.tasks, fingerprints[0], strict=False)) if same else {}
    unseen, dev = dict[str, AnyDataset](), dict[str, AnyDataset]()
    files = FileCache()
    for name, task in recipe.tasks.items():
        unseen[name], dev[name] = (
            dataset_of(recipe, task, examples, tokenizer)
            for examples in (_to_fit_on(recipe, task, data, seeds, files), _dev(task, files))
        )
        if data is None and unseen[name].examples and unseen[name].windows.fingerprint != held_out.get(name):
            changed = f"{task.data.held_out or task.data.train_name}: changed since some of these runs were trained"
            warnings.warn(f"{changed}, so the threshold is 0. Fix: name other data with --data", LaminaWarning, stacklevel=3)
            unseen[name] = dataset_of(recipe, task, [], tokenizer)
    return unseen, dev


def _dev(task: TaskOptions, files: FileCache) -> Sequence[Any]:
    """Return the examples of the dev set."""
    return kind_of(task).dev(task, files)


def _seeds(info: RunInfo) -> list[int]:
    """Return the seeds that a run was trained with; an average can have several."""
    average: AverageInfo = info.get("average", {})
    return [info["seed"], *average.get("seeds", ()), *(member["seed"] for member in average.get("members", ()))]


def mean_weights(files: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of weights with the same names and shapes, in their own type. It is computed in double precision.

    Whole numbers are not averaged and must be equal, except the number of batches of a norm: that is the greatest of them.
    """
    opened = [_open(file) for file in files]
    names = [set(file.keys()) for file in opened]
    for file, own in zip(files, names, strict=True):
        if odd := sorted(own ^ names[0]):
            raise LaminaError(f"{file}: {odd[0]} is not in both this file and {files[0]}. Fix: average runs of one recipe")
    return {name: _mean(name, [file.get_tensor(name) for file in opened], files) for name in sorted(names[0])}


def _mean(name: str, values: Sequence[Tensor], files: Sequence[Path]) -> Tensor:
    first, counts = values[0], name.endswith(_BATCHES)
    for file, value in zip(files, values, strict=True):
        if value.shape != first.shape or value.dtype != first.dtype:
            raise LaminaError(
                f"{file}: {name} is {_shape(value)}, but {_shape(first)} in {files[0]}. Fix: average runs of one recipe"
            )
        if not first.is_floating_point() and not counts and not torch.equal(value, first):
            raise LaminaError(
                f"{file}: {name} differs from that of {files[0]}, and whole numbers are not averaged. "
                "Fix: average runs of one recipe"
            )
    if counts:
        return torch.stack(list(values)).amax(0)
    if not first.is_floating_point() or len(values) == 1:
        return first
    total = torch.zeros_like(first, dtype=torch.float64)
    for value in values:
        total += value
    return (total / len(values)).to(first.dtype)


def _shape(value: Tensor) -> str:
    return f"{'x'.join(map(str, value.shape)) or 'one number'} ({str(value.dtype).removeprefix('torch.')})"


def _open(file: Path) -> Any:
    try:
        return safe_open(file, framework="pt")
    except (OSError, SafetensorError) as error:
        raise LaminaError(f"{file}: cannot be read ({first_line(error)}). Fix: copy or train the run again") from None


def _same_recipe(members: Sequence[Run]) -> Recipe:
    """Return the recipe of all members. Raise LaminaError if recipe (without the seed), encoder or tokenizer differ."""
    first = members[0]
    recipes = [parse_recipe(member.read_recipe(), name=str(member.recipe)) for member in members]
    wanted = _comparable(recipes[0])
    for member, recipe in zip(members, recipes, strict=True):
        if (found := _comparable(recipe)) != wanted:
            place, value, other = first_difference(found, wanted)
            raise LaminaError(
                f"{member.path}: its recipe differs from that of {first.path} "
                f"({place.removeprefix('tasks.main.')} = {value!r}, not {other!r}). Fix: average seeds of one recipe"
            )
        for what, file in (("encoder's shape", "encoder"), ("tokenizer", "tokenizer")):
            if read_bytes(getattr(member, file)) != read_bytes(getattr(first, file)):
                raise LaminaError(
                    f"{member.path}: its {what} differs from that of {first.path}. Fix: average seeds of one recipe"
                )
        if _encoder_of(member).get("sha256") != _encoder_of(first).get("sha256"):
            raise LaminaError(f"{member.path}: began with other weights than {first.path}. Fix: average runs of one encoder")
        if member.read_info().get("heads", {}) != first.read_info().get("heads", {}):
            raise LaminaError(f"{member.path}: began with another head than {first.path}. Fix: average runs of one head.start")
        if member.read_info().get("teachers", {}) != first.read_info().get("teachers", {}):
            raise LaminaError(f"{member.path}: learned from other teachers than {first.path}. Fix: average runs of equal ones")
    return recipes[0]


def _comparable(recipe: Recipe) -> dict[str, object]:
    values = recipe.model_dump(mode="json")
    return values | {"train": {name: value for name, value in values["train"].items() if name not in _OF_THE_MACHINE}}


def _encoder_of(run: Run) -> EncoderInfo:
    found: EncoderInfo = run.read_info().get("encoder", {})
    return found


def _to_fit_on(recipe: Recipe, task: TaskOptions, data: str | None, seeds: Collection[int], files: FileCache) -> Sequence[Any]:
    """Return examples to fit the decision on, which no member was trained on: `data`, or the common held-out split."""
    kind: AnyKind = kind_of(task)
    if data is None and len(seeds) > 1 and task.data.held_out is None:
        return []
    if data is None:
        try:
            return kind.splits(task, next(iter(seeds)), files, dev=False).holdout
        except LaminaError as error:
            warnings.warn(f"the threshold is 0, because the training data cannot be read: {error}", LaminaWarning, stacklevel=4)
            return []
    if len(recipe.tasks) > 1:
        raise LaminaError(
            "--data: these runs have several tasks, and one file cannot fit all thresholds. Fix: leave --data out"
        )
    examples = kind.read(task, data)
    trained_on: list[Any] = []
    try:
        trained_on = [example for seed in seeds for example in kind.splits(task, seed, files, dev=False).train]
    except LaminaError as error:
        message = f"--data {data}: cannot be compared with the training data: {error}"
        warnings.warn(message, LaminaWarning, stacklevel=4)
    texts = set(map(kind.text, examples))
    for known, what in ((_dev(task, files), "in the dev set"), (trained_on, "in the training data")):
        if shared := texts.intersection(map(kind.text, known)):
            raise LaminaError(
                f"--data {data}: {len(shared)} of its {len(examples)} examples are {what}, so the scores would be too good. "
                "Fix: name other data"
            )
    return examples


def _write(run: Run, members: Sequence[Run], weights: dict[str, Tensor], decisions: Decisions, about: AverageInfo) -> None:
    """Write the files of a finished run. The last is run.json, which marks it as finished."""
    first = members[0]
    with replacing(run.model) as draft:
        save_file({name: value.contiguous() for name, value in weights.items()}, draft)
    run.write_recipe(first.read_recipe())
    for source, copy in ((first.encoder, run.encoder), (first.tokenizer, run.tokenizer)):
        shutil.copyfile(source, copy)
    infos = [member.read_info() for member in members]
    costs = [info.get("costs", {}) for info in infos]
    described = [
        {"path": str(member.path), "seed": info.get("seed"), "tasks": info.get("tasks"), "score": info.get("score")}
        for member, info in zip(members, infos, strict=True)
    ]
    info: RunInfo = {
        "format": FORMAT,
        "versions": versions(),
        "seed": infos[0]["seed"],
        "encoder": _encoder_from(run, first),
        "heads": infos[0].get("heads", {}),
        "teachers": infos[0].get("teachers", {}),
        "parameters": infos[0].get("parameters", {}),
        "windows": infos[0].get("windows", []),
        "language": infos[0].get("language"),
        "average": {"members": described, **about},
        "tasks": decisions_json(decisions),
    }
    if all(costs):  # checkpoints have no costs
        info["costs"] = {key: sum(cost.get(key, 0.0) for cost in costs) for key in ("train_seconds", "store_seconds")}
    run.finish(info)


def _encoder_from(run: Run, first: Run) -> EncoderInfo:
    """Return the first member's encoder entry. The path of the encoder's folder is made relative to the new run."""
    encoder = _encoder_of(first)
    if encoder.get("folder"):
        below = (first.path / encoder["folder"]).resolve()
        encoder["folder"] = os.path.relpath(below, run.path.resolve())
    return encoder
