"""Every row of the papers has a recipe or a reason, and every model of a row builds, has the paper's size, and trains."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lamina.config import paper_rows as module
from lamina.config.bundled import paper_map_path, paper_numbers_path, pretraining_folder, recipe_names, recipe_path
from lamina.config.paper_rows import (
    PaperRow,
    RowKey,
    encoder_settings,
    paper_numbers,
    paper_rows,
    rows_missing,
    rows_not_trained,
)
from lamina.config.parse import read_recipe
from lamina.encoder.presets import PRESETS
from lamina.errors import LaminaError
from lamina.pretraining.pretrain_recipe import read_pretrain_recipe
from lamina.tasks.checks import build_on_meta
from lamina.training.cost_estimate import count_parameters
from tests.config.test_recipes import check_built, check_trained, different_recipes, shape

ROWS = paper_rows()
TRAINED = [row for row in ROWS if not row.ensemble]
BERT_LARGE = 335_143_938  # the paper's shares of parameters are of this number
WITHOUT_NUMBERS = {("001", "Figure 3"), ("002", "Ablation"), ("003", "Table 3")}  # pictures, and a table that is not public


def models(rows: list[PaperRow]) -> list[PaperRow]:
    """Return one row of each recipe with its settings, the first of the file."""
    found: dict[tuple[str, tuple[str, ...]], PaperRow] = {}
    for row in rows:
        found.setdefault((row.recipe, row.settings), row)
    return list(found.values())


def row_name(row: PaperRow) -> str:
    return str(row.key)


def test_every_row_of_the_papers_is_in_one_table() -> None:
    mapped, others, missing = {row.key for row in ROWS}, rows_not_trained().keys(), rows_missing().keys()
    listed = [*mapped, *others, *missing]
    assert len(listed) == len(set(listed))
    numbers = paper_numbers()
    assert numbers.keys() - set(listed) == set()
    assert {key[:2] for key in set(listed) - numbers.keys()} == WITHOUT_NUMBERS


def test_rows_have_their_numbers() -> None:
    row = next(row for row in ROWS if row.key == RowKey("000", "Table 2", "Dot Attention"))
    assert [(number.metric, number.value, number.unit) for number in row.numbers[:2]] == [
        ("f1", 79.953, "percent"),
        ("em", 76.883, "percent"),
    ]
    assert all(row.numbers == paper_numbers().get(row.key, ()) for row in ROWS)


def test_no_row_is_missing() -> None:
    assert rows_missing() == {}
    assert all(rows_not_trained().values()), "each has its reason"


def test_rows_name_rows_recipes_and_encoders_that_exist() -> None:
    keys = {row.key for row in ROWS}
    for row in ROWS:
        assert bool(row.recipe) != bool(row.ensemble), "an ensemble has no recipe of its own"
        assert {*row.ensemble, *([row.encoder] if row.encoder else [])} <= keys
        assert not row.recipe or row.recipe in recipe_names()
        if row.pretrain:
            path = recipe_path(row.pretrain, pretraining_folder())
            model = next(setting for setting in row.settings if setting.startswith("encoder.model="))
            encoder = read_pretrain_recipe(path, [model]).encoder
            assert encoder is not None and f"encoder.model={encoder.model}" == model
    needed = {read_recipe(row.recipe, row.settings).encoder.model for row in TRAINED}
    assert needed == encoder_settings().keys() and needed <= PRESETS.keys()
    for settings in encoder_settings().values():  # hub ids, which are read when a run starts
        assert re.fullmatch(r"\w[\w-]*/[\w-]+", read_recipe("layer-mixers/plain", settings).encoder.model)


def test_readings_of_a_row_differ() -> None:
    for key in {row.key for row in ROWS}:
        readings = [row for row in ROWS if row.key == key]
        assert len({(row.recipe, row.settings) for row in readings}) == len(readings)
        assert len(readings) == 1 or all(row.note for row in readings), "each reading says why"


def test_checkpoints_of_rows_are_saved_by_their_run() -> None:
    for row in TRAINED:
        options = read_recipe(row.recipe, row.settings).train
        if row.checkpoint:
            assert options.checkpoints is not None and options.schedule == "constant", "a checkpoint equals a shorter run"
            saved = [
                f"{round(n * options.checkpoints, 6):g}" for n in range(1, round(options.epochs / options.checkpoints) + 1)
            ]
            assert row.checkpoint in saved


@pytest.mark.parametrize("row", models(TRAINED), ids=row_name)
def test_a_row_builds_with_the_encoder_of_its_paper(row: PaperRow) -> None:
    check_built(read_recipe(row.recipe, row.settings))


def counted(row: PaperRow) -> list[tuple[str, float]]:
    """Return the numbers of a row that are counts or shares of parameters."""
    return [(number.metric, number.value) for number in row.numbers if number.metric in ("parameters", "percent_parameters")]


@pytest.mark.parametrize("row", [row for row in TRAINED if counted(row)], ids=row_name)
def test_a_row_has_the_parameters_of_its_paper(row: PaperRow) -> None:
    parameters = count_parameters(build_on_meta(read_recipe(row.recipe, row.settings)))
    for metric, value in counted(row):
        if metric == "parameters":
            left_out = 1538 if row.key.row == "L0-A64" else 0  # the head, which the paper's count of this row lacks
            assert parameters["trainable"] - left_out == value
        else:  # with running statistics, as the paper counts
            frozen = sum(n for part, n in parameters["by_part"].items() if part.startswith("encoder."))
            count = parameters["total"] - (frozen if row.encoder else 0)
            assert round(100 * count / BERT_LARGE, 3) == value


def shapes_without_a_recipe() -> list[PaperRow]:
    """Return a row of each shape that no recipe has without settings. The test of recipes trains the other shapes."""
    found: dict[Any, PaperRow | None] = dict.fromkeys(
        shape(read_recipe(n).model_dump(mode="json")) for n in different_recipes()
    )
    for row in models(TRAINED):
        found.setdefault(shape(read_recipe(row.recipe, row.settings).model_dump(mode="json")), row)
    return [row for row in found.values() if row is not None]


@pytest.mark.slow
@pytest.mark.parametrize("row", shapes_without_a_recipe(), ids=row_name)
def test_a_row_trains(row: PaperRow, tmp_path: Path) -> None:
    check_trained(row.recipe, row.settings, tmp_path)


def test_the_files_name_no_path_of_a_machine() -> None:
    for path in (paper_map_path(), paper_numbers_path()):
        assert not re.search(r"(?<![\w.])/(?:home|root|work|tmp|Users)\b", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('{ recipes = "quickstart" }', "rows/000/Table 9/a/0/recipes: Extra inputs are not permitted. Fix: write it as"),
        ('{ recipe = "quickstart", set = ["@large"] }', "no such group of settings: large. Fix: choose one of small"),
        ('{ same = "000/Table 9/b" }', "000/Table 9/b has no recipe of its own"),
    ],
)
def test_mistakes_in_the_map_are_errors(entry: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "papers.toml"
    path.write_text(f'[settings]\nsmall = []\n[rows.000."Table 9"]\na = {entry}\n', encoding="utf-8")
    monkeypatch.setattr(module, "paper_map_path", lambda: path)
    with pytest.raises(LaminaError, match=re.escape(message)):
        paper_rows()
