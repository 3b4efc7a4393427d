"""Pretrain an encoder with a recipe and write its folder. A resumed run is checked against the folder's record."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TypedDict

import torch

from lamina.config.differences import changed
from lamina.config.train_options import choose_device
from lamina.errors import LaminaError, LaminaWarning
from lamina.pretraining.corpus import Corpus, read_corpus
from lamina.pretraining.folder import Origin, PretrainingFolder, write_transformers_checkpoint
from lamina.pretraining.held_out import recorded_scores
from lamina.pretraining.loop import fit_encoder, plan_sequences, pretraining_optimizer
from lamina.pretraining.loss_curve import draw_loss_curve
from lamina.pretraining.pretrain_recipe import PretrainRecipe, parse_pretrain_recipe
from lamina.pretraining.setup import PretrainingSetup, set_up
from lamina.pretraining.span_trainer import pretrain_spans
from lamina.training.checkpoint import State
from lamina.training.recording import Recorder
from lamina.utils.files import remove_drafts, write_json
from lamina.utils.locks import alone
from lamina.utils.memory import limit_kernels, peak_memory
from lamina.utils.progress import Progress, Silent
from lamina.utils.run_folder import versions


class Description(TypedDict):
    """The start of a pretraining run, as pretraining.json records it."""

    versions: dict[str, str]
    origin: Origin
    rows: list[str | None]  # fingerprints of the sequences, to train on and held out
    tokens: list[int]  # of the same
    device: str
    threads: int


def pretrain(recipe: PretrainRecipe, out: Path, *, resume: bool = False, progress: Progress | None = None) -> PretrainingFolder:
    """Pretrain an encoder and return its folder `out`. With `resume`, continue a run that was stopped."""
    progress = progress or Silent()
    limit_kernels()
    folder = PretrainingFolder(out)
    _check_folder(folder, recipe, resume=resume)
    with alone(folder.path):
        if folder.finished:
            progress.say(f"{out}: this pretraining is already finished")
            return folder
        device = choose_device(recipe.train.device)
        remove_drafts(folder.path)
        corpus = read_corpus(recipe, progress)
        pretrain_on = pretrain_spans if recipe.objective == "spans" else _pretrain_masked
        costs = pretrain_on(recipe, corpus, folder, device, progress)
        if complaint := draw_loss_curve(folder.metrics, folder.curve):
            progress.say(complaint)
        outcome = {"scores": recorded_scores(folder), "costs": costs, "finished": True}
        write_json(folder.info, {**folder.read_info(), **outcome})
        folder.checkpoint.unlink(missing_ok=True)
    return folder


def _pretrain_masked(
    recipe: PretrainRecipe, corpus: Corpus, folder: PretrainingFolder, device: torch.device, progress: Progress
) -> dict[str, float]:
    """Train on masked tokens and write the checkpoint. Return the costs."""
    folder.begin(recipe.model_dump(mode="json"))
    setup = set_up(recipe, corpus, folder, progress)
    state = _run(folder, recipe, setup, device, progress)
    write_transformers_checkpoint(folder, setup.model, setup.tokenizer)
    return vars(state.costs) | peak_memory()


def _run(
    folder: PretrainingFolder, recipe: PretrainRecipe, setup: PretrainingSetup, device: torch.device, progress: Progress
) -> State:
    """Train the model from its start, or from the folder's checkpoint."""
    if recipe.train.threads:
        torch.set_num_threads(recipe.train.threads)
    model = setup.model.to(device)
    optimizer = pretraining_optimizer(model, recipe.train)
    plan = plan_sequences(recipe, setup.data.training)
    description = _describe(setup, device)
    _check_unchanged(folder, description)
    write_json(folder.info, {**folder.read_info(), **description, "steps": len(plan)})
    with Recorder(folder.metrics, folder.checkpoint, model, optimizer) as recorder:
        return fit_encoder(recipe, setup, plan, optimizer, recorder, progress)


def _check_folder(folder: PretrainingFolder, recipe: PretrainRecipe, *, resume: bool) -> None:
    """Raise LaminaError if the folder would be overwritten, or if a resumed run has another recipe."""
    if not folder.exists:
        folder.check_new()
        return
    if not resume:
        raise LaminaError(f"{folder.path}: already has a pretraining. Fix: continue it with --resume, or use another --out")
    written = recipe.model_dump(mode="json")
    old = parse_pretrain_recipe(folder.read_info()["recipe"], name=str(folder.info)).model_dump(mode="json")
    if old != written:
        different = changed(old, written)
        raise LaminaError(f"{folder.path}: the recipe has changed since it began ({different}). Fix: use another --out")


def _check_unchanged(folder: PretrainingFolder, new: Description) -> None:
    """Raise LaminaError if the texts or weights changed since the run began. Warn if the machine or the versions changed."""
    old = folder.read_info()
    if "rows" not in old:
        return
    for what, then, now in (
        ("the texts", old["rows"], new["rows"]),
        ("the encoder's weights", old.get("origin"), new["origin"]),
    ):
        if then != now:
            raise LaminaError(f"{folder.path}: {what} changed since this pretraining began. Fix: use another --out")
    machine: list[tuple[str, object, object]] = [
        ("threads", old.get("threads"), new["threads"]),
        ("device", old.get("device"), new["device"]),
        ("versions", old.get("versions"), new["versions"]),
    ]
    for key, before, found in machine:
        if before != found:
            message = f"{folder.path}: {key} changed from {before} to {found}, so the weights may differ in their last bits"
            warnings.warn(message, LaminaWarning, stacklevel=3)


def _describe(setup: PretrainingSetup, device: torch.device) -> Description:
    splits = (setup.data.training, setup.data.held_out)
    return {
        "versions": versions(),
        "origin": setup.origin,
        "rows": [split.fingerprint if split is not None else None for split in splits],
        "tokens": [int(split.starts[-1]) if split is not None else 0 for split in splits],
        "device": str(device),
        "threads": torch.get_num_threads(),
    }
