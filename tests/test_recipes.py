"""Every recipe says what it needs, parses, builds, and trains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lamina.assemble import build_on_meta
from lamina.bundled import recipe_names, recipe_path
from lamina.data.squad import to_squad
from lamina.encoder.presets import PRESETS
from lamina.recipe import TaskOptions, read_recipe
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


def few(folder: Path, task: str, options: TaskOptions) -> Path:
    """A file of some questions, or of sentences with all labels that the task may have."""
    if not options.of_sentences:
        data = folder / "few.json"
        data.write_text(json.dumps(to_squad(tiny.corpus(4))))
        return data
    labels = options.data.labels
    rows = [f"the {word} sings in row {row}\ta {word} sang" for row, word in enumerate(["owl", "lark", "wren", "crow"] * 6)]
    shown = [labels.classes[row % len(labels.classes)] if labels.classes else f"{row % 5}.5" for row in range(len(rows))]
    data = folder / f"{task}.tsv"
    data.write_text("sentence1\tsentence2\tlabel\n" + "".join(f"{r}\t{s}\n" for r, s in zip(rows, shown, strict=True)))
    return data


@pytest.mark.slow
@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_trains(name: str, tmp_path: Path) -> None:
    """The recipe itself, on a few questions or sentences and for a few steps."""
    settings = ["data.holdout=0.3", "train.epochs=0.5", "train.threads=1"]
    for task, options in read_recipe(recipe_path(name)).tasks.items():
        data = few(tmp_path, task, options)
        place = "data" if task == "main" else f"tasks.{task}.data"
        settings += [f"{place}.train={data}"] + ([f"{place}.dev={data}"] if options.data.dev is not None else [])
    recipe = read_recipe(recipe_path(name), settings)
    if recipe.encoder.model in PRESETS:  # too large for a test, and without weights
        layers = recipe.tune.layers if recipe.tune.layers == "all" else min(recipe.tune.layers, 1)
        settings += ["encoder.model=tiny", "encoder.pretrained=false", f"tune.layers={layers}"]
        recipe = read_recipe(recipe_path(name), settings)
    run = train(recipe, tmp_path / "run")
    assert run.finished
    assert run.scores.exists()
