"""Every recipe says what it needs, parses, builds, and trains."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lamina.config.bundled import pretraining_folder, recipe_names, recipe_path, recipes_folder, space_path, spaces_folder
from lamina.config.parse import read_recipe
from lamina.config.recipe import TaskOptions
from lamina.data.squad import to_squad
from lamina.encoder.presets import PRESETS
from lamina.errors import LaminaError
from lamina.tasks.checks import build_on_meta
from lamina.tasks.registry import kind_of
from lamina.tasks.sentences import SENTENCES
from lamina.training.trainer import train
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


def test_recipes_of_other_commands_have_lists_of_their_own() -> None:
    spaces, pretraining = recipe_names(spaces_folder()), recipe_names(pretraining_folder())
    assert {"rates", "korean-qa"} <= set(spaces) and {"minbert", "korean"} <= set(pretraining)
    assert len(list(recipes_folder().rglob("*.toml"))) == len(recipe_names()) + len(spaces) + len(pretraining)
    assert space_path("minbert").parent == spaces_folder()
    with pytest.raises(LaminaError, match="no such recipe file or name"):
        recipe_path("spaces/rates")


def rows(name: str) -> list[tuple[str, list[str]]]:
    """The other rows of its paper that a recipe's first lines name, each by its settings."""
    lines = [line for line in recipe_path(name).read_text(encoding="utf-8").splitlines() if line.startswith("#   ")]
    return [(name, settings) for line in lines if (settings := re.findall(r"--set (\S+)", line))]


def test_the_rows_of_paper_004_are_all_there() -> None:
    baselines, weights, augmented, distilled = 4, 2, 2, 3
    counted = [len(rows(f"korean-qa/{name}")) for name in ("koelectra", "mbert", "weights", "eda", "distil")]
    assert counted == [baselines - 1, 0, weights, augmented, distilled]


@pytest.mark.parametrize(("name", "settings"), [row for name in recipe_names() for row in rows(name)])
def test_another_row_is_another_recipe_and_builds(name: str, settings: list[str]) -> None:
    recipe = read_recipe(recipe_path(name), settings)
    assert recipe != read_recipe(recipe_path(name))
    assert build_on_meta(recipe).encoder.config.layers > 0


def few(folder: Path, task: str, options: TaskOptions) -> Path:
    """A file of some questions, or of sentences with all labels that the task may have."""
    if kind_of(options) is not SENTENCES:
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
    written = read_recipe(recipe_path(name)).tasks.values()
    distils = any(task.terms.distil for task in written)
    longer = distils or any(task.augment.ramps_by_epoch for task in written)  # nothing comes of these in a first step or epoch
    settings = ["data.holdout=0.3", f"train.epochs={2 if longer else 0.5}", "train.threads=1"]
    settings += ["terms.distil.window=1"] if distils else []
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
