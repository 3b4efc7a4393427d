"""Every recipe states its command, time and score, parses, builds and trains."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from lamina.config.bundled import (
    pretraining_folder,
    recipe_names,
    recipe_path,
    recipes_folder,
    space_path,
    spaces_folder,
    studies_folder,
)
from lamina.config.parse import read_recipe
from lamina.config.recipe import Recipe, TaskOptions
from lamina.data.squad import to_squad
from lamina.errors import LaminaError
from lamina.mixers import StagesOptions
from lamina.tasks.checks import build_on_meta
from lamina.tasks.registry import kind_of
from lamina.tasks.sentences import SENTENCES
from lamina.training.trainer import train
from lamina.utils.files import read_json
from tests import tiny

FEED_FORWARD = re.compile(r"up\.(\w+\.)?bias")  # one module of each layer; LoRA wraps its linear map
REAL_ENCODER = ("quickstart", "sentences", "reader/mixed")  # the other recipes train a tiny encoder here


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_states_its_description_command_time_and_score(name: str) -> None:
    description, command, time, score = recipe_path(name).read_text(encoding="utf-8").splitlines()[:4]
    assert re.fullmatch(r"# [A-Z].*[^.]\.", description) and len(description.split()) <= 14, "at most 13 words and the sign"
    assert command.startswith((f"# lamina train {name}", f"# lamina train recipes/{name}.toml"))
    assert time.startswith("# Time: ")
    assert score.startswith("# Score: ")


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_builds(name: str) -> None:
    check_built(read_recipe(recipe_path(name)))


def check_built(recipe: Recipe) -> None:
    """Check on the meta device that the model has the recipe's tasks and its number of trainable layers."""
    model = build_on_meta(recipe)
    assert model.tasks.keys() == recipe.tasks.keys()
    layers = [dict(layer.named_parameters()) for layer in model.encoder.layers]  # the layers of ALBERT are one shared block
    trained = [weight.requires_grad for names in layers for name, weight in names.items() if FEED_FORWARD.fullmatch(name)]
    depth = model.encoder.config.layers
    count = depth if recipe.tune.layers == "all" else recipe.tune.layers
    assert trained == [False] * (depth - count) + [True] * count


