"""Every recipe says what it needs, parses, builds, and trains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lamina.assemble import build_on_meta
from lamina.bundled import recipe_names, recipe_path
from lamina.data.squad import to_squad
from lamina.encoder.presets import PRESETS
from lamina.recipe import read_recipe
from lamina.trainer import train
from tests import tiny


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_states_its_command_time_and_score(name: str) -> None:
    first, second, third = recipe_path(name).read_text(encoding="utf-8").splitlines()[:3]
    assert first.startswith((f"# lamina train {name}", f"# lamina train recipes/{name}.toml"))
    assert second.startswith("# Time: ")
    assert third.startswith("# Score: ")


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_builds(name: str) -> None:
    assert build_on_meta(read_recipe(recipe_path(name))).encoder.config.layers > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_trains(name: str, tmp_path: Path) -> None:
    """The recipe itself, on a few questions and for a few steps."""
    data = tmp_path / "few.json"
    data.write_text(json.dumps(to_squad(tiny.corpus(4))))
    settings = [f"data.train={data}", f"data.dev={data}", "data.holdout=0.3", "train.epochs=0.5", "train.threads=1"]
    recipe = read_recipe(recipe_path(name), settings)
    if recipe.encoder.model in PRESETS:  # too large for a test, and without weights
        layers = recipe.tune.layers if recipe.tune.layers == "all" else min(recipe.tune.layers, 1)
        settings += ["encoder.model=tiny", "encoder.pretrained=false", f"tune.layers={layers}"]
        recipe = read_recipe(recipe_path(name), settings)
    run = train(recipe, tmp_path / "run")
    assert run.finished
    assert run.scores.exists()
