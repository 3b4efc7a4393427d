"""Every command and every example of the README runs, in the README's order."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from lamina.files import read_json

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RECURSIVE = "make test"  # what runs this test


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    lines = [line.partition("  #")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in a path with spaces that shares this one's virtual environment."""
    folder = tmp_path_factory.mktemp("a fresh checkout")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
            (folder / name).chmod((ROOT / name).stat().st_mode)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


@pytest.mark.slow
@pytest.mark.xdist_group("quickstart")
def test_the_commands_and_examples_of_the_readme_run(copy: Path) -> None:
    assert commands()[:2] == ["make quickstart", RECURSIVE]
    printed = {}
    for command in commands():
        if command != RECURSIVE:
            done = subprocess.run(
                command,
                shell=True,
                cwd=copy,
                env=os.environ | {"LAMINA_CACHE": str(copy / "cache")},
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            printed[command] = done.stdout
    for example in blocks("python"):
        subprocess.run([copy / ".venv/bin/python", "-c", example], cwd=copy, check=True, stdout=subprocess.DEVNULL)

    answers = re.findall(r"^A: (.*)$", printed["make quickstart"], re.MULTILINE)
    assert len(answers) == 3
    assert sum(answer.startswith("no answer") for answer in answers) == 1
    scores = read_json(copy / "runs/quickstart/scores.json")
    all_null = 100 * scores["zero"]["NoAns_total"] / scores["zero"]["total"]
    assert scores["tuned"]["f1"] >= 70
    assert scores["tuned"]["f1"] >= all_null + 25

    again = subprocess.run(["make", "quickstart"], cwd=copy, capture_output=True, text=True, check=True)
    assert "finished already" in again.stderr


def test_the_readme_names_no_command_that_does_not_exist() -> None:
    from typer.main import get_group

    from lamina.cli import app

    known = set(get_group(app).commands)
    assert {command.split()[1] for command in commands() if command.startswith(".venv/bin/lamina")} <= known
