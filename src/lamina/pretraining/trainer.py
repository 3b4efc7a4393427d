"""Pretrains an encoder as a recipe says, into a folder."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from lamina.config.differences import changed
from lamina.config.train_options import choose_device, choose_precision
from lamina.data.batches import pack
from lamina.data.tokenizer import Longs, Tokenizer
from lamina.encoder import load as encoders
from lamina.encoder.blocks import Encoder, EncoderConfig
from lamina.encoder.load import load_tokenizer
from lamina.errors import LaminaError, LaminaWarning
from lamina.pretraining.curve import draw_curve
from lamina.pretraining.folder import FORMAT, Pretraining, write_checkpoint
from lamina.pretraining.masking import EVALUATION, Batch, MaskOptions, Replacements, make_batch
from lamina.pretraining.model import PretrainedModel, check_nsp, load_head, loss_sums, start_as_wide, start_near_identity
from lamina.pretraining.recipe import PretrainOptions, PretrainRecipe, parse_pretrain_recipe
from lamina.pretraining.sequences import ALONE, NEXT, RANDOM, Rows, make_rows
from lamina.pretraining.texts import Pair, hold_out, read_pairs, read_texts, without
from lamina.pretraining.vocabulary import train_vocabulary
from lamina.training.checkpoint import State
from lamina.training.loop import autocast, epochs_of, interruptible, seed_of, steps_left
from lamina.training.plan import Plan, evaluation_points, plan_steps
from lamina.training.recording import Recorder
from lamina.training.schedules import share_of_peak
from lamina.utils.files import read_json, remove_drafts, write_atomically, write_json
from lamina.utils.locks import alone
from lamina.utils.memory import peak_memory
from lamina.utils.progress import Progress, Silent
from lamina.utils.run_folder import versions

SAMPLE = 32  # rows on which a new head is fitted to the encoder's states
FEW_LABELS = 1  # a part of no rows divides by this instead of 0


def pretrain(recipe: PretrainRecipe, out: Path, *, resume: bool = False, progress: Progress | None = None) -> Pretraining:
    """Pretrains into the folder `out`; with `resume`, goes on where a killed run stood."""
    progress = progress or Silent()
    folder = Pretraining(out)
    _check_folder(folder, recipe, resume=resume)
    with alone(folder.path):
        if folder.finished:
            progress.say(f"{out}: this pretraining has finished already")
            return folder
        device = choose_device(recipe.train.device)
        remove_drafts(folder.path)
        corpus = read_corpus(recipe, progress)
        if not folder.exists:
            write_json(folder.info, {"format": FORMAT, "recipe": recipe.model_dump(mode="json"), "finished": False})
        material = prepare(recipe, corpus, folder, progress)
        state = _run(folder, recipe, material, device, progress)
        write_checkpoint(folder, material.model, material.tokenizer)
        costs = vars(state.costs) | peak_memory()
        if complaint := draw_curve(folder.metrics, folder.curve):
            progress.say(complaint)
        write_json(folder.info, read_json(folder.info) | {"scores": last_scores(folder), "costs": costs, "finished": True})
        folder.checkpoint.unlink(missing_ok=True)
    return folder


@dataclass(frozen=True)
class Corpus:
    """Texts and labelled pairs, to train on and held out."""

    texts: list[str]
    held_out: list[str]
    pairs: list[Pair]
    held_out_pairs: list[Pair]


def read_corpus(recipe: PretrainRecipe, progress: Progress) -> Corpus:
    texts = without(read_texts(recipe.texts), recipe.exclude)
    read = [pair for source in recipe.nsp.pairs for pair in read_pairs(source)] if recipe.nsp else []
    unwanted = set(read_texts(recipe.exclude)) if read else set()
    pairs = [pair for pair in read if unwanted.isdisjoint(pair[:2])]
    if not texts and not pairs:
        raise LaminaError("the sources hold no texts besides those that are excluded: there is nothing to train on")
    seed = recipe.train.seed
    learned, held_out = hold_out(texts, recipe.holdout, seed) if texts else ([], [])
    learned_pairs, held_out_pairs = hold_out(pairs, recipe.holdout, seed) if pairs else ([], [])
    unseen = {*held_out, *(text for pair in held_out_pairs for text in pair[:2])}
    learned = [text for text in learned if text not in unseen]
    learned_pairs = [pair for pair in learned_pairs if unseen.isdisjoint(pair[:2])]
    if not learned and not learned_pairs:
        raise LaminaError("holdout: every text or pair to train on shares a text with those held out: set holdout = 0")
    counted = f" and {len(learned_pairs)} pairs" if pairs else ""
    progress.say(f"{len(learned)} texts{counted} to train on, {len(held_out) + len(held_out_pairs)} held out")
    return Corpus(learned, held_out, learned_pairs, held_out_pairs)


@dataclass(frozen=True)
class Material:
    """What a pretraining is made from. `head_first` is 0 where the head needs no time of its own."""

    origin: dict[str, Any]  # for the record
    tokenizer: Tokenizer
    model: PretrainedModel
    training: Rows
    holdout: Rows | None
    head_first: float
    replacements: Replacements


def prepare(recipe: PretrainRecipe, corpus: Corpus, folder: Pretraining, progress: Progress) -> Material:
    """The model as it starts, and the rows; a new vocabulary is kept in the folder."""
    torch.manual_seed(recipe.train.seed)  # for weights that start at random
    nsp = recipe.nsp is not None
    if recipe.shape is None:
        options = recipe.encoder or encoders.EncoderOptions()
        source = encoders.find(options)
        _check(source.config, recipe)
        tokenizer = load_tokenizer(source)
        model = PretrainedModel(encoders.load(source), nsp=nsp)
        head = "loaded" if load_head(model, source) else "near identity" if source.weights else "random"
        origin = {"encoder": source.name, "sha256": encoders.digest(source), "head": head}
    else:
        if not folder.tokenizer.exists():
            vocabulary = recipe.vocabulary_or_default
            progress.say(f"making a vocabulary of {vocabulary.size} entries")
            texts = [*corpus.texts, *(text for pair in corpus.pairs for text in pair[:2])]
            write_atomically(folder.tokenizer, train_vocabulary(texts, vocabulary).encode())
        tokenizer = Tokenizer(folder.tokenizer)
        config = recipe.shape_for(tokenizer.vocabulary)
        _check(config, recipe)
        model = PretrainedModel(Encoder(config), nsp=nsp)
        start_as_wide(model)
        origin = {"encoder": None, "sha256": None, "head": "random"}
    progress.say(_about(origin, tokenizer))
    training, holdout = (_rows(texts, pairs, tokenizer, recipe) for texts, pairs in _parts(corpus))
    assert training is not None
    if (training.following == NEXT).any() and not (training.following == RANDOM).any():
        raise LaminaError("nsp: random pairs need at least two texts of several sentences: give more texts")
    replacements = Replacements.of(tokenizer)
    if origin["head"] != "near identity":
        return Material(origin, tokenizer, model, training, holdout, 0.0, replacements)
    some = np.linspace(0, len(training) - 1, min(len(training), SAMPLE)).astype(np.int64)
    start_near_identity(model, make_batch(training, some, replacements, recipe.mask, recipe.train.seed, EVALUATION))
    return Material(origin, tokenizer, model, training, holdout, recipe.head_first, replacements)


def _check(config: EncoderConfig, recipe: PretrainRecipe) -> None:
    if recipe.length > config.max_length:
        raise LaminaError(f"length = {recipe.length}, but the positions of the encoder end at {config.max_length}: lower it")
    if recipe.nsp is not None:
        check_nsp(config)


def _about(origin: dict[str, Any], tokenizer: Tokenizer) -> str:
    head = {
        "loaded": "its head for masked tokens comes with it",
        "near identity": "it has no head for masked tokens: a new one starts near the identity",
        "random": "all weights start at random",
    }
    return f"{origin['encoder'] or 'a new encoder'}, {tokenizer.vocabulary} vocabulary entries; {head[origin['head']]}"


def _parts(corpus: Corpus) -> tuple[tuple[list[str], list[Pair]], tuple[list[str], list[Pair]]]:
    return (corpus.texts, corpus.pairs), (corpus.held_out, corpus.held_out_pairs)


def _rows(texts: list[str], pairs: list[Pair], tokenizer: Tokenizer, recipe: PretrainRecipe) -> Rows | None:
    if not texts and not pairs:
        return None
    nsp, seed = recipe.nsp is not None, recipe.train.seed
    return make_rows(texts, pairs, tokenizer, length=recipe.length, packed=recipe.packed, nsp=nsp, seed=seed)


def _run(folder: Pretraining, recipe: PretrainRecipe, material: Material, device: torch.device, progress: Progress) -> State:
    """Trains the material's model from its start, or from where the folder's checkpoint stands."""
    if recipe.train.threads:
        torch.set_num_threads(recipe.train.threads)
    model = material.model.to(device)
    optimizer = make_optimizer(model, recipe.train)
    plan = make_plan(recipe, material.training)
    info = _describe(material, device) | {"steps": len(plan)}
    _check_unchanged(folder, info)
    write_json(folder.info, read_json(folder.info) | info)
    with Recorder(folder.metrics, folder.checkpoint, model, optimizer) as recorder:
        return fit(
            recipe,
            material,
            plan,
            optimizer,
            state=recorder.state,
            record=recorder.record,
            save=recorder.save,
            progress=progress,
        )


def fit(
    recipe: PretrainRecipe,
    material: Material,
    plan: Plan,
    optimizer: torch.optim.Optimizer,
    *,
    state: State,
    record: Callable[[dict[str, object]], object],
    save: Callable[[State], None],
    progress: Progress,
) -> State:
    """Trains from ``state.step`` to the end of the plan; `record` may end it early by setting ``state.stopped``."""
    options, model = recipe.train, material.model
    device = next(model.parameters()).device
    precision = choose_precision(options.precision, device)
    trainable = [p for p in model.parameters() if p.requires_grad]
    alone = round(material.head_first * len(plan))  # steps in which the head trains alone
    points = evaluation_points(plan, len(material.training), options.evaluate_every) | ({alone} if alone else set())
    rates = learning_rates(options, plan, alone)
    if state.step == 0:
        _evaluate(recipe, material, state, record, progress)
    progress.start("pretraining", len(plan), state.step)
    with interruptible() as interrupted:
        for epoch, (draw,) in steps_left(plan, state, save, options.checkpoint_minutes, interrupted):
            began = time.monotonic()
            head_only = state.step < alone
            batches = make_step(recipe, material, draw.items, epoch)
            state.costs.read_seconds += time.monotonic() - began
            masked = max(FEW_LABELS, sum(len(batch.targets) for batch in batches))
            labelled = max(FEW_LABELS, sum(int((batch.following != ALONE).sum()) for batch in batches))

            model.train()
            model.encoder.train(not head_only)
            mlm_loss = nsp_loss = 0.0
            for number, batch in enumerate(batches):
                torch.manual_seed(seed_of(options.seed, epoch, state.step, number))
                moved = batch.to(device)
                with autocast(device, precision):
                    logits, pairs = model(moved, head_only=head_only)
                mlm, nsp = loss_sums(logits, pairs, moved)
                mlm, nsp = mlm / masked, nsp / labelled
                (mlm + recipe.nsp.weight * nsp if recipe.nsp else mlm).backward()  # type: ignore[no-untyped-call]
                mlm_loss, nsp_loss = mlm_loss + mlm.item(), nsp_loss + nsp.item()
                state.costs.tokens += int(batch.mask.sum())
                state.costs.padded_tokens += batch.mask.numel()
            norm = nn.utils.clip_grad_norm_(trainable, options.clip).item()
            if not math.isfinite(mlm_loss + nsp_loss + norm):
                raise LaminaError(
                    f"the loss is {mlm_loss} and the gradient's norm {norm} at step {state.step + 1}: lower train.lr"
                )
            for group in optimizer.param_groups:
                group["lr"] = rates[state.step]
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

            state.step += 1
            state.costs.train_seconds += time.monotonic() - began
            entry: dict[str, object] = {"step": state.step, "epoch": epoch, "mlm_loss": mlm_loss}
            entry |= {"nsp_loss": nsp_loss} if recipe.nsp else {}
            record(entry | {"lr": rates[state.step - 1], "norm": norm, "part": "head" if head_only else "all"})
            speed = state.costs.tokens / state.costs.train_seconds
            progress.advance(1, f"loss {mlm_loss:.3f}, {speed:.0f} tokens/s")

            if state.step in points:
                _evaluate(recipe, material, state, record, progress)
    model.eval()
    return state


def learning_rates(options: PretrainOptions, plan: Plan, alone: int) -> list[float]:
    """The rate of every step: the first `alone` steps have a schedule of their own, and so have the others."""
    rates = []
    for steps, peak in ((plan[:alone], options.head_lr), (plan[alone:], options.lr)):
        epochs = epochs_of([epoch for epoch, _ in steps]) if steps else 0.0
        rates += [peak * share_of_peak(options, (step + 0.5) / len(steps), epochs) for step in range(len(steps))]
    return rates


def make_plan(recipe: PretrainRecipe, rows: Rows) -> Plan:
    options = recipe.train
    return list(plan_steps(options.seed, options.epochs, {"texts": lambda _: rows.lengths}, tokens=options.batch_tokens))


def make_step(recipe: PretrainRecipe, material: Material, rows: Longs, epoch: int) -> list[Batch]:
    """The micro-batches of a step, masked for the epoch."""
    return [
        make_batch(material.training, rows[run], material.replacements, recipe.mask, recipe.train.seed, epoch)
        for run in pack(material.training.lengths[rows], recipe.train.memory_tokens)
    ]


def make_optimizer(model: PretrainedModel, options: PretrainOptions) -> torch.optim.AdamW:
    """AdamW. Biases, norms and other vectors do not decay."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": options.weight_decay},
        {"params": [p for p in parameters if p.ndim == 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=options.lr, fused=True)


def evaluate(recipe: PretrainRecipe, material: Material) -> dict[str, float]:
    """Loss, perplexity and accuracy on the held-out rows, all of whose hidden tokens show [MASK], the same ones every time.

    So runs that replace differently can be compared.
    """
    assert material.holdout is not None
    rows, model = material.holdout, material.model
    options = MaskOptions(share=recipe.mask.share, replace="all", whole_words=recipe.mask.whole_words)
    device = next(model.parameters()).device
    sums = np.zeros(6)
    order = np.argsort(rows.lengths, kind="stable")
    model.eval()
    with torch.inference_mode():
        for run in pack(rows.lengths[order], recipe.train.memory_tokens):
            batch = make_batch(rows, order[run], material.replacements, options, 0, EVALUATION).to(device)
            logits, pairs = model(batch)
            losses = [float(loss) for loss in loss_sums(logits, pairs, batch)]
            known = batch.following != ALONE
            right = 0 if pairs is None else int((pairs.argmax(-1) == batch.following)[known].sum())
            guessed = int((logits.argmax(-1) == batch.targets).sum())
            sums += (losses[0], guessed, len(batch.targets), losses[1], right, int(known.sum()))
    loss, accuracy = sums[:2] / max(FEW_LABELS, sums[2])
    scores = {"loss": float(loss), "perplexity": float(np.exp(loss)), "accuracy": float(accuracy)}
    if recipe.nsp and sums[5]:
        scores |= {"nsp_loss": float(sums[3] / sums[5]), "nsp_accuracy": float(sums[4] / sums[5])}
    return scores


def _evaluate(
    recipe: PretrainRecipe,
    material: Material,
    state: State,
    record: Callable[[dict[str, object]], object],
    progress: Progress,
) -> None:
    if material.holdout is None:
        return
    began = time.monotonic()
    scores = evaluate(recipe, material)
    state.costs.evaluate_seconds += time.monotonic() - began
    record({"step": state.step, "evaluation": scores})
    progress.say(f"step {state.step}: held out: " + ", ".join(f"{name} {value:.3f}" for name, value in scores.items()))


def last_scores(folder: Pretraining) -> dict[str, dict[str, float]]:
    """The first and the last scores on the held-out part; none where nothing was held out."""
    lines = folder.metrics.read_text(encoding="utf-8").splitlines()
    evaluations = [entry["evaluation"] for line in lines if "evaluation" in (entry := json.loads(line))]
    return {"before": evaluations[0], "after": evaluations[-1]} if evaluations else {}


def _check_folder(folder: Pretraining, recipe: PretrainRecipe, *, resume: bool) -> None:
    """Nothing is overwritten, and a pretraining goes on only with the recipe that it began with."""
    if not folder.exists:
        folder.check_new()
        return
    if not resume:
        raise LaminaError(f"{folder.path}: there is a pretraining here already: go on with --resume, or use another --out")
    written = recipe.model_dump(mode="json")
    old = parse_pretrain_recipe(read_json(folder.info)["recipe"], name=str(folder.info)).model_dump(mode="json")
    if old != written:
        different = changed(old, written)
        raise LaminaError(f"{folder.path}: the recipe has changed since it began ({different}): use another --out")


def _check_unchanged(folder: Pretraining, new: dict[str, Any]) -> None:
    old = read_json(folder.info)
    if "rows" not in old:
        return
    for what, key in (("the texts", "rows"), ("the encoder's weights", "origin")):
        if old[key] != new[key]:
            raise LaminaError(f"{folder.path}: {what} changed since this pretraining began: use another --out")
    for key in ("threads", "device", "versions"):
        if old[key] != new[key]:
            message = f"{folder.path}: {key} {old[key]} then, {new[key]} now: the weights may differ in their last bits"
            warnings.warn(message, LaminaWarning, stacklevel=3)


def _describe(material: Material, device: torch.device) -> dict[str, Any]:
    parts = (material.training, material.holdout)
    return {
        "versions": versions(),
        "origin": material.origin,
        "rows": [part.fingerprint if part is not None else None for part in parts],
        "tokens": [int(part.starts[-1]) if part is not None else 0 for part in parts],
        "device": str(device),
        "threads": torch.get_num_threads(),
    }
