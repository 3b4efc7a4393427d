"""Add a kind of task with its own head: two new files, and a line in each of two registries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lamina.data.squad import to_squad
from lamina.tasks.kind import AnyKind
from tests import tiny
from tests.patched import PatchedPackage
from tests.tasks.numbers.kind import NUMBERS

NEW = Path(__file__).parent / "numbers"
KIND: AnyKind = NUMBERS  # mypy checks that it follows the protocol


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> PatchedPackage:
    made = PatchedPackage.copy(tmp_path_factory.mktemp("package"))
    made.add_file("heads/number.py", (NEW / "head.py").read_text())
    made.add_file("tasks/numbers.py", (NEW / "kind.py").read_text())
    made.add_section("A head with its own kind of task")  # a line in each registry, and its import
    return made


@pytest.fixture(scope="module")
def folder(package: PatchedPackage, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a run of the new kind. One question in five asks for a number, a year."""
    folder = tmp_path_factory.mktemp("numbers")
    for name, examples in (("train", tiny.corpus(24)), ("dev", tiny.corpus(27)[120:])):
        (folder / f"{name}.json").write_text(json.dumps(to_squad(examples)))
    (folder / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=folder) + '\n[head]\ntype = "number"\n')
    settings = ("train.epochs=6", "train.lr=3e-3", "train.evaluate_every=6")
    package.lamina(
        "train", folder / "small.toml", "--out", folder / "run", *(word for one in settings for word in ("--set", one))
    )
    return folder


def written(folder: Path, name: str) -> Any:
    return json.loads((folder / "run" / f"{name}.json").read_text())


def test_run_is_trained_scored_and_fitted(folder: Path) -> None:
    dev = tiny.corpus(27)[120:]
    predicted = written(folder, "predictions")
    assert list(predicted) == [example.id for example in dev]
    right = sum(predicted[example.id] == example.question.startswith("When") for example in dev)
    assert written(folder, "scores") == {"accuracy": pytest.approx(100 * right / len(dev)), "numbers": sum(predicted.values())}
    assert right == len(dev), "the loss was learned"
    decision = written(folder, "run")["tasks"]["main"]
    assert decision["type"] == "numbers" and decision["threshold"] != 0.5, "fitted on the held-out split"


def test_run_evaluates_and_predicts(package: PatchedPackage, folder: Path) -> None:
    data = ("--data", folder / "dev.json", "--threads", 1)
    assert json.loads(package.lamina("evaluate", folder / "run", *data, "--json")) == written(folder, "scores")
    out = folder / "predicted.json"
    printed = package.lamina("predict", folder / "run", *data, "--out", out)
    assert json.loads(out.read_text()) == written(folder, "predictions")
    assert printed == f"15 questions, 3 numbers, written to {out}\n"
