"""Trains a recipe into a run folder."""

from __future__ import annotations

import json
import math
import os
import resource
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from lamina.assemble import build_losses, build_model, build_on_meta, make_optimizer
from lamina.cache.part import Part
from lamina.curves import draw_curves
from lamina.data.splits import sample
from lamina.encoder import load as encoders
from lamina.errors import LaminaError, LaminaWarning
from lamina.files import make_folder, read_json, replacing, write_json
from lamina.inspection import count_parameters
from lamina.judging import Judges
from lamina.material import AnyPart, Material, cut, prepare, resolved
from lamina.model import Model
from lamina.objectives import Remembers
from lamina.planning import checkpoint_names, epoch_ends, items_of_an_epoch, make_plan, make_step
from lamina.progress import Progress, Silent
from lamina.recipe import Recipe, parse_recipe
from lamina.run import FORMAT, Run, versions
from lamina.storing import store_parts
from lamina.training.checkpoint import State, load_checkpoint, save_checkpoint, trained_weights
from lamina.training.loop import fit
from lamina.training.options import choose_device, choose_precision
from lamina.training.plan import evaluation_points

Watch = Callable[[float, float], bool]  # (share of the training done, score on the held-out part) -> stop now?

CURVES = 1000  # items of each task's training part that the curves are of


def train(
    recipe: Recipe,
    out: Path,
    *,
    resume: bool = False,
    progress: Progress | None = None,
    watch: Watch | None = None,
    dev: bool = True,
) -> Run:
    """Trains `recipe` into the run folder `out`; with `resume`, goes on where a killed run stood. `watch` is asked after each
    evaluation whether to stop there. Without `dev`, no dev set is looked at."""
    progress = progress or Silent()
    run = Run(out)
    recipe = resolved(recipe)
    _check_folder(run, recipe, resume=resume)
    if run.finished:
        progress.say(f"{out}: this run has finished already")
        return run
    build_on_meta(recipe)
    device = choose_device(recipe.train.device)
    material = prepare(recipe, progress, dev=dev)
    make_folder(run.path)
    write_json(run.recipe, recipe.model_dump(mode="json"))
    model, state, material = _fit(run, recipe, material, device, progress, watch)
    _finish(run, recipe, material, model, state, progress)
    return run


def _fit(
    run: Run,
    recipe: Recipe,
    material: Material,
    device: torch.device,
    progress: Progress,
    watch: Watch | None,
) -> tuple[Model, State, Material]:
    """The model with the weights that training chose, where training stood, and the material with its stored states."""
    options = recipe.train
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)  # for weights that start at random
    model = build_model(recipe, encoders.load(material.source)).to(device)
    optimizer = make_optimizer(model, options)
    losses = build_losses(recipe)
    memories = [term for loss in losses.values() for term in loss.terms if isinstance(term, Remembers)]
    info = _describe(recipe, material, device) | {"parameters": count_parameters(model)}
    begun = read_json(run.info) if run.exists else None
    if begun is not None:
        _check_unchanged(run, begun, info)
    state = load_checkpoint(run.checkpoint, model, optimizer, memories) if run.checkpoint.exists() else State()
    began = time.monotonic()
    material = _with_stores(recipe, model, material, progress)
    stored_in = time.monotonic() - began
    state.costs.store_seconds += stored_in
    training, holdout = material.training, material.holdout
    judges = Judges(recipe, material.tokenizer)
    known = begun["steps"] if begun else None
    plan = make_plan(options, training, model, build_losses(recipe), holdout, known, spent=stored_in)
    write_json(run.info, info | {"steps": len(plan)})
    points = evaluation_points(plan, items_of_an_epoch(options, training), options.evaluate_every)
    with run.metrics.open("ab") as metrics:
        metrics.truncate(state.metrics_bytes)

        def record(entry: dict[str, object]) -> None:
            metrics.write((json.dumps(entry) + "\n").encode())

        def save(state: State) -> None:
            metrics.flush()
            os.fsync(metrics.fileno())  # a checkpoint must not know of lines that a power cut takes away
            state.metrics_bytes = metrics.tell()
            save_checkpoint(run.checkpoint, model, optimizer, state, memories)

        def keep(name: str) -> None:
            write_run(Run(run.path / "checkpoints" / name), recipe, material, model, info | {"steps": len(plan)})

        curve_parts = _curve_parts(recipe, material) if options.curves else {}
        after = {step: [partial(keep, name)] for step, name in checkpoint_names(options, training, len(plan)).items()}
        for step, epoch in epoch_ends(plan).items() if options.curves else ():
            curve = partial(_record_curves, judges, model, holdout, curve_parts, record, state, epoch)
            after.setdefault(step, []).append(curve)
        state = fit(
            model,
            losses,
            [(epoch, partial(make_step, training, turn, options.memory_tokens)) for epoch, turn in plan],
            evaluate=partial(judges.evaluate, parts=holdout),
            evaluate_at=points if any(part.examples for part in holdout.values()) else set(),
            optimizer=optimizer,
            options=options,
            precision=choose_precision(options.precision, device),
            state=state,
            record=record,
            save=save,
            after={step: partial(_all, things) for step, things in after.items()},
            watch=watch,
            progress=progress,
        )
    return model, state, material


