"""Every command and every example of the README runs, in the README's order."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lamina.utils.files import read_json

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RECURSIVE = "make test"  # what runs this test


APART = "## Judge sentences"  # needs nothing of the other sections, so that it can run beside them


def parts() -> tuple[str, str]:
    """The README without the section that stands alone, and that section."""
    before, heading, rest = README.partition(f"{APART}\n")
    section, next_heading, after = rest.partition("\n## ")
    assert heading and next_heading
    return before + next_heading + after, section


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(text: str = README) -> list[str]:
    lines = [line.partition("  #")[0].strip() for block in blocks(text, "sh") for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in a path with spaces that shares this one's virtual environment, as old as this one: `make` must not install
    the copy there in place of it."""
    folder = tmp_path_factory.mktemp("a fresh checkout")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


def run(text: str, folder: Path, **environment: str) -> dict[str, str]:
    """Runs all commands and examples of a text; what the commands printed."""
    printed = {}
    for command in commands(text):
        if command != RECURSIVE:
            done = subprocess.run(
                command,
                shell=True,
                cwd=folder,
                env=os.environ | {"LAMINA_CACHE": str(folder / "cache")} | environment,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            printed[command] = done.stdout
    for example in blocks(text, "python"):
        subprocess.run([folder / ".venv/bin/python", "-c", example], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return printed


@pytest.mark.slow
@pytest.mark.xdist_group("sentences")
def test_the_commands_and_examples_of_sentences_run(copy: Path) -> None:
    printed = run(parts()[1], copy, OMP_NUM_THREADS="1")  # two trainings side by side must not share out both cores each
    scores = read_json(copy / "runs/sentences/scores.json")
    assert scores.keys() == {"sentiment", "paraphrase", "similarity", "overall"}
    (said,) = [out for command, out in printed.items() if "lamina similar" in command]
    assert len(said.splitlines()) == 2
    assert (copy / "runs/search/best.json").is_file()


@pytest.mark.slow
@pytest.mark.xdist_group("quickstart")
def test_the_commands_and_examples_of_the_readme_run(copy: Path) -> None:
    assert commands()[:2] == ["make quickstart", RECURSIVE]
    printed = run(parts()[0], copy)
    answers = re.findall(r"^A: (.*)$", printed["make quickstart"], re.MULTILINE)
    assert len(answers) == 3
    assert sum(answer.startswith("no answer") for answer in answers) == 1
    scores = read_json(copy / "runs/quickstart/scores.json")
    all_null = 100 * scores["zero"]["NoAns_total"] / scores["zero"]["total"]
    assert scores["tuned"]["f1"] >= 70
    assert scores["tuned"]["f1"] >= all_null + 25

    again = subprocess.run(["make", "quickstart"], cwd=copy, capture_output=True, text=True, check=True)
    assert "finished already" in again.stderr
    where = [str(copy / ".venv/bin/python"), "-c", "import lamina; print(lamina.__file__)"]
    installed = subprocess.run(where, cwd=copy, capture_output=True, text=True, check=True).stdout
    assert Path(installed.strip()).is_relative_to(ROOT), "the environment is still that of this checkout"


def test_the_readme_names_no_command_that_does_not_exist() -> None:
    from typer.main import get_group

    from lamina.cli import app

    known = set(get_group(app).commands)
    assert {command.split()[1] for command in commands() if command.startswith(".venv/bin/lamina")} <= known
