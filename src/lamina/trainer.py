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
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from lamina.answers.calibration import Calibration
from lamina.answers.decode import Prediction, decode
from lamina.answers.formats import null_odds_json, predictions_json
from lamina.assemble import build_model, build_on_meta, dev_examples, load_tokenizer, make_optimizer, train_examples
from lamina.data.batches import make_batch, pack
from lamina.data.examples import Example
from lamina.data.splits import hold_out
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import LOST, Longs, Windows, make_windows
from lamina.encoder import load as encoders
from lamina.errors import LaminaError, LaminaWarning
from lamina.evaluation import calibrate, score_all, tune_threshold
from lamina.files import make_folder, read_json, replacing, write_json
from lamina.inference import SpanLogits, span_logits
from lamina.model import Model
from lamina.progress import Progress, Silent
from lamina.recipe import Recipe
from lamina.run import FORMAT, Run, versions
from lamina.training.checkpoint import State, load_checkpoint, save_checkpoint, trained_weights
from lamina.training.loop import Evaluation, Step, fit
from lamina.training.options import TrainOptions, choose_device, choose_precision
from lamina.training.plan import Plan, evaluation_points, plan_steps


@dataclass(frozen=True)
class Part:
    """Some examples and their windows."""

    examples: Sequence[Example]
    windows: Windows

    def answers(self, model: Model, recipe: Recipe, progress: Progress | None = None) -> tuple[SpanLogits, list[Prediction]]:
        if progress is not None:
            progress.start("answering", len(self.windows))
        logits = span_logits(model, self.windows, progress=progress)
        return logits, decode(self.windows, logits.start, logits.end, self.examples, recipe.answer)


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
    model, state = _fit(run, recipe, material, device, progress)
    _finish(run, recipe, material, model, state, progress)
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
    learned, held_out = hold_out(train_examples(recipe), recipe.main.data.holdout, recipe.train.seed)
    training, holdout = (Part(part, make_windows(part, tokenizer, recipe.window)) for part in (learned, held_out))
    progress.say(
        f"{len(learned)} questions in {len(training.windows)} windows to train on, {len(held_out)} held out by article"
    )
    return _Material(source, tokenizer, training, holdout, dev_examples(recipe))


def _fit(run: Run, recipe: Recipe, material: _Material, device: torch.device, progress: Progress) -> tuple[Model, State]:
    """The model with the weights that training chose."""
    if recipe.train.threads:
        torch.set_num_threads(recipe.train.threads)
    torch.manual_seed(recipe.train.seed)  # for weights that start at random
    training, holdout = material.training, material.holdout
    model = build_model(recipe, encoders.load(material.source)).to(device)
    optimizer = make_optimizer(model, recipe.train)
    info = _describe(recipe, material, device)
    begun = read_json(run.info) if run.exists else None
    if begun is not None:
        _check_unchanged(run, begun, info)
    plan = make_plan(recipe.train, training.windows, model, holdout.windows, begun["steps"] if begun else None)
    write_json(run.info, info | {"steps": len(plan)})
    state = load_checkpoint(run.checkpoint, model, optimizer) if run.checkpoint.exists() else State()
    every = recipe.train.evaluate_every
    with run.metrics.open("ab") as metrics:
        metrics.truncate(state.metrics_bytes)

        def save(state: State) -> None:
            metrics.flush()
            os.fsync(metrics.fileno())  # a checkpoint must not know of lines that a power cut takes away
            state.metrics_bytes = metrics.tell()
            save_checkpoint(run.checkpoint, model, optimizer, state)

        state = fit(
            model,
            {name: [options.objective.build()] for name, options in recipe.tasks.items()},
            [(epoch, partial(make_step, training.windows, rows, recipe.train.memory_tokens)) for epoch, rows in plan],
            evaluate=partial(_evaluate_holdout, recipe=recipe, part=holdout),
            evaluate_at=evaluation_points(plan, len(training.windows), every) if holdout.examples else set(),
            optimizer=optimizer,
            options=recipe.train,
            precision=choose_precision(recipe.train.precision, device),
            state=state,
            record=lambda entry: metrics.write((json.dumps(entry) + "\n").encode()),
            save=save,
            progress=progress,
        )
    return model, state


def _finish(run: Run, recipe: Recipe, material: _Material, model: Model, state: State, progress: Progress) -> None:
    """Writes the model, its threshold and its scores; run.json says last that the run has finished."""
    with replacing(run.model) as temporary:
        save_file({name: value.contiguous() for name, value in trained_weights(model).items()}, temporary)
    write_json(run.encoder, material.source.config.to_json())
    shutil.copyfile(material.source.tokenizer, run.tokenizer)
    holdout = material.holdout
    threshold, calibration = 0.0, Calibration()
    if holdout.examples:
        predictions = holdout.answers(model, recipe)[1]
        threshold = tune_threshold(predictions, holdout.examples)[0]
        calibration = calibrate(predictions, holdout.examples)
    costs = vars(state.costs) | {"peak_memory_mb": _peak_memory_mb()}
    if material.dev:
        began = time.monotonic()
        dev = Part(material.dev, make_windows(material.dev, material.tokenizer, recipe.window))
        _score_dev(run, recipe, model, dev, threshold, progress)
        costs["dev_seconds"] = time.monotonic() - began
    outcome = {
        "threshold": threshold,
        "calibration": asdict(calibration),
        "chosen_step": state.best_step if state.best else state.step,
        "stopped_early": state.stopped,
        "costs": costs,
        "finished": True,
    }
    write_json(run.info, read_json(run.info) | outcome)
    run.checkpoint.unlink(missing_ok=True)


