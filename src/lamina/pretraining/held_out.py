"""Score a pretraining model on the held-out sequences."""

from __future__ import annotations

import json
import time

import numpy as np
import torch

from lamina.data.padding import pack
from lamina.pretraining.folder import PretrainingFolder
from lamina.pretraining.masking import EVALUATION, MaskOptions, Replacements, make_masked_batch
from lamina.pretraining.model import PretrainedModel, loss_sums
from lamina.pretraining.pretrain_recipe import PretrainRecipe
from lamina.pretraining.sequences import ALONE, TokenSequences
from lamina.pretraining.setup import PretrainingData
from lamina.training.recording import Recording
from lamina.utils.progress import Progress

FEW_LABELS = 1  # the divisor of a sum over no labels


def evaluate_held_out(
    recipe: PretrainRecipe, model: PretrainedModel, data: PretrainingData, recorder: Recording, progress: Progress
) -> None:
    """Record and show the scores on the held-out sequences, if there are any."""
    if data.held_out is None:
        return
    began = time.monotonic()
    scores = held_out_scores(recipe, model, data.held_out, data.replacements)
    state = recorder.state
    state.costs.evaluate_seconds += time.monotonic() - began
    recorder.record({"step": state.step, "evaluation": scores})
    progress.say(f"step {state.step}: held out: " + ", ".join(f"{name} {value:.3f}" for name, value in scores.items()))


def held_out_scores(
    recipe: PretrainRecipe, model: PretrainedModel, sequences: TokenSequences, replacements: Replacements
) -> dict[str, float]:
    """Return the loss, perplexity and accuracy on held-out sequences.

    The masked tokens are the same every time, and [MASK] replaces all of them. So runs with other `mask.replace` compare.
    """
    options = MaskOptions(share=recipe.mask.share, replace="all", whole_words=recipe.mask.whole_words)
    device = next(model.parameters()).device
    sums = np.zeros(6)
    order = np.argsort(sequences.lengths, kind="stable")
    model.eval()
    with torch.inference_mode():
        for run in pack(sequences.lengths[order], recipe.train.memory_tokens):
            batch = make_masked_batch(sequences, order[run], replacements, options, 0, EVALUATION).to(device)
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


def recorded_scores(folder: PretrainingFolder) -> dict[str, dict[str, float]]:
    """Return the last recorded scores and, if they were recorded, those before step 1; none if nothing was held out."""
    lines = folder.metrics.read_text(encoding="utf-8").splitlines()
    found = {entry["step"]: entry["evaluation"] for line in lines if "evaluation" in (entry := json.loads(line))}
    before = {"before": found[0]} if 0 in found else {}
    return before | {"after": found[max(found)]} if found else {}
