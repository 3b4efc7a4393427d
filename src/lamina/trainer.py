"""Trains a recipe into a run folder."""

from __future__ import annotations

import itertools
import json
import os
import resource
import shutil
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors.torch import save_file

from lamina.assemble import build_model, build_on_meta, dev_examples, load_tokenizer, make_optimizer, split_examples
from lamina.cache.part import Part
from lamina.data.batches import pack
from lamina.data.examples import Example
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import LOST, Longs, Windows, make_windows
from lamina.encoder import load as encoders
from lamina.errors import LaminaError, LaminaWarning
from lamina.files import make_folder, read_json, replacing, write_json
from lamina.heads.outputs import logits_of
from lamina.inspection import count_parameters
from lamina.judging import judge_of
from lamina.model import Model
from lamina.progress import Progress, Silent
from lamina.recipe import Recipe, parse_recipe
from lamina.run import FORMAT, Run, versions
from lamina.storing import store_parts
from lamina.training.checkpoint import State, copy_weights, load_checkpoint, load_weights, save_checkpoint, trained_weights
from lamina.training.loop import Step, fit
from lamina.training.options import TrainOptions, choose_device, choose_precision
from lamina.training.plan import Plan, evaluation_points, plan_steps


def train(recipe: Recipe, out: Path, *, resume: bool = False, progress: Progress | None = None) -> Run:
    """Trains `recipe` into the run folder `out`; with `resume`, goes on where a killed run stood."""
    progress = progress or Silent()
    run = Run(out)
    _check_folder(run, recipe, resume=resume)
    if run.finished:
        progress.say(f"{out}: this run has finished already")
        return run
    build_on_meta(recipe)
    device = choose_device(recipe.train.device)
    material = _prepare(recipe, progress)
    make_folder(run.path)
    write_json(run.recipe, recipe.model_dump(mode="json"))
    model, state, holdout = _fit(run, recipe, material, device, progress)
    _finish(run, recipe, replace(material, holdout=holdout), model, state, progress)
    return run


@dataclass(frozen=True)
class _Material:
    """What a run is made from."""

    source: encoders.Source
    tokenizer: Tokenizer
    training: Part
    holdout: Part
    dev: Sequence[Example]


def _prepare(recipe: Recipe, progress: Progress) -> _Material:
    """Everything is read before training: a mistake in the dev set should not wait for its end."""
    source = encoders.find(recipe.encoder)
    progress.say(f"reading {recipe.main.data.train}")
    tokenizer = load_tokenizer(source)
    learned, held_out = split_examples(recipe)
    training, holdout = (Part(part, make_windows(part, tokenizer, recipe.window)) for part in (learned, held_out))
    progress.say(
        f"{len(learned)} questions in {len(training.windows)} windows to train on, {len(held_out)} held out by article"
    )
    return _Material(source, tokenizer, training, holdout, dev_examples(recipe))


def _fit(run: Run, recipe: Recipe, material: _Material, device: torch.device, progress: Progress) -> tuple[Model, State, Part]:
    """The model with the weights that training chose, where training stood, and the held-out part with its stored states."""
    if recipe.train.threads:
        torch.set_num_threads(recipe.train.threads)
    torch.manual_seed(recipe.train.seed)  # for weights that start at random
    model = build_model(recipe, encoders.load(material.source)).to(device)
    optimizer = make_optimizer(model, recipe.train)
    info = _describe(recipe, material, device) | {"parameters": count_parameters(model)}
    begun = read_json(run.info) if run.exists else None
    if begun is not None:
        _check_unchanged(run, begun, info)
    state = load_checkpoint(run.checkpoint, model, optimizer) if run.checkpoint.exists() else State()
    began = time.monotonic()
    training, holdout = store_parts(recipe, model, (material.training, material.holdout), progress)
    stored_in = time.monotonic() - began
    state.costs.store_seconds += stored_in
    judge = judge_of(recipe, material.tokenizer)
    plan = make_plan(recipe.train, training, model, holdout, begun["steps"] if begun else None, spent=stored_in)
    write_json(run.info, info | {"steps": len(plan)})
    every = recipe.train.evaluate_every
    with run.metrics.open("ab") as metrics:
        metrics.truncate(state.metrics_bytes)

        def save(state: State) -> None:
            metrics.flush()
            os.fsync(metrics.fileno())  # a checkpoint must not know of lines that a power cut takes away
            state.metrics_bytes = metrics.tell()
            save_checkpoint(run.checkpoint, model, optimizer, state)

        def keep(name: str) -> None:
            write_run(Run(run.path / "checkpoints" / name), recipe, material, model, info | {"steps": len(plan)})

        state = fit(
            model,
            {name: [options.objective.build()] for name, options in recipe.tasks.items()},
            [(epoch, partial(make_step, training, rows, recipe.train.memory_tokens)) for epoch, rows in plan],
            evaluate=partial(judge.evaluate, part=holdout),
            evaluate_at=evaluation_points(plan, len(training.windows), every) if holdout.examples else set(),
            optimizer=optimizer,
            options=recipe.train,
            precision=choose_precision(recipe.train.precision, device),
            state=state,
            record=lambda entry: metrics.write((json.dumps(entry) + "\n").encode()),
            save=save,
            keep={step: partial(keep, name) for step, name in checkpoint_names(recipe.train, training, len(plan)).items()},
            progress=progress,
        )
    return model, state, holdout


