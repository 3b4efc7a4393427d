"""Spaces: their files, their settings and their errors."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from lamina.config.bundled import recipe_names, space_path, spaces_folder
from lamina.config.parse import parse_recipe
from lamina.errors import LaminaError
from lamina.experiments.tuning.space import Range, Space, as_settings, read_space

NEITHER = "train.lr: is neither a list of values nor a range. Fix: write [1e-5, 1e-3] or { low = 1e-5, high = 1e-3 }"
FIXED_FIELD = "cannot be searched, because it decides how the trials are scored. Fix: leave it out"
HEADS = {"minbert": ["data.train=x", "head.type=cacnn"]}  # settings that a space needs in its recipe


def space(tmp_path: Path, text: str) -> Space:
    path = tmp_path / "space.toml"
    path.write_text(text)
    return read_space(path)


def test_grid_is_the_product_of_its_lists_in_order(tmp_path: Path) -> None:
    found = space(tmp_path, '[space]\n"train.lr" = [1e-5, 3e-5]\ntune.layers = ["all", 1]\n[space.train]\nepochs = [1, 2, 3]\n')
    wanted = [
        {"train.lr": lr, "train.epochs": epochs, "tune.layers": layers}
        for lr, layers, epochs in itertools.product((1e-5, 3e-5), ("all", 1), (1, 2, 3))
    ]
    assert found.grid() == wanted
    assert list(found.space) == ["train.lr", "tune.layers", "train.epochs"]
    assert len(found) == found.trials == 12


def test_settings_reach_the_recipe_unchanged() -> None:
    settings = {"train.lr": 3e-5, "tune.layers": "all", "train.minutes": 2, "data.dev": 'a "quoted" \\ name'}
    recipe = parse_recipe({"data": {"train": "x"}}, as_settings(settings))
    assert (recipe.train.lr, recipe.tune.layers, recipe.train.minutes) == (3e-5, "all", 2)
    assert recipe.main.data.dev == settings["data.dev"]


def test_corners_have_every_value_and_both_ends(tmp_path: Path) -> None:
    found = space(
        tmp_path, '[search]\nmethod = "random"\n[space]\ntrain.lr = { low = 0.1, high = 0.5 }\ntune.layers = ["all", 0, 1]\n'
    )
    corners = list(found.corners())
    assert {corner["train.lr"] for corner in corners} == {0.1, 0.5}
    assert {corner["tune.layers"] for corner in corners} == {"all", 0, 1}
    assert found.trials == 20


@pytest.mark.parametrize("name", recipe_names(spaces_folder()))
def test_bundled_spaces_fit_recipes(name: str) -> None:
    found = read_space(space_path(name))
    for corner in found.corners():
        parse_recipe({}, [*HEADS.get(name, ["data.train=x"]), *as_settings(corner)])


def test_range_of_whole_numbers_is_whole() -> None:
    assert Range(low=1, high=9, step=2).whole
    assert not Range(low=1, high=9.0).whole


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[space]\n", 'space: names no field of the recipe. Fix: add one, such as "train.lr" = [1e-5, 3e-5]'),
        (
            "[search]\nmethod = 'magic'\n[space]\na = [1]",
            "search.method: Input should be 'grid', 'tpe' or 'random'. Fix: change this value",
        ),
        (
            "[search]\ntrails = 3\n[space]\na = [1]",
            "search.trails: there is no such field. Fix: choose one of method, trials, seed, halving, workers",
        ),
        ("[serach]\n[space]\na = [1]", "serach: there is no such table. Fix: choose one of search, space"),
        ("[space]\ntrain.lr = 3", NEITHER),
        ("[space]\ntrain.lr = []", NEITHER),
        ("[space]\ntrain.lr = [1, 2, 1]", "train.lr: has 1 twice. Fix: remove one"),
        (
            "[space]\ntrain.lr = {low = 1, high = 2}",
            'train.lr: a grid cannot have a range. Fix: write a list of values, or set search.method = "tpe" or "random"',
        ),
        ("[space]\ndata.dev = ['a', 'b']", f"data.dev: {FIXED_FIELD}"),
        ("[space]\ntrain.seed = [1, 2]", f"train.seed: {FIXED_FIELD}"),
        ("[space]\ndata.train.0.share = [0.5, 1.0]", f"data.train.0.share: {FIXED_FIELD}"),
        ("space = 3", "space is not a table. Fix: write its fields below [space]"),
        (
            "[space",
            "is not valid TOML (Expected ']' at the end of a table declaration (at end of document)). Fix: correct this line",
        ),
    ],
)
def test_bad_space_raises_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(LaminaError) as caught:
        space(tmp_path, text)
    assert str(caught.value) == f"{tmp_path / 'space.toml'}: {complaint}"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{ low = 2, high = 1 }", "train.lr: low = 2 is not less than high = 1. Fix: lower low or raise high"),
        (
            "{ low = 0, high = 1, log = true }",
            "train.lr: low = 0 is not above 0, which log = true needs. Fix: raise low or leave log out",
        ),
        ("{ low = 1, high = 2, log = true, step = 1 }", "train.lr: log and step exclude each other. Fix: leave one out"),
        (
            "{ low = 0.0, high = 0.5, step = 0.2 }",
            "train.lr: steps of 0.2 do not lead from 0.0 to 0.5. Fix: choose a step that divides high - low",
        ),
        ("{ low = 0.0 }", "train.lr.high: is missing. Fix: add it"),
        ("{ low = 0.0, high = 1, base = 2 }", "train.lr.base: there is no such field. Fix: choose one of low, high, log, step"),
    ],
)
def test_bad_range_raises_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(LaminaError) as caught:
        space(tmp_path, f"[search]\nmethod = 'tpe'\n[space]\ntrain.lr = {text}")
    assert str(caught.value) == f"{tmp_path / 'space.toml'}: {complaint}"
