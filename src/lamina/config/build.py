"""Build the model, the losses and the optimiser of a recipe."""

from __future__ import annotations

import torch

from lamina.config.recipe import Recipe, TaskOptions
from lamina.config.train_options import TrainOptions
from lamina.encoder.blocks import Encoder, EncoderConfig
from lamina.encoder.freezing import prepare
from lamina.errors import LaminaError
from lamina.heads import LearnsQueries
from lamina.heads.sentence import SentenceHeadOptions
from lamina.mixers import Shape, attends
from lamina.model import Model, Task
from lamina.objectives import Term
from lamina.objectives.loss import Loss, Weighted


def build_model(recipe: Recipe, encoder: Encoder) -> Model:
    """Return the model of a recipe: the encoder, and for each task a new mixer and head.

    The encoder is changed in place: adapters are inserted, frozen weights are marked. `train.seed` fixes the initial weights.
    """
    torch.manual_seed(recipe.train.seed)
    prepare(encoder, recipe.tune, pooled=any(task.head.pooled for task in recipe.tasks.values()))
    return Model(encoder, {name: _build_task(options, encoder) for name, options in recipe.tasks.items()})


def _build_task(options: TaskOptions, encoder: Encoder) -> Task:
    config, head = encoder.config, options.head
    if head.pooled and not config.pooler:
        field = 'head.pooling = "mean"' if isinstance(head, SentenceHeadOptions) else "head.pooled = false"
        raise LaminaError(f"head: the head reads the pooled state, but this encoder has no pooler. Fix: set {field}")
    labels = options.data.labels
    rows = head.queries(labels) if isinstance(head, SentenceHeadOptions) else None
    mixer = options.mixer.build(Shape(config.hidden, config.layers, head.slots, head.pooled, rows=rows))
    task = Task(mixer, head.build(mixer.width, labels))
    if attends(mixer) and task.head.queries() is None:
        if not isinstance(task.head, LearnsQueries):
            raise LaminaError(
                f'mixer.type: "{options.mixer.type}" attends with the vectors of the head, but head.type = "{head.type}" '
                'has none. Fix: choose another head or a mixer without queries, such as "learned"'
            )
        task.head.learn_queries(mixer.width)
    return task


def build_losses(recipe: Recipe) -> dict[str, Loss]:
    """Return the loss of each task: its objective and the terms that are added to it."""
    losses = {}
    for name, task in recipe.tasks.items():
        objective: Term = task.objective.build(task.data.labels)
        if task.terms.objective != 1:
            objective = Weighted(objective, task.terms.objective)
        losses[name] = Loss([objective, *task.terms.build(name, task.data.labels, objective)], task.weight)
    return losses


def make_optimizer(model: Model, options: TrainOptions) -> torch.optim.AdamW:
    """Return AdamW for the trainable parameters. Biases, norms and other vectors do not decay.

    The key `peak` of a parameter group is its highest learning rate.
    """
    groups: dict[tuple[float, float], list[torch.nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            decay = options.weight_decay if parameter.ndim > 1 else 0.0
            groups.setdefault((decay, peak_rate(name, model.encoder.config, options)), []).append(parameter)
    parameters = [{"params": members, "weight_decay": decay, "peak": peak} for (decay, peak), members in groups.items()]
    return torch.optim.AdamW(parameters, lr=options.lr, fused=True)


def peak_rate(name: str, config: EncoderConfig, options: TrainOptions) -> float:
    """Return the highest learning rate of a parameter: the rate of its part, times `layer_decay` for each layer above it."""
    room, kind, place = name.split(".")[:3]
    if room == "tasks":
        return float(getattr(options.rates, place) or options.lr)
    rate = (options.rates.adapters if kind == "adapters" else options.rates.encoder) or options.lr
    return float(rate * options.layer_decay ** (config.layers - _layer_of(kind, place, config)))


def _layer_of(kind: str, place: str, config: EncoderConfig) -> int:
    """Return the layer of an encoder parameter; one above all layers, or shared by all, counts as the last layer."""
    if kind == "embeddings":
        return 0
    if kind == "adapters":
        return int(place)
    return int(place) + 1 if kind == "blocks" and not config.shared else config.layers
