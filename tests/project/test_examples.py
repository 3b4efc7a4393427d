"""Every script of examples/ runs, with a small encoder and few rows."""

from __future__ import annotations

import ast
import csv
import re
import runpy
import sys
from pathlib import Path

import pytest

from lamina.config.parse import read_recipe
from lamina.training import trainer
from tests import tiny
from tests.checkout import ROOT
from tests.project.pages import pages, text_of
from tests.reader.test_documents import pdf
from tests.small_encoder import write_small_encoder

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SMALL = ("train.threads=1", "window.length=64", "window.query=16", "train.epochs=1")


def run(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: object) -> None:
    """Run a script in this process, as `python examples/NAME` does."""
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")


def write_questions(folder: Path) -> tuple[Path, Path]:
    """Write train.csv and dev.csv."""
    examples = tiny.corpus(15)
    for name, some in (("train", examples[:60]), ("dev", examples[60:])):
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["question", "context", "answer"])
            table.writerows([e.question, e.context, e.answers[0].text if e.answers else ""] for e in some)
    return folder / "train.csv", folder / "dev.csv"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def model(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of a small model that answers questions."""
    folder = tmp_path_factory.mktemp("model")
    train, dev = write_questions(folder)
    settings = [f"data.train={train}", f"data.dev={dev}", f"encoder.model={encoder}", *SMALL]
    return trainer.train("quickstart", folder / "run", settings=settings).path


def test_asking_a_folder_of_pdfs_writes_a_row_for_each_file_and_question(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.pdf").write_bytes(pdf("The report was written in May.", "It was signed by Ada Thorn."))
    (tmp_path / "deep" / "b.pdf").write_bytes(pdf("The mill was built in 1712."))
    asked = ["Who signed it?", "When was the mill built?"]
    run(monkeypatch, "ask_a_folder_of_pdfs.py", tmp_path, *asked, "--model", model, "--out", tmp_path / "answers.csv")
    rows = list(csv.DictReader((tmp_path / "answers.csv").read_text(encoding="utf-8").splitlines()))
    assert [(Path(row["file"]).name, row["question"]) for row in rows] == [(f, q) for f in ("a.pdf", "b.pdf") for q in asked]
    for row in rows:
        assert row["answer"] in row["sentence"]
        assert bool(row["answer"]) == row["place"].startswith("page ")
        assert 0 <= float(row["confidence"]) <= 1
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_fine_tuning_on_a_csv_trains_two_runs_and_compares_them(
    encoder: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train, dev = write_questions(tmp_path)
    settings = [word for setting in (f"encoder.model={encoder}", *SMALL) for word in ("--set", setting)]
    run(monkeypatch, "fine_tune_on_a_csv_and_compare.py", train, dev, "--start", model, "--out", tmp_path / "runs", *settings)
    plain, warm, verdict = capsys.readouterr().out.splitlines()[:3]
    assert plain.startswith(f"{tmp_path / 'runs' / 'plain'}: F1 ") and warm.startswith(f"{tmp_path / 'runs' / 'warm'}: F1 ")
    assert "15 questions" in verdict
    starts = [read_recipe(tmp_path / "runs" / name / "recipe.json").encoder.model for name in ("plain", "warm")]
    assert starts == [str(encoder), str(model)]


def test_probing_prints_and_draws_every_layer(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "probe_the_layers.py", "--model", encoder, "--rows", 40, "--out", tmp_path / "layers.png")
    printed = capsys.readouterr().out
    scores = [float(score) for score in re.findall(r"^layer \d: accuracy ([\d.]+)$", printed, re.MULTILINE)]
    assert len(scores) == 4 and all(0 <= score <= 1 for score in scores)
    assert (tmp_path / "layers.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_says_how_to_run_it_and_how_long_it_takes(example: Path) -> None:
    text = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or ""
    assert f"python examples/{example.name}" in text
    assert " takes " in text


def test_every_example_is_named_on_a_page_and_every_named_one_exists() -> None:
    named = {name for page in pages() for name in re.findall(r"examples/(\w+\.py)", text_of(page))}
    assert named == {example.name for example in EXAMPLES}
