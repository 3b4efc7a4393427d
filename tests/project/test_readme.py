"""Every command and every example of the README runs, in the README's order.

Trainings get options that make them small: a random encoder of three layers, few questions. Nothing else differs from what
the README says. `tests/project/whole_quickstart.py` trains the real quickstart.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
import transformers

from lamina.encoder.load import minilm_folder
from lamina.utils.files import read_json
from tests.checkout import ROOT, copy_checkout, installed_in
from tests.command import lamina

README = (ROOT / "README.md").read_text(encoding="utf-8")
RECURSIVE = "make test"  # what runs this test
LAMINA = ".venv/bin/lamina"

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
    """A checkout in a path with spaces, and in it the small encoder that the trainings start from."""
    folder = copy_checkout(tmp_path_factory.mktemp("a fresh checkout"))
    torch.manual_seed(0)
    shape = {"num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128}
    transformers.BertModel(transformers.BertConfig(**shape)).save_pretrained(folder / "small")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(minilm_folder() / name, folder / "small" / name)
    return folder


SMALL = {"encoder.model": "small", "train.threads": "1"}
FEW = {"data.questions": "60", "data.dev_questions": "40"}  # as the README has it: `average` wants equal recipes
FEW_SENTENCES = {f"tasks.{task}.{name}": few for task in ("sentiment", "paraphrase", "similarity") for name, few in FEW.items()}


def small(command: str) -> str:
    """The same command with more options, where it trains; what it sets itself stays as it is."""
    match command.split()[:3]:
        case ["make", "quickstart"]:
            return f"{command} settings='{options(SMALL | FEW)}'"
        case [_, "pretrain", _]:
            return f"{command} {options(SMALL)}"
        case [_, "train" | "tune", recipe]:
            wanted = SMALL | (FEW_SENTENCES if recipe == "sentences" else FEW)
            return f"{command} {options({name: value for name, value in wanted.items() if f' {name}=' not in command})}"
    return command


def options(settings: dict[str, str]) -> str:
    return " ".join(f"--set {name}={value}" for name, value in settings.items())


def run(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Run all commands and examples of a text; what the commands printed. A shell runs `make`, pipes and redirections."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("LAMINA_CACHE", str(folder / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    printed = {}
    for command in commands(text):
        if command != RECURSIVE:
            words = shlex.split(small(command))
            shown = in_shell(command) if words[0] != LAMINA or {"|", ">"} & set(words) else in_process(words[1:])
            printed[command] = shown
    for example in blocks(text, "python"):
        exec(compile(example, "README.md", "exec"), {"__name__": "__main__"})
    return printed


def in_process(words: list[str]) -> str:
    done = lamina(*words)
    assert done.code == 0, f"{words}\n{done.out}{done.err}"
    return done.out


def in_shell(command: str) -> str:
    done = subprocess.run(small(command), shell=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.xdist_group("sentences")
def test_the_commands_and_examples_of_sentences_run(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run(parts()[1], copy, monkeypatch)
    scores = read_json(copy / "runs/sentences/scores.json")
    assert scores.keys() == {"sentiment", "paraphrase", "similarity", "overall"}
    (said,) = [out for command, out in printed.items() if "lamina similar" in command]
    assert len(said.splitlines()) == 2
    trials = read_json(copy / "runs/search/trials.json")
    assert [trial["state"] for trial in trials] == ["done"] * 2
    best = read_json(copy / "runs/search/best.json")
    assert best["train"]["lr"] == trials[0]["settings"]["train.lr"]


@pytest.mark.slow
@pytest.mark.xdist_group("quickstart")
def test_the_commands_and_examples_of_the_readme_run(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert commands()[:2] == ["make quickstart", RECURSIVE]
    printed = run(parts()[0], copy, monkeypatch)
    assert len(re.findall(r"^A: (.*)$", printed["make quickstart"], re.MULTILINE)) == 3
    scores = read_json(copy / "runs/quickstart/scores.json")
    assert scores["zero"]["total"] == int(FEW["data.dev_questions"])
    (again,) = [out for command, out in printed.items() if command.endswith("--out runs/mine --resume")]
    assert again.splitlines()[-1] == "run: runs/mine"
    assert installed_in(copy).is_relative_to(ROOT), "the environment is still that of this checkout"


def test_a_command_made_small_only_has_more_options() -> None:
    changed = [command for command in commands() if small(command) != command]
    assert all(small(command).startswith(f"{command} ") for command in changed)
    trains = ("make quickstart", f"{LAMINA} train ", f"{LAMINA} pretrain ", f"{LAMINA} tune ")
    assert changed == [command for command in commands() if command.startswith(trains)]


def test_the_readme_names_no_command_that_does_not_exist() -> None:
    from typer.main import get_group

    from lamina.cli import app

    known = set(get_group(app).commands)
    assert {command.split()[1] for command in commands() if command.startswith(LAMINA)} <= known