def _finish(run: Run, recipe: Recipe, material: _Material, model: Model, state: State, progress: Progress) -> None:
    """Writes the model, what was found out about it and its scores; run.json says last that the run has finished."""
    judge = judge_of(recipe, material.tokenizer)
    settled = judge.settle(model, material.holdout)
    costs = vars(state.costs) | {"peak_memory_mb": peak_memory_mb()}
    if material.dev:
        began = time.monotonic()
        dev = Part(material.dev, make_windows(material.dev, material.tokenizer, recipe.window))
        judge.score(run, model, dev, settled, progress)
        costs["dev_seconds"] = time.monotonic() - began
    outcome = {
        **settled,
        "chosen_step": state.best_step if state.best else state.step,
        "stopped_early": state.stopped,
        "costs": costs,
    }
    write_run(run, recipe, material, model, read_json(run.info) | outcome)
    run.checkpoint.unlink(missing_ok=True)


def write_run(run: Run, recipe: Recipe, material: _Material, model: Model, info: dict[str, Any]) -> None:
    """The files that make a folder a finished run. Of an encoder that can be had again only what was trained is written."""
    make_folder(run.path)
    weights = trained_weights(model) if material.source.weights else dict(model.state_dict())
    with replacing(run.model) as temporary:
        save_file({name: value.detach().contiguous() for name, value in weights.items()}, temporary)
    write_json(run.recipe, recipe.model_dump(mode="json"))
    write_json(run.encoder, material.source.config.to_json())
    shutil.copyfile(material.source.tokenizer, run.tokenizer)
    if (folder := encoders.folder_of(recipe.encoder.model)) is not None:
        below = os.path.relpath(folder.resolve(), run.path.resolve())  # a folder of runs can be moved as one
        info = info | {"encoder": info["encoder"] | {"folder": below}}
    write_json(run.info, {"threshold": 0.0} | info | {"finished": True})


def _check_folder(run: Run, recipe: Recipe, *, resume: bool) -> None:
    """Nothing is overwritten, and a run goes on only with the recipe that it began with."""
    if not run.recipe.exists():
        if run.path.exists() and (not run.path.is_dir() or any(run.path.iterdir())):
            raise LaminaError(f"{run.path}: is there already and not a run of Lamina's: use another --out")
        return
    if not resume:
        raise LaminaError(f"{run.path}: there is a run here already: use --resume to go on with it, or another --out")
    written = recipe.model_dump(mode="json")
    old = parse_recipe(read_json(run.recipe), name=str(run.recipe)).model_dump(mode="json")
    if old != written:
        different = first_difference(old, written)
        raise LaminaError(f"{run.path}: the recipe has changed since this run began ({different}): use another --out")
    for draft in run.path.glob(".*.tmp"):  # of a process that was killed while it wrote
        draft.unlink(missing_ok=True)


def _check_unchanged(run: Run, old: dict[str, Any], new: dict[str, Any]) -> None:
    """A run goes on only with what it began with; on another machine its numbers may differ in the last bits."""
    for what, then, now in (
        ("the texts of data.train", old.get("windows"), new["windows"]),
        ("the encoder's weights", old.get("encoder", {}).get("sha256"), new["encoder"]["sha256"]),
    ):
        if then != now:
            raise LaminaError(f"{run.path}: {what} changed since this run began: use another --out")
    for key in ("threads", "device", "versions"):
        if old.get(key) != new[key]:
            message = f"{run.path}: {key} {old.get(key)} then, {new[key]} now: the weights may differ in their last bits"
            warnings.warn(message, LaminaWarning, stacklevel=3)


