"""The loop of pretraining in one function, and the plan of its steps."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import nn

from lamina.config.train_options import choose_precision
from lamina.data.padding import pack
from lamina.errors import LaminaError
from lamina.pretraining.held_out import FEW_LABELS, evaluate_held_out
from lamina.pretraining.masking import MaskedBatch, make_masked_batch
from lamina.pretraining.model import PretrainedModel, loss_sums
from lamina.pretraining.pretrain_recipe import PretrainOptions, PretrainRecipe
from lamina.pretraining.sequences import ALONE, TokenSequences
from lamina.pretraining.setup import PretrainingData, PretrainingSetup
from lamina.training.checkpoint import State
from lamina.training.plan import Plan, evaluation_points, plan_steps
from lamina.training.recording import Recording
from lamina.training.schedules import share_of_peak
from lamina.training.step_loop import StepLoop, autocast, epochs_of, seed_of, update_weights
from lamina.utils.arrays import Longs
from lamina.utils.progress import Progress


def fit_encoder(
    recipe: PretrainRecipe,
    setup: PretrainingSetup,
    plan: Plan,
    optimizer: torch.optim.Optimizer,
    recorder: Recording,
    progress: Progress,
) -> State:
    """Train from ``recorder.state.step`` to the end of the plan and return the state.

    It ends early if ``recorder.state.stopped`` is set.
    """
    options, model, data, state = recipe.train, setup.model, setup.data, recorder.state
    device = next(model.parameters()).device
    precision = choose_precision(options.precision, device)
    trainable = [p for p in model.parameters() if p.requires_grad]
    head_steps = round(setup.head_first * len(plan))  # the first steps, which train only the head
    points = evaluation_points(plan, len(data.training), options.evaluate_every) | ({head_steps} if head_steps else set())
    shares = learning_rate_shares(options, plan, head_steps)
    if state.step == 0:
        evaluate_held_out(recipe, model, data, recorder, progress)
    steps = [(epoch, partial(masked_batches, recipe, data, draw.items, epoch)) for epoch, (draw,) in plan]
    with StepLoop("pretraining", steps, recorder, progress, minutes=options.checkpoint_minutes) as loop:
        for epoch, batches in loop:
            head_only = state.step < head_steps
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
                (mlm + recipe.nsp.weight * nsp if recipe.nsp else mlm).backward()
                mlm_loss, nsp_loss = mlm_loss + mlm.item(), nsp_loss + nsp.item()
                state.costs.count(batch.mask)
            norm = nn.utils.clip_grad_norm_(trainable, options.clip).item()
            if not math.isfinite(mlm_loss + nsp_loss + norm):
                raise LaminaError(
                    f"step {state.step + 1}: the loss is {mlm_loss} and the norm of the gradient is {norm}. "
                    "Fix: lower train.lr; then delete the folder or name another --out, and pretrain again"
                )
            share, peak = shares[state.step], options.head_lr if head_only else options.lr
            update_weights(optimizer, share, peak)

            losses = {"mlm_loss": mlm_loss} | ({"nsp_loss": nsp_loss} if recipe.nsp else {})
            part = "head" if head_only else "all"
            loop.finish(epoch, mlm_loss, {**losses, "lr": share * peak, "norm": norm, "part": part})

            if state.step in points:
                evaluate_held_out(recipe, model, data, recorder, progress)
    model.eval()
    return state


def learning_rate_shares(options: PretrainOptions, plan: Plan, head_steps: int) -> list[float]:
    """Return each step's share of the highest learning rate. The first `head_steps` steps have their own schedule."""
    shares = []
    for steps in (plan[:head_steps], plan[head_steps:]):
        epochs = epochs_of([epoch for epoch, _ in steps]) if steps else 0.0
        shares += [share_of_peak(options, (step + 0.5) / len(steps), epochs) for step in range(len(steps))]
    return shares


def plan_sequences(recipe: PretrainRecipe, sequences: TokenSequences) -> Plan:
    """Return the plan of the steps: the numbers of the sequences of each."""
    options = recipe.train
    return list(plan_steps(options.seed, options.epochs, {"texts": lambda _: sequences.lengths}, tokens=options.batch_tokens))


def masked_batches(recipe: PretrainRecipe, data: PretrainingData, chosen: Longs, epoch: int) -> list[MaskedBatch]:
    """Return the micro-batches of a step, with the masks of the epoch."""
    return [
        make_masked_batch(data.training, chosen[run], data.replacements, recipe.mask, recipe.train.seed, epoch)
        for run in pack(data.training.lengths[chosen], recipe.train.memory_tokens)
    ]


def pretraining_optimizer(model: PretrainedModel, options: PretrainOptions) -> torch.optim.AdamW:
    """Return AdamW with one learning rate for all parameters. Biases, norms and other vectors have no weight decay."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": options.weight_decay},
        {"params": [p for p in parameters if p.ndim == 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=options.lr, fused=True)
