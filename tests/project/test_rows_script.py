"""scripts/rows.py: rows are trained once, and their results stay when the run folder is deleted."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "rows.py"
TABLE = """
reach = 0.0
base = ["data.train=fables/train", "data.dev=fables/dev", "data.questions=20", "data.dev_questions=10", "data.holdout=0.2",
  "encoder.model=tiny", "encoder.pretrained=false", "train.epochs=1", "train.threads=1"]
[rows]
"one" = []
"other" = ["train.lr=2e-4"]
"""


@pytest.mark.slow
def test_row_is_trained_once_and_stays_without_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "table"
    folder.mkdir(parents=True)
    (folder / "rows.toml").write_text(TABLE)
    printed = rows(folder, "--only", "one")
    assert "| one |" in printed and "| other |" not in printed
    first = json.loads((folder / "rows.json").read_text())
    assert first["one"]["minutes to F1 0.0"] is not None

    shutil.rmtree(tmp_path / "runs")
    assert "| other |" in rows(folder, "--missing")
    both = json.loads((folder / "rows.json").read_text())
    assert both["one"] == first["one"], "not changed"
    assert [path.name for path in (tmp_path / "runs" / "table").iterdir() if path.is_dir()] == ["other"]

    changed = TABLE.replace('"one" = []', '"one" = ["train.seed=1"]')
    (folder / "rows.toml").write_text(changed)
    rows(folder, "--missing")
    again = json.loads((folder / "rows.json").read_text())
    assert again["one"]["settings"] == [*both["one"]["settings"], "train.seed=1"], "a row with other settings is another row"
    assert again["other"] == both["other"]

    (folder / "rows.toml").write_text(changed.replace("train.epochs=1", "train.epochs=2"))
    shutil.rmtree(tmp_path / "runs" / "table" / "other")
    rows(folder, "--only", "other", "--missing")
    assert set(json.loads((folder / "rows.json").read_text())) == {"other"}, "the settings of all rows count too"


@pytest.mark.parametrize("table", ["parameter-efficiency", "layer-mixers", "korean-qa/english"])
def test_rows_of_a_withdrawn_set_are_no_rows_of_its_successor(table: str) -> None:
    folder = SCRIPT.parents[1] / "results" / table
    settings = tomllib.loads((folder / "rows.toml").read_text(encoding="utf-8"))
    assert set(json.loads((folder / "rows.json").read_text(encoding="utf-8"))) & set(settings["rows"])
    assert script().recorded(folder, settings) == {}


def test_ensemble_is_kept_only_with_its_rows(tmp_path: Path) -> None:
    found = {"a": {"settings": ["x=1"]}, "b": {"settings": ["x=1", "y=2"]}, "a + b": {"members": ["a", "b"]}}
    (tmp_path / "rows.json").write_text(json.dumps(found))
    table = {"base": ["x=1"], "rows": {"a": [], "b": ["y=2"]}, "ensembles": {"a + b": ["a", "b"]}}
    assert script().recorded(tmp_path, table) == found
    assert set(script().recorded(tmp_path, table | {"rows": {"a": [], "b": ["y=3"]}})) == {"a"}


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rows_script", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(folder: Path, *options: str) -> str:
    command = [sys.executable, str(SCRIPT), str(folder), *options]
    done = subprocess.run(command, cwd=folder.parents[1], env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