def _check_folder(run: Run, recipe: Recipe, *, resume: bool) -> None:
    """Nothing is overwritten, and a run goes on only with the recipe that it began with."""
    if not run.recipe.exists():
        if run.path.exists() and (not run.path.is_dir() or any(run.path.iterdir())):
            raise LaminaError(f"{run.path}: is there already and not a run of Lamina's: use another --out")
        return
    if not resume:
        raise LaminaError(f"{run.path}: there is a run here already: use --resume to go on with it, or another --out")
    written = recipe.model_dump(mode="json")
    if (old := read_json(run.recipe)) != written:
        different = _first_difference(old, written)
        raise LaminaError(f"{run.path}: the recipe has changed since this run began ({different}): use another --out")
    for draft in run.path.glob(".*.tmp"):  # of a process that was killed while it wrote
        draft.unlink(missing_ok=True)


def _check_unchanged(run: Run, old: dict[str, Any], new: dict[str, Any]) -> None:
    """A run goes on only with what it began with; on another machine its numbers may differ in the last bits."""
    for key, what in (("windows", "the texts of data.train"), ("encoder", "the encoder's weights")):
        if old.get(key) != new[key]:
            raise LaminaError(f"{run.path}: {what} changed since this run began: use another --out")
    for key in ("threads", "device", "versions"):
        if old.get(key) != new[key]:
            message = f"{run.path}: {key} {old.get(key)} then, {new[key]} now: the weights may differ in their last bits"
            warnings.warn(message, LaminaWarning, stacklevel=3)


def _first_difference(old: Any, new: Any, path: str = "") -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        key = next(key for key in [*old, *new] if old.get(key) != new.get(key))
        return _first_difference(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    return f"{path}: {old!r} then, {new!r} now"


def make_plan(options: TrainOptions, windows: Windows, model: Model, holdout: Windows, known_steps: int | None = None) -> Plan:
    """The windows of every step. A time budget becomes a number of steps by a short probe, unless it is known already."""
    usable = np.flatnonzero(windows.gold[:, 0] != LOST)
    if not len(usable):
        raise LaminaError("nothing to train on: no question with an answer that the tokenizer can see")
    epochs = options.epochs
    if options.minutes is not None:
        epochs = float(known_steps) if known_steps else _epochs_in(options.minutes, options, windows, model, holdout)
    steps = plan_steps(
        options.seed, epochs, windows.lengths[usable], tokens=options.batch_tokens, windows=options.batch_windows
    )
    return [(epoch, usable[rows]) for epoch, rows in itertools.islice(steps, known_steps)]


def _epochs_in(minutes: float, options: TrainOptions, windows: Windows, model: Model, holdout: Windows) -> float:
    """How many epochs fit into `minutes`, by timing a few steps that leave no trace."""
    device = next(model.parameters()).device
    rows = np.linspace(0, len(windows) - 1, min(len(windows), 48)).astype(np.int64)
    rows = rows[np.argsort(windows.lengths[rows])]
    batches = [
        make_batch(windows, rows[run]) for run in pack(windows.lengths[rows], min(options.batch_tokens, options.memory_tokens))
    ]

    def seconds_per_token() -> float:
        began = time.monotonic()
        for batch in batches:
            outputs = model.train()(batch.to(device))
            (outputs.start.sum() + outputs.end.sum()).backward()
            model.zero_grad(set_to_none=True)
        return (time.monotonic() - began) / sum(int(batch.mask.sum()) for batch in batches)

    seconds_per_token()  # the first pass warms up
    training = 1.05 * seconds_per_token() * len(windows.ids)  # of an epoch; the optimiser takes the 5%
    evaluating = training / 3 * len(holdout.ids) / len(windows.ids) / options.evaluate_every
    return 60 * minutes / (training + evaluating)


def make_step(windows: Windows, rows: Longs, memory_tokens: int) -> Step:
    """The micro-batches of a step."""
    return tuple(("main", make_batch(windows, rows[run])) for run in pack(windows.lengths[rows], memory_tokens))


def _evaluate_holdout(model: Model, *, recipe: Recipe, part: Part) -> Evaluation:
    threshold, mean = tune_threshold(part.answers(model, recipe)[1], part.examples)
    return Evaluation(mean, {"balanced_f1": mean, "threshold": threshold})


def _score_dev(run: Run, recipe: Recipe, model: Model, part: Part, threshold: float, progress: Progress) -> None:
    """Scores the dev set and writes what it was scored from: enough to decode again, alone or with other runs' outputs."""
    logits, predictions = part.answers(model, recipe, progress)
    write_json(run.scores, score_all(predictions, part.examples, threshold))
    write_json(run.predictions, predictions_json(predictions, threshold))
    write_json(run.null_odds, null_odds_json(predictions))
    arrays = {"start": logits.start, "end": logits.end, "row_starts": part.windows.starts}
    with replacing(run.outputs) as temporary:
        save_file(
            {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in arrays.items()},
            temporary,
            metadata={"windows": part.windows.fingerprint},
        )


def _describe(recipe: Recipe, material: _Material, device: torch.device) -> dict[str, object]:
    return {
        "format": FORMAT,
        "versions": versions(),
        "seed": recipe.train.seed,
        "encoder": {"name": material.source.name, "sha256": encoders.digest(material.source)},
        "windows": [part.windows.fingerprint for part in (material.training, material.holdout)],
        "device": str(device),
        "threads": torch.get_num_threads(),
    }


def _peak_memory_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
