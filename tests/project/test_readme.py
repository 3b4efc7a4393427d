"""Every command and every example of README.md and docs/ runs, page after page.

Commands that train get options that make them small: a random encoder of three layers, few questions. Nothing else differs from
what the pages say. `tests/project/whole_quickstart.py` trains the real quickstart.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from lamina import train
from lamina.data.sources import load_examples, load_sentences
from lamina.utils.files import read_json
from tests.checkout import ROOT, copy_checkout, installed_in
from tests.command import lamina
from tests.project.pages import blocks, commands, pages, steps, text_of
from tests.reader.test_documents import pdf
from tests.small_encoder import write_small_encoder

RECURSIVE = "make test"  # what runs this test
TRAINING = ("make quickstart", "lamina train ", "lamina fit ", "lamina pretrain ", "lamina tune ")
ALREADY_SMALL = ("recipe.json", "best.json")  # recipes that a small run wrote

# A page uses its own runs and those of the pages before it in its group. Groups can run at the same time.
QUESTIONS = (
    "README.md",
    "docs/index.md",
    "docs/ask.md",
    "docs/serve.md",
    "docs/train.md",
    "docs/fit.md",
    "docs/train-less.md",
    "docs/several-texts.md",
    "docs/evaluate.md",
    "docs/runtime.md",
    "docs/calibrate.md",
    "docs/analyze.md",
    "docs/migrating.md",
    "docs/techniques/index.md",
    "docs/techniques/augmentation.md",
    "docs/techniques/schedules.md",
)
SENTENCES = ("docs/sentences.md", "docs/pretrain.md", "docs/tune.md", "docs/studies.md")

SMALL = {"encoder.model": "small", "train.threads": "1"}
FEW = {"data.questions": "60", "data.dev_questions": "40"}
START = "small-reader"  # a small model that answers questions, for `lamina fit`
FEW_SENTENCES = {f"tasks.{task}.{name}": few for task in ("sentiment", "paraphrase", "similarity") for name, few in FEW.items()}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in a path with spaces, the small models that runs start from, and files as a user has them."""
    folder = copy_checkout(tmp_path_factory.mktemp("a fresh checkout"))
    write_small_encoder(folder / "small")
    settings = {**SMALL, **FEW, "encoder.model": str(folder / "small")}
    train("quickstart", folder / START, settings=settings)
    write_user_files(folder)
    return folder


