"""Learning rates of the parts and layers of a model."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from lamina.config.build import build_model, make_optimizer
from lamina.config.parse import parse_recipe
from lamina.config.train_options import TrainOptions
from lamina.data.squad import to_squad
from lamina.encoder import load as encoders
from lamina.tasks.kind import FileCache
from lamina.tasks.spans import SPANS
from lamina.training import trainer
from tests import tiny
from tests.tiny import corpus


def rates(**train: Any) -> dict[str, float]:
    """Return the peak rate of every trained parameter of a two-layer model with adapters and a learned mixture."""
    recipe = parse_recipe(
        {
            "data": {"train": ""},
            "encoder": {"model": "tiny", "pretrained": False},
            "tune": {"adapters": {"size": 2}},
            "mixer": {"type": "learned"},
            "train": train,
        }
    )
    model = build_model(recipe, encoders.build(encoders.find(recipe.encoder)))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = make_optimizer(model, recipe.train).param_groups
    return {names[id(p)]: group["peak"] for group in groups for p in group["params"]}


def test_each_part_has_its_own_rate() -> None:
    found = rates(lr=1e-4, rates={"adapters": 3e-4, "mixer": 1e-2, "head": 1e-3})
    assert {name: found[name] for name in found if "norm" in name} == {n: 1e-4 for n in found if "norm" in n}
    assert found["encoder.blocks.0.up.weight"] == 1e-4
    assert found["encoder.adapters.1.attention.up.weight"] == 3e-4
    assert found["tasks.main.head.weight"] == 1e-3
    assert {rate for name, rate in found.items() if name.startswith("tasks.main.mixer.")} == {1e-2}


def test_lower_layers_have_lower_rates() -> None:
    found = rates(lr=1.0, layer_decay=0.5)
    assert found["encoder.blocks.1.up.weight"] == 1
    assert found["encoder.blocks.0.up.weight"] == 0.5
    assert found["encoder.adapters.1.attention.up.weight"] == 0.5
    assert found["encoder.embeddings.word.weight"] == 0.25
    assert found["encoder.pooler.weight"] == found["tasks.main.head.weight"] == 1


def test_the_steps_use_the_rates(tmp_path: Path) -> None:
    """A rate near 0 leaves a part unchanged; resuming keeps the rates."""
    data = tmp_path / "train.json"
    data.write_text(json.dumps(to_squad(corpus(4))))
    recipe = parse_recipe(
        {
            "data": {"train": str(data), "holdout": 0},
            "encoder": {"model": "tiny", "pretrained": False},
            "train": {"epochs": 1, "rates": {"encoder": 1e-30}, "weight_decay": 0, "threads": 1, "device": "cpu"},
        }
    )
    run = trainer.train(recipe, tmp_path / "run")
    torch.manual_seed(recipe.train.seed)
    start = build_model(recipe, encoders.build(encoders.find(recipe.encoder))).state_dict()
    moved = {name for name, value in load_file(run.model).items() if not torch.allclose(value, start[name], atol=1e-9)}
    assert moved == {"tasks.main.head.weight", "tasks.main.head.bias"}


def test_a_quadratic_is_minimised_as_by_torchs_adamw() -> None:
    """Compare on sum (p - 2)^2 with torch's AdamW and with the formula. Matrices decay, vectors do not."""
    options = TrainOptions(lr=1e-2, weight_decay=0.1)
    ours, torchs = tiny.model(), tiny.model()
    matrices, vectors = ([p for p in torchs.parameters() if (p.ndim > 1) == many] for many in (True, False))
    decays = [(matrices, 0.1), (vectors, 0.0)]
    optimizers = (
        make_optimizer(ours, options),
        *(torch.optim.AdamW(some, lr=1e-2, weight_decay=decay, foreach=False) for some, decay in decays),
    )
    start = [p.detach().double().clone() for p in ours.parameters()]
    written = [_adamw(p, 1e-2, 0.1 if p.ndim > 1 else 0.0, steps=20) for p in start]
    for _ in range(20):
        for model in (ours, torchs):
            torch.stack([(p - 2).square().sum() for p in model.parameters()]).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    for one, other, by_hand, begun in zip(ours.parameters(), torchs.parameters(), written, start, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(one.double(), by_hand, atol=1e-5, rtol=1e-4)
        assert not torch.allclose(one.double(), begun, atol=1e-2)


def _adamw(x: torch.Tensor, lr: float, decay: float, steps: int) -> torch.Tensor:
    """Return x after AdamW (Loshchilov and Hutter 2019) on (x - 2)^2, with betas 0.9 and 0.999."""
    x = x.clone()
    mean, square = torch.zeros_like(x), torch.zeros_like(x)
    for step in range(1, steps + 1):
        slope = 2 * (x - 2)
        mean = 0.9 * mean + 0.1 * slope
        square = 0.999 * square + 0.001 * slope**2
        x = (1 - lr * decay) * x - lr * (mean / (1 - 0.9**step)) / ((square / (1 - 0.999**step)).sqrt() + 1e-8)
    return x


@pytest.mark.parametrize("seed", [0, 7])
def test_fractions_are_nested_and_have_the_same_held_out_split(tmp_path: Path, seed: int) -> None:
    data = tmp_path / "train.json"
    data.write_text(json.dumps(to_squad(corpus(20))))

    def split(fraction: float) -> tuple[set[str], set[str]]:
        values = {"data": {"train": str(data), "holdout": 0.2, "fraction": fraction}, "train": {"seed": seed}}
        learned, held, _ = SPANS.splits(parse_recipe(values).main, seed, FileCache())
        return {e.id for e in learned}, {e.id for e in held}

    parts = [split(fraction) for fraction in (0.1, 0.3, 0.5, 1.0)]
    for (small, held), (large, held_too) in itertools.pairwise(parts):
        assert small < large
        assert held == held_too
        assert not large & held
    assert [len(learned) for learned, _ in parts] == [8, 24, 40, 80]
