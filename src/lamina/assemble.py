"""Recipe -> objects. With `trainer`, the only place that knows everything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import torch
from safetensors.torch import load_file

from lamina.answers.calibration import Calibration
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import WindowOptions
from lamina.encoder import load as encoders
from lamina.encoder.blocks import Encoder, EncoderConfig, drops
from lamina.encoder.files import read_tensors
from lamina.encoder.freezing import prepare
from lamina.errors import LaminaError
from lamina.files import expanded, read_json
from lamina.heads import LearnsQueries, SpanHead
from lamina.heads.sentence import SentenceHeadOptions
from lamina.mixers import LayerAttention, Shape
from lamina.model import Model, Task
from lamina.recipe import Recipe, TaskOptions, parse_recipe
from lamina.run import Run
from lamina.training.checkpoint import load_weights
from lamina.training.loop import Loss
from lamina.training.options import TrainOptions


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


def build_on_meta(recipe: Recipe) -> Model:
    """The model without memory or weights: checks a recipe and gives `inspect` its counts."""
    source = encoders.find(recipe.encoder, counting=True)
    if recipe.window.length > source.config.max_length:
        raise LaminaError(
            f"window.length = {recipe.window.length}, but the positions of {source.name} end at "
            f"{source.config.max_length}: lower window.length"
        )
    build_losses(recipe)
    with torch.device("meta"):
        model = build_model(recipe, encoders.build(source)).train()
    for name, task in recipe.tasks.items():
        if idle := _idle(task, dropping=drops(model.encoder) or drops(model.tasks[name])):
            raise LaminaError(idle if name == "main" else f"tasks.{name}.{idle}")
    return model


def _idle(task: TaskOptions, *, dropping: bool) -> str | None:
    """What a recipe asks for in vain. A finished run may have it: only a new training is refused."""
    data, eda, rdrop = task.data, task.augment.eda, task.terms.rdrop
    if rdrop is not None and rdrop.weight and not dropping:
        return (
            "terms.rdrop compares two passes with different dropout, but nothing drops out: set encoder.dropout = 0.1 "
            "(of layers that do not train, tune.dropout = true), or leave it out"
        )
    if data.choose != "answerable_first" and data.contexts is None:
        return f'data.choose = "{data.choose}" chooses nothing: say how many with data.contexts'
    if eda is not None and eda.synonyms is not None and not {"synonyms", "insert"} & set(eda.operations):
        return 'augment.eda.synonyms are for the operations "synonyms" and "insert": add one of them to operations'
    return None


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


class Trained(NamedTuple):
    """All that answering needs. The model is in eval mode."""

    recipe: Recipe
    model: Model
    tokenizer: Tokenizer
    threshold: float = 0.0  # of the null odds
    calibration: Calibration = Calibration()
    settled: Mapping[str, dict[str, Any]] = MappingProxyType({})  # what else the held-out parts told, by task


def load_trained(
    name: str | Path, device: torch.device, *, allow_pickle: bool = False, tokenizer: str | None = None
) -> Trained:
    """A finished run of ours, or a checkpoint with a trained span head: a folder or a hub id."""
    folder = expanded(name)
    if Run(folder).recipe.is_file() or Run(folder).exists:
        if tokenizer is not None and expanded(tokenizer).resolve() != folder.resolve():
            raise LaminaError(f"{name}: a run has its own tokenizer: leave out {tokenizer!r}")
        with torch.random.fork_rng(devices=[]):  # building draws random weights, which is not the caller's business
            return _load_run(folder, device)
    if not (folder / "config.json").is_file() and (folder.exists() or not encoders.HUB_ID.fullmatch(str(name))):
        raise LaminaError(
            f"{name}: not a run folder (it has no run.json), not a checkpoint (it has no config.json), and no hub id owner/name"
        )
    found = str(folder.resolve()) if folder.is_dir() else str(name)  # a folder may be named as a preset is
    options = encoders.EncoderOptions(model=found, allow_pickle=allow_pickle, tokenizer=tokenizer)
    with torch.random.fork_rng(devices=[]):
        return _load_checkpoint(str(name), options, device)


def _load_run(path: Path, device: torch.device) -> Trained:
    run = Run.open(path)
    recipe = parse_recipe(read_json(run.recipe), name=str(run.recipe))
    info = read_json(run.info)
    base = encoders.base_of(run)
    with torch.device("meta" if base is None else device):
        encoder = Encoder(encoders.run_config(run)) if base is None else encoders.load(base, device=device)
        model = build_model(recipe, encoder)
    try:
        weights = load_file(run.model, device=str(device))
        if base is None:
            model.load_state_dict(weights, assign=True)
        else:
            load_weights(model, weights)
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise LaminaError(f"{run.model}: the weights cannot be read ({reason}): copy or train the run again") from error
    calibration = Calibration(**info.get("calibration", {}))
    alone = {key: info[key] for key in ("threshold", "calibration", "question_threshold") if key in info}
    settled = info.get("tasks") or dict.fromkeys(recipe.tasks, alone)
    return Trained(recipe, model.eval(), Tokenizer(run.tokenizer), float(info["threshold"]), calibration, settled)


def _load_checkpoint(name: str, options: encoders.EncoderOptions, device: torch.device) -> Trained:
    source = encoders.find(options)
    wanted = {f"qa_outputs.{kind}" for kind in ("weight", "bias")}
    if missing := wanted - set(encoders.heads(source)):
        raise LaminaError(
            f"{name} has no trained question-answering head ({min(missing)} is missing): "
            f"train one with `lamina train RECIPE --set encoder.model={name}`"
        )
    length = min(WindowOptions().length, source.config.max_length)
    recipe = parse_recipe(
        {
            "data": {"train": ""},  # nobody knows on what it was trained
            "encoder": options.model_dump(),
            "window": {"length": length, "query": min(64, length // 2)},
        },
        name=name,
    )
    model = build_model(recipe, encoders.load(source, device=device)).to(device)
    head = cast(Task, model.tasks["main"]).head
    weights = {
        key.removeprefix("qa_outputs."): value.float() for key, value in read_tensors(source.weights, wanted, device=device)
    }
    try:
        cast(SpanHead, head).load_state_dict(weights)
    except RuntimeError as error:
        raise LaminaError(
            f"{name}: its qa_outputs are no head for one start and one end a token ({encoders.line(error)})"
        ) from None
    return Trained(recipe, model.eval(), load_tokenizer(source))


def load_tokenizer(source: encoders.Source) -> Tokenizer:
    """The source's tokenizer, which must not know more tokens than the encoder embeds."""
    tokenizer = Tokenizer(source.tokenizer)
    if tokenizer.vocabulary > source.config.vocab:
        raise LaminaError(
            f"the tokenizer has {tokenizer.vocabulary} tokens, but {source.name} embeds {source.config.vocab}: "
            "name the model's own tokenizer"
        )
    return tokenizer