def write_user_files(folder: Path) -> None:
    """Write my.csv, my-dev.csv, questions.csv, report.pdf, the folder texts, and moods.toml of the page with its tables."""
    examples = load_examples("fables/dev")
    for name, some in (("my.csv", examples[:60]), ("my-dev.csv", examples[60:80])):
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["question", "context", "answer"])
            rows.writerows([e.question, e.context, e.answers[0].text if e.answers else ""] for e in some)
    with (folder / "questions.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["question", "context"], *([e.question, e.context] for e in examples[80:120])])
    for name, source, count in (("moods.csv", "fables/sentiment/train", 40), ("moods-dev.csv", "fables/sentiment/dev", 10)):
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            labelled = [[one.first, "good" if one.label in ("3", "4") else "bad"] for one in load_sentences(source)[:count]]
            csv.writer(file).writerows([["text", "label"], *labelled])
    (folder / "moods.toml").write_text(blocks(text_of("docs/sentences.md"), "toml")[0], encoding="utf-8")
    (folder / "report.pdf").write_bytes(pdf("The report was written in May.", "It was signed by Ada Thorn."))
    (folder / "texts").mkdir()
    (folder / "texts" / "contract.txt").write_text("The contract was signed by Jonas Thele in 1871.")
    (folder / "texts" / "mill.txt").write_text("The mill was built by Ada Thorn.")


def small(command: str) -> str:
    """Return the command with more options if it trains; what it sets itself stays as it is."""
    match command.split()[:3]:
        case ["make", "quickstart"]:
            return f"{command} settings='--from {START} --minutes 0.2'"
        case [_, "fit", data]:
            return f"{command} {options(SMALL) if data == 'moods.csv' else f'--from {START}'}"
        case [_, "pretrain", _]:
            return f"{command} {options(SMALL)}"
        case [_, "train" | "tune", recipe] if not recipe.endswith(ALREADY_SMALL):
            wanted = SMALL | (FEW_SENTENCES if recipe == "sentences" else FEW)
            return f"{command} {options({name: value for name, value in wanted.items() if f' {name}=' not in command})}"
    return command


def options(settings: dict[str, str]) -> str:
    return " ".join(f"--set {name}={value}" for name, value in settings.items())


def run(group: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Run the commands and examples of some pages in their order. Return what each command printed.

    A command that an earlier page has as well runs once.
    """
    monkeypatch.chdir(folder)
    monkeypatch.setenv("LAMINA_CACHE", str(folder / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PATH", f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    printed = dict[str, str]()
    for language, step in (step for page in group for step in steps(text_of(page))):
        if language == "python":
            exec(compile(step, "an example of a page", "exec"), {"__name__": "__main__"})
        elif step != RECURSIVE and step not in printed:
            words = shlex.split(small(step))
            printed[step] = in_shell(step) if words[0] != "lamina" or {"|", ">"} & set(words) else in_process(words[1:])
    return printed


def in_process(words: list[str]) -> str:
    done = lamina(*words)
    assert done.code == 0, f"{words}\n{done.out}{done.err}"
    return done.out


def in_shell(command: str) -> str:
    """Run `make`, pipes and redirections as a terminal does."""
    words = ["/bin/bash", "-c", small(command)]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.xdist_group("sentences")
def test_the_pages_about_sentences_run(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run(SENTENCES, copy, monkeypatch)
    scores = read_json(copy / "runs/sentences/scores.json")
    assert scores.keys() == {"sentiment", "paraphrase", "similarity", "overall"}
    (similarities,) = [out for command, out in printed.items() if command.startswith("lamina similar")]
    assert len(similarities.splitlines()) == 2
    trials = read_json(copy / "runs/search/trials.json")
    assert [trial["state"] for trial in trials] == ["done"] * 2
    best = read_json(copy / "runs/search/best.json")
    assert best["train"]["lr"] == trials[0]["settings"]["train.lr"]


@pytest.mark.slow
@pytest.mark.xdist_group("quickstart")
def test_the_readme_and_the_pages_about_questions_run(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert commands(text_of("README.md"))[:2] == ["make quickstart", RECURSIVE]
    printed = run(QUESTIONS, copy, monkeypatch)
    assert len(re.findall(r"^A: (.*)$", printed["make quickstart"], re.MULTILINE)) == 6
    scores = read_json(copy / "runs/quickstart/scores.json")
    assert scores["zero"]["total"] == int(FEW["data.dev_questions"])
    (again,) = [out for command, out in printed.items() if command.endswith("--out runs/half --resume")]
    assert again.splitlines()[-1] == "run: runs/half"
    assert installed_in(copy).is_relative_to(ROOT), "the environment is still that of this checkout"


def test_make_does_not_install_a_copy(tmp_path: Path) -> None:
    """Even if pyproject.toml is newer than the last install: the copy shares the environment of this checkout."""
    folder = copy_checkout(tmp_path)
    planned = subprocess.run(["make", "-n", "quickstart"], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert "lamina fit fables/dev" in planned
    assert "scripts/install.sh" not in planned


def test_every_page_with_a_command_or_an_example_is_run() -> None:
    with_steps = {str(page.relative_to(ROOT)) for page in pages() if list(steps(text_of(page)))}
    assert with_steps == {*QUESTIONS, *SENTENCES}


def test_a_command_made_small_only_has_more_options() -> None:
    every = [command for page in pages() for command in commands(text_of(page))]
    changed = [command for command in every if small(command) != command]
    assert all(small(command).startswith(f"{command} ") for command in changed)
    trains = [command for command in every if command.startswith(TRAINING)]
    assert changed == [
        command for command in trains if not command.split()[2:3] or not command.split()[2].endswith(ALREADY_SMALL)
    ]
