"""Spaces: what a file may say, and what is made of it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from lamina.config.bundled import recipe_names, space_path, spaces_folder
from lamina.config.parse import parse_recipe
from lamina.errors import LaminaError
from lamina.experiments.tuning.space import Range, Space, as_settings, read_space

HEADS = {"minbert": ["data.train=x", "head.type=cacnn"]}  # what a space asks of a recipe


def space(tmp_path: Path, text: str) -> Space:
    path = tmp_path / "space.toml"
    path.write_text(text)
    return read_space(path)


def test_a_grid_is_the_product_of_its_lists_in_their_order(tmp_path: Path) -> None:
    found = space(tmp_path, '[space]\n"train.lr" = [1e-5, 3e-5]\ntune.layers = ["all", 1]\n[space.train]\nepochs = [1, 2, 3]\n')
    wanted = [
        {"train.lr": lr, "train.epochs": epochs, "tune.layers": layers}
        for lr, layers, epochs in itertools.product((1e-5, 3e-5), ("all", 1), (1, 2, 3))
    ]
    assert found.grid() == wanted
    assert list(found.space) == ["train.lr", "tune.layers", "train.epochs"]
    assert len(found) == found.trials == 12


def test_settings_reach_the_recipe_as_they_were_written() -> None:
    settings = {"train.lr": 3e-5, "tune.layers": "all", "train.minutes": 2, "data.dev": 'a "quoted" \\ name'}
    recipe = parse_recipe({"data": {"train": "x"}}, as_settings(settings))
    assert (recipe.train.lr, recipe.tune.layers, recipe.train.minutes) == (3e-5, "all", 2)
    assert recipe.main.data.dev == settings["data.dev"]


def test_the_corners_hold_every_value_and_both_ends(tmp_path: Path) -> None:
    found = space(
        tmp_path, '[search]\nmethod = "random"\n[space]\ntrain.lr = { low = 0.1, high = 0.5 }\ntune.layers = ["all", 0, 1]\n'
    )
    corners = list(found.corners())
    assert {corner["train.lr"] for corner in corners} == {0.1, 0.5}
    assert {corner["tune.layers"] for corner in corners} == {"all", 0, 1}
    assert found.trials == 20


@pytest.mark.parametrize("name", recipe_names(spaces_folder()))
def test_the_spaces_that_come_with_lamina_fit_recipes(name: str) -> None:
    found = read_space(space_path(name))
    for corner in found.corners():
        parse_recipe({}, [*HEADS.get(name, ["data.train=x"]), *as_settings(corner)])


def test_a_range_of_whole_numbers_is_whole() -> None:
    assert Range(low=1, high=9, step=2).whole
    assert not Range(low=1, high=9.0).whole


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[space]\n", 'space: names no field of the recipe, such as "train.lr" = [1e-5, 3e-5]'),
        ("[search]\nmethod = 'magic'\n[space]\na = [1]", "search.method: Input should be 'grid', 'tpe' or 'random'"),
        (
            "[search]\ntrails = 3\n[space]\na = [1]",
            "search.trails: no such field; there are method, trials, seed, halving, workers",
        ),
        ("[serach]\n[space]\na = [1]", "serach: no such table; there are search and space"),
        ("[space]\ntrain.lr = 3", "train.lr: expected a list of values, or a range as { low = 1e-5, high = 1e-3 }"),
        ("[space]\ntrain.lr = []", "train.lr: expected a list of values, or a range as { low = 1e-5, high = 1e-3 }"),
        ("[space]\ntrain.lr = [1, 2, 1]", "train.lr: 1 is there twice"),
        (
            "[space]\ntrain.lr = {low = 1, high = 2}",
            'train.lr: a grid needs a list of values: ranges are for search.method = "tpe" or "random"',
        ),
        ("[space]\ndata.dev = ['a', 'b']", "data.dev: cannot be searched: it decides which questions the trials are scored on"),
        ("[space]\ntrain.seed = [1, 2]", "train.seed: cannot be searched: it decides which questions the trials are scored on"),
        ("space = 3", "space: expected a table"),
        ("[space", "not valid TOML (Expected ']' at the end of a table declaration (at end of document))"),
    ],
)
def test_a_bad_space_gets_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(LaminaError) as caught:
        space(tmp_path, text)
    assert str(caught.value) == f"{tmp_path / 'space.toml'}: {complaint}"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{ low = 2, high = 1 }", "train.lr: low = 2 must be less than high = 1"),
        ("{ low = 0, high = 1, log = true }", "train.lr: low = 0 must be more than 0 where log = true"),
        ("{ low = 1, high = 2, log = true, step = 1 }", "train.lr: log and step do not go together: leave one out"),
        ("{ low = 0.0, high = 0.5, step = 0.2 }", "train.lr: step = 0.2 does not lead from 0.0 to 0.5"),
        ("{ low = 0.0 }", "train.lr.high: is missing"),
        ("{ low = 0.0, high = 1, base = 2 }", "train.lr.base: no such field; there are low, high, log, step"),
    ],
)
def test_a_bad_range_gets_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(LaminaError) as caught:
        space(tmp_path, f"[search]\nmethod = 'tpe'\n[space]\ntrain.lr = {text}")
    assert str(caught.value) == f"{tmp_path / 'space.toml'}: {complaint}"
