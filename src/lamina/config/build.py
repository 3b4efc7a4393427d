"""Recipe -> model, losses and optimiser."""

from __future__ import annotations

import torch

from lamina.config.recipe import Recipe, TaskOptions
from lamina.config.train_options import TrainOptions
from lamina.encoder.blocks import Encoder, EncoderConfig
from lamina.encoder.freezing import prepare
from lamina.errors import LaminaError
from lamina.heads import LearnsQueries
from lamina.heads.sentence import SentenceHeadOptions
from lamina.mixers import LayerAttention, Shape
from lamina.model import Model, Task
from lamina.objectives.loss import Loss


def build_model(recipe: Recipe, encoder: Encoder) -> Model:
    """The encoder, prepared for what trains, with each task's mixer and head, freshly initialised from the recipe's seed."""
    torch.manual_seed(recipe.train.seed)
    prepare(encoder, recipe.tune)
    return Model(encoder, {name: _build_task(options, encoder) for name, options in recipe.tasks.items()})


def _build_task(options: TaskOptions, encoder: Encoder) -> Task:
    config, head = encoder.config, options.head
    if head.pooled and not config.pooler:
        field = 'head.pooling = "mean"' if isinstance(head, SentenceHeadOptions) else "head.pooled = false"
        raise LaminaError(f"this encoder has no pooler: set {field}")
    mixer = options.mixer.build(Shape(config.hidden, config.layers, head.slots, head.pooled))
    task = Task(mixer, head.build(mixer.width, options.data.labels))
    if isinstance(mixer, LayerAttention) and task.head.queries() is None:
        if not isinstance(task.head, LearnsQueries):
            raise LaminaError(
                f'mixer.type = "{options.mixer.type}" attends with the vectors of the head, but head.type = "{head.type}" '
                'offers none: choose another mixer ("learned" weighs layers without them) or another head'
            )
        task.head.learn_queries(mixer.width)
    return task


def build_losses(recipe: Recipe) -> dict[str, Loss]:
    """Of each task, the objective and the terms that are added to it."""
    losses = {}
    for name, task in recipe.tasks.items():
        objective = task.objective.build(task.data.labels)
        losses[name] = Loss([objective, *task.terms.build(name, task.data.labels, objective)], task.weight)
    return losses


def make_optimizer(model: Model, options: TrainOptions) -> torch.optim.AdamW:
    """AdamW. Biases, norms and other vectors do not decay; `peak` is the highest rate of a group."""
    groups: dict[tuple[float, float], list[torch.nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            decay = options.weight_decay if parameter.ndim > 1 else 0.0
            groups.setdefault((decay, peak_rate(name, model.encoder.config, options)), []).append(parameter)
    parameters = [{"params": members, "weight_decay": decay, "peak": peak} for (decay, peak), members in groups.items()]
    return torch.optim.AdamW(parameters, lr=options.lr, fused=True)


def peak_rate(name: str, config: EncoderConfig, options: TrainOptions) -> float:
    """The highest learning rate of a parameter: that of its part, less for each layer that stands above it."""
    room, kind, place = name.split(".")[:3]
    if room == "tasks":
        return float(getattr(options.rates, place) or options.lr)
    rate = (options.rates.adapters if kind == "adapters" else options.rates.encoder) or options.lr
    return float(rate * options.layer_decay ** (config.layers - _layer_of(kind, place, config)))


def _layer_of(kind: str, place: str, config: EncoderConfig) -> int:
    """The layer of a parameter of the encoder; what stands above all layers, or in all of them, counts as the last."""
    if kind == "embeddings":
        return 0
    if kind == "adapters":
        return int(place)
    return int(place) + 1 if kind == "blocks" and not config.shared else config.layers