def first_difference(old: Any, new: Any, path: str = "") -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        key = next(key for key in [*old, *new] if old.get(key) != new.get(key))
        return first_difference(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    return f"{path}: {old!r} then, {new!r} now"


def make_plan(
    options: TrainOptions, part: Part, model: Model, holdout: Part, known_steps: int | None = None, *, spent: float = 0.0
) -> Plan:
    """The windows of every step. A time budget, less the seconds `spent` of it, becomes a number of steps by a short probe,
    unless it is known already."""
    windows = part.windows
    usable = np.flatnonzero(windows.gold[:, 0] != LOST)
    if not len(usable):
        raise LaminaError("nothing to train on: no question with an answer that the tokenizer can see")
    epochs = options.epochs
    if options.minutes is not None:
        epochs = float(known_steps) if known_steps else _epochs_in(60 * options.minutes - spent, options, part, model, holdout)
    steps = _steps(options, windows, usable, epochs)
    return [(epoch, usable[rows]) for epoch, rows in itertools.islice(steps, known_steps)]


def _steps(options: TrainOptions, windows: Windows, usable: Longs, epochs: float) -> Iterator[tuple[int, Longs]]:
    lengths = windows.lengths[usable]
    return plan_steps(options.seed, epochs, lengths, tokens=options.batch_tokens, windows=options.batch_windows)


def checkpoint_names(options: TrainOptions, part: Part, steps: int) -> dict[int, str]:
    """After which steps a checkpoint is kept, and its name: the epochs, after which a shorter training would have ended."""
    names: dict[int, str] = {}
    usable = np.flatnonzero(part.windows.gold[:, 0] != LOST)
    for number in itertools.count(1) if options.checkpoints is not None else ():
        epochs = round(number * cast(float, options.checkpoints), 6)
        step = sum(1 for _ in _steps(options, part.windows, usable, epochs))
        if step > steps:
            break
        names[step] = f"{epochs:g}"
    return names


def _epochs_in(seconds: float, options: TrainOptions, part: Part, model: Model, holdout: Part) -> float:
    """How many epochs fit into so many seconds, by timing a few steps that leave no trace."""
    before = copy_weights(model)  # a batch norm's statistics move in a forward pass
    device = next(model.parameters()).device
    windows = part.windows
    rows = np.linspace(0, len(windows) - 1, min(len(windows), 48)).astype(np.int64)
    rows = rows[np.argsort(windows.lengths[rows])]
    runs = pack(windows.lengths[rows], min(options.batch_tokens, options.memory_tokens))

    def seconds_per_token() -> float:
        began, tokens = time.monotonic(), 0
        for run in runs:
            batch = part.batch(rows[run])
            outputs = model.train()(batch.to(device))
            torch.stack([value.sum() for value in logits_of(outputs)]).sum().backward()  # type: ignore[no-untyped-call]
            model.zero_grad(set_to_none=True)
            tokens += int(batch.mask.sum())
        return (time.monotonic() - began) / tokens

    seconds_per_token()  # the first pass warms up
    training = 1.05 * seconds_per_token() * len(windows.ids)  # of an epoch; the optimiser takes the 5%
    evaluating = training / 3 * len(holdout.windows.ids) / len(windows.ids) / options.evaluate_every
    load_weights(model, before)
    return max(1e-6, seconds / (training + evaluating))


def make_step(part: Part, rows: Longs, memory_tokens: int) -> Step:
    """The micro-batches of a step."""
    runs = pack(part.windows.lengths[rows], memory_tokens)
    return tuple(("main", part.batch(rows[run])) for run in runs)


def _describe(recipe: Recipe, material: _Material, device: torch.device) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "versions": versions(),
        "seed": recipe.train.seed,
        "encoder": {"name": material.source.name, "sha256": encoders.digest(material.source)},
        "windows": [part.windows.fingerprint for part in (material.training, material.holdout)],
        "device": str(device),
        "threads": torch.get_num_threads(),
    }


def peak_memory_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
