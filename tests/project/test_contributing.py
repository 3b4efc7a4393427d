"""CONTRIBUTING.md is true: its files exist, and its additions work in a copy of the package."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import tiny
from tests.patched import CONTRIBUTING, ROOT, PatchedPackage, code_blocks

PROJECT_FILE = re.compile(r"(?<!`)`([\w./-]*/|[\w./-]+\.(?:py|md|toml|txt))`(?!`)")
SECTIONS = ("A mixer", "A loss term", "A data format")


def test_every_named_file_exists() -> None:
    text = re.sub(r"^```.*?^```$", "", CONTRIBUTING.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    named = set(PROJECT_FILE.findall(text))
    assert len(named) > 20
    places = (ROOT, ROOT / "src" / "lamina")
    assert [name for name in sorted(named) if not any((place / name).exists() for place in places)] == []


@pytest.mark.parametrize("section", [*SECTIONS, "A head with its own kind of task"])
def test_addition_changes_as_many_files_as_the_table_has(section: str) -> None:
    rows = dict(re.findall(r"^\| (\w+)[^|]*\| (\d+ \| \d+):", CONTRIBUTING.read_text(encoding="utf-8"), re.MULTILINE))
    shown = [path for _, path, _ in code_blocks(section) if path]
    changed = [path for path in shown if (ROOT / path).exists()]
    new = 2 if section.startswith("A head") else len(shown) - len(changed)  # its files are in tests/tasks/numbers
    (wanted,) = [count for name, count in rows.items() if name in section.split()]
    assert f"{new} | {len(changed)}" == wanted


def test_additions_train(tmp_path: Path) -> None:
    """Train with the mixer, the term and the format of questions in one run."""
    package = PatchedPackage.copy(tmp_path / "package")
    for section in SECTIONS:
        package.add_section(section)
    for name, examples in (("train", tiny.corpus(6)), ("dev", tiny.corpus(8)[30:])):
        lines = [f"C {e.context}\nQ {e.question}\nA {e.answers[0].text if e.answers else ''}\n" for e in examples]
        (tmp_path / f"{name}.cqa").write_text("".join(lines))
    text = tiny.SMALL_RECIPE.format(folder=tmp_path).replace(".json", ".cqa")
    (tmp_path / "small.toml").write_text(f'{text}\n[mixer]\ntype = "maximum"\n[terms.entropy]\n')
    package.lamina("train", tmp_path / "small.toml", "--out", tmp_path / "run")
    (task,) = json.loads((tmp_path / "run" / "recipe.json").read_text())["tasks"].values()
    assert (task["mixer"], task["terms"]["entropy"]) == ({"type": "maximum"}, {"weight": 0.1})
    assert len(json.loads((tmp_path / "run" / "predictions.json").read_text())) == 10
