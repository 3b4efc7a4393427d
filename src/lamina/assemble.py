"""Recipe -> objects. With `trainer`, the only place that knows everything."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file

from lamina.data.examples import Example
from lamina.data.sources import load_examples
from lamina.data.splits import sample
from lamina.data.tokenizer import Tokenizer
from lamina.encoder import load as encoders
from lamina.encoder.blocks import Encoder, EncoderConfig
from lamina.errors import LaminaError
from lamina.files import read_json
from lamina.model import Model, Task
from lamina.recipe import Recipe, TaskOptions, parse_recipe
from lamina.run import Run
from lamina.training.options import TrainOptions


def build_model(recipe: Recipe, encoder: Encoder) -> Model:
    """The encoder with each task's mixer and head, freshly initialised from the recipe's seed."""
    torch.manual_seed(recipe.train.seed)
    return Model(encoder, {name: _build_task(options, encoder) for name, options in recipe.tasks.items()})


def _build_task(options: TaskOptions, encoder: Encoder) -> Task:
    mixer = options.mixer.build(encoder.config.hidden)
    return Task(mixer, options.head.build(mixer.width))


def build_on_meta(recipe: Recipe) -> Model:
    """The model without memory or weights: checks a recipe and gives `inspect` its counts."""
    source = encoders.find(recipe.encoder, counting=True)
    if recipe.window.length > source.config.max_length:
        raise LaminaError(
            f"window.length = {recipe.window.length}, but the positions of {source.name} end at "
            f"{source.config.max_length}: lower window.length"
        )
    with torch.device("meta"):
        return build_model(recipe, encoders.build(source))


def train_examples(recipe: Recipe) -> list[Example]:
    data = recipe.main.data
    return sample(load_examples(data.train, duplicate_ids=data.duplicate_ids), data.questions, recipe.train.seed)


def dev_examples(recipe: Recipe) -> list[Example]:
    data = recipe.main.data
    if data.dev is None:
        return []
    return sample(load_examples(data.dev, duplicate_ids=data.duplicate_ids), data.dev_questions, recipe.train.seed)


def make_optimizer(model: Model, options: TrainOptions) -> torch.optim.AdamW:
    """AdamW; biases, norms and other vectors do not decay."""
    groups: dict[float, list[torch.nn.Parameter]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            groups.setdefault(options.weight_decay if parameter.ndim > 1 else 0.0, []).append(parameter)
    parameters = [{"params": members, "weight_decay": decay} for decay, members in groups.items()]
    return torch.optim.AdamW(parameters, lr=options.lr, fused=True)


def load_run(path: Path, device: torch.device) -> tuple[Recipe, Model, Tokenizer, float]:
    """A finished run's recipe, model (in eval mode), tokenizer and null threshold."""
    run = Run.open(path)
    recipe = parse_recipe(read_json(run.recipe), name=str(run.recipe))
    with torch.device("meta"):
        model = build_model(recipe, Encoder(EncoderConfig.from_json(read_json(run.encoder))))
    try:
        model.load_state_dict(load_file(run.model, device=str(device)), assign=True)
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise LaminaError(f"{run.model}: the weights cannot be read ({reason}): copy or train the run again") from error
    return recipe, model.eval(), Tokenizer(run.tokenizer), float(read_json(run.info)["threshold"])