def test_recipes_of_other_commands_have_separate_lists() -> None:
    spaces, pretraining = recipe_names(spaces_folder()), recipe_names(pretraining_folder())
    assert {"rates", "korean-qa"} <= set(spaces) and {"minbert", "korean"} <= set(pretraining)
    names = {
        "papers",
        *recipe_names(),
        *(f"spaces/{name}" for name in spaces),
        *(f"pretraining/{name}" for name in pretraining),
        *(f"studies/{name}" for name in recipe_names(studies_folder())),
    }
    folder = recipes_folder()
    assert {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.toml")} == names
    assert "papers" not in recipe_names(), "the map of the papers is no recipe"
    assert space_path("minbert").parent == spaces_folder()
    with pytest.raises(LaminaError, match="no such recipe file or name"):
        recipe_path("spaces/rates")


def rows(name: str) -> list[tuple[str, list[str]]]:
    """Return the other rows of the paper's table that the first lines of a recipe name, by their settings."""
    lines = [line for line in recipe_path(name).read_text(encoding="utf-8").splitlines() if line.startswith("#   ")]
    return [(name, settings) for line in lines if (settings := re.findall(r"--set (\S+)", line))]


def test_all_rows_of_paper_004_have_a_recipe() -> None:
    baselines, weights, augmented, distilled = 4, 2, 2, 3
    counted = [len(rows(f"korean-qa/{name}")) for name in ("koelectra", "mbert", "weights", "eda", "distil")]
    assert counted == [baselines - 1, 0, weights, augmented, distilled]


@pytest.mark.parametrize(("name", "settings"), [row for name in recipe_names() for row in rows(name)])
def test_other_rows_differ_from_the_recipe_and_build(name: str, settings: list[str]) -> None:
    recipe = read_recipe(recipe_path(name), settings)
    assert recipe != read_recipe(recipe_path(name))
    check_built(recipe)


def snippets(name: str) -> list[tuple[str, list[str]]]:
    """Return the settings that the comments of a recipe name in backquotes, one list for each pair of backquotes."""
    comments = [line for line in recipe_path(name).read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    words = [shlex.split(code) for code in re.findall(r"`(--set [^`]*)`", "\n".join(comments))]
    return [(name, [word for word in found if word != "--set"]) for found in words]


@pytest.mark.parametrize(("name", "settings"), [found for name in recipe_names() for found in snippets(name)])
def test_settings_in_comments_change_the_recipe_and_build(name: str, settings: list[str]) -> None:
    recipe = read_recipe(recipe_path(name), settings)
    assert recipe != read_recipe(recipe_path(name))
    check_built(recipe)


def test_heads_of_paper_001_read_the_states_of_their_own_task() -> None:
    """Span heads use a fine-tuned span model, classifiers a fine-tuned classifier. Span recipes add the paper's own scores."""
    names = [name for name in recipe_names() if name.startswith("bertvision/") and not name.endswith("finetune")]
    assert len(names) > 18
    for name in names:
        classifier = name.startswith("bertvision/classify-")
        command = recipe_path(name).read_text(encoding="utf-8").splitlines()[1]
        source = "runs/bertvision-classify-finetune/checkpoints/" if classifier else "runs/bertvision-finetune/checkpoints/"
        assert source in command, name
        recipe = read_recipe(recipe_path(name))
        assert recipe.train.scorer == ("official" if classifier else "bertvision_legacy"), name
        assert not recipe.main.head.pooled, "25 states, as in the paper's text"
    for name, epochs in (("finetune", (0.3, 1)), ("classify-finetune", (0.2, 1, 3))):
        options = read_recipe(recipe_path(f"bertvision/{name}")).train
        assert options.checkpoints is not None
        assert all(round(epoch / options.checkpoints, 6).is_integer() and epoch <= options.epochs for epoch in epochs)


def few(folder: Path, task: str, options: TaskOptions) -> Path:
    """Write a file with some questions, or sentences with all labels that the task may have."""
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


def shape(value: Any) -> Any:
    """Return a recipe without its numbers and the names of its data and encoder."""
    if isinstance(value, dict):
        fields = [
            (key, inner) for key, inner in value.items() if isinstance(inner, dict) or key not in ("train", "dev", "model")
        ]
        return tuple((key, shape(inner)) for key, inner in sorted(fields, key=itemgetter(0)))
    if isinstance(value, list):
        return tuple(map(shape, value))
    return "a number" if isinstance(value, int | float) and not isinstance(value, bool) else value


def different_recipes() -> list[str]:
    """Return one recipe of each shape, the first by name."""
    found: dict[Any, str] = {}
    for name in recipe_names():
        found.setdefault(shape(read_recipe(recipe_path(name)).model_dump(mode="json")), name)
    return list(found.values())


def test_recipes_of_one_shape_differ_in_numbers_only() -> None:
    one, other, unlike = (
        shape(read_recipe(recipe_path(name)).model_dump(mode="json"))
        for name in ("parameter-efficiency/L1", "parameter-efficiency/L3", "parameter-efficiency/L0-A64")
    )
    assert one == other != unlike
    assert set(REAL_ENCODER) <= set(different_recipes())


@pytest.mark.slow
@pytest.mark.parametrize("name", different_recipes())
def test_a_recipe_trains(name: str, tmp_path: Path) -> None:
    check_trained(name, [], tmp_path)


def check_trained(name: str, changes: Sequence[str], folder: Path) -> None:
    """Train a recipe with some changes on a few questions or sentences for a few steps, and check what the run wrote."""
    settings = [*changes, *brief_settings(read_recipe(recipe_path(name), changes), folder)]
    recipe = read_recipe(recipe_path(name), settings)
    if name not in REAL_ENCODER:
        layers = recipe.tune.layers if recipe.tune.layers == "all" else min(recipe.tune.layers, 1)
        settings += ["encoder.model=tiny", "encoder.pretrained=false", f"tune.layers={layers}"]
        recipe = read_recipe(recipe_path(name), settings)
    run = train(recipe, folder / "run")
    assert run.finished
    entries = [json.loads(line) for line in run.metrics.read_bytes().splitlines()]
    assert [entry["step"] for entry in entries if "loss" in entry] == list(range(1, read_json(run.info)["steps"] + 1))
    scores = read_json(run.scores)
    if len(recipe.tasks) > 1:
        assert scores.keys() == {*recipe.tasks, "overall"}
    elif kind_of(recipe.main) is not SENTENCES:
        assert scores.get("zero", scores)["total"] == len(tiny.corpus(4))


def brief_settings(recipe: Recipe, folder: Path) -> list[str]:
    """Return the settings that train a recipe for a few steps on files that are written into the folder."""
    tasks = recipe.tasks.values()
    distils = any(task.terms.distil for task in tasks)
    ramps = any(task.augment.ramps_by_epoch for task in tasks)
    epochs = 3 if distils else 2 if ramps else 0.5  # distillation begins after two steps at most, ramps after an epoch
    settings = ["data.holdout=0.3", f"train.epochs={epochs}", "train.threads=1"]
    settings += ["terms.distil.window=1"] if distils else []
    settings += ["data.held_out=none"] if any(task.data.held_out for task in tasks) else []
    if any(task.augment.unanswerable for task in tasks):  # the few texts are not similar
        settings += ["augment.unanswerable.share=0.3", 'augment.unanswerable.kinds=["antonym"]']
    settings += ["mixer.1.size=32"] if any(isinstance(task.mixer, StagesOptions) for task in tasks) else []  # 386 is slow
    for task, options in recipe.tasks.items():
        data = few(folder, task, options)
        place = "data" if task == "main" else f"tasks.{task}.data"
        settings += [f"{place}.train={data}"] + ([f"{place}.dev={data}"] if options.data.dev is not None else [])
    return settings