def _all(things: Sequence[Callable[[], None]]) -> None:
    for thing in things:
        thing()


def _with_stores(recipe: Recipe, model: Model, material: Material, progress: Progress) -> Material:
    """The material with the stored states of frozen layers, where they are stored."""
    named = [(name, part) for parts in (material.training, material.holdout) for name, part in parts.items()]
    stored = store_parts(recipe, model, named, progress)
    tasks = list(recipe.tasks)
    return material.with_stores(
        dict(zip(tasks, stored[: len(tasks)], strict=True)), dict(zip(tasks, stored[len(tasks) :], strict=True))
    )


def _curve_parts(recipe: Recipe, material: Material) -> dict[str, dict[str, AnyPart]]:
    """Some of what each task trains on, and the dev sets, where every task has one."""
    seen = {}
    for name, task in recipe.tasks.items():
        some = sample(material.training[name].examples, CURVES, recipe.train.seed)
        seen[name] = Part(some, cut(recipe, task, some, material.tokenizer))
    return {"train": seen} | ({"dev": dict(material.dev)} if all(part.examples for part in material.dev.values()) else {})


def _record_curves(
    judges: Judges,
    model: Model,
    holdout: Mapping[str, AnyPart],
    parts: Mapping[str, Mapping[str, AnyPart]],
    record: Callable[[dict[str, object]], None],
    state: State,
    epoch: int,
) -> None:
    """What the model scores on what it trains on and on the dev set, for the curves of both over the epochs."""
    began = time.monotonic()
    model.eval()
    settled = judges.settle(model, holdout)
    curve = {which: judges.evaluate(model, of_tasks, settled).metrics for which, of_tasks in parts.items()}
    state.costs.evaluate_seconds += time.monotonic() - began
    record({"step": state.step, "epochs": epoch, "curve": curve})


def _finish(run: Run, recipe: Recipe, material: Material, model: Model, state: State, progress: Progress) -> None:
    """Writes the model, what was found out about it and its scores; run.json says last that the run has finished."""
    judges = Judges(recipe, material.tokenizer)
    settled = judges.settle(model, material.holdout)
    costs = vars(state.costs) | {"peak_memory_mb": peak_memory_mb()}
    began = time.monotonic()
    judges.score(run, model, material.dev, settled, progress)
    if any(part.examples for part in material.dev.values()):
        costs["dev_seconds"] = time.monotonic() - began
    if recipe.train.curves:
        draw_curves(run, progress)
    outcome = {
        **(next(iter(settled.values())) if len(settled) == 1 else {"tasks": settled}),
        "score": state.best_score if math.isfinite(state.best_score) else None,
        "chosen_step": state.best_step if state.best else state.step,
        "stopped_early": state.stopped,
        "costs": costs,
    }
    write_run(run, recipe, material, model, read_json(run.info) | outcome)
    run.checkpoint.unlink(missing_ok=True)


def write_run(run: Run, recipe: Recipe, material: Material, model: Model, info: dict[str, Any]) -> None:
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


def _describe(recipe: Recipe, material: Material, device: torch.device) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "versions": versions(),
        "seed": recipe.train.seed,
        "encoder": {"name": material.source.name, "sha256": encoders.digest(material.source)},
        "windows": [part.windows.fingerprint for parts in (material.training, material.holdout) for part in parts.values()],
        "device": str(device),
        "threads": torch.get_num_threads(),
    }


def peak_memory_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
