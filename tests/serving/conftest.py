"""Models and running services for the tests of the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lamina
from lamina.serving.settings import Settings
from tests.golden import TRAINED
from tests.serving.live import Service, running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore the warnings that the service ignores. It runs in a thread, where pytest would make them errors."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.filterwarnings("ignore::lamina.errors.LaminaWarning"))


@pytest.fixture(scope="session")
def reader() -> lamina.Reader:
    """Return a small model that answers questions on the bundled corpus."""
    return lamina.load(TRAINED, device="cpu")


@pytest.fixture(scope="session")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> lamina.Reader:
    """Return an untrained model with three tasks for sentences."""
    small = {"encoder.model": "tiny", "encoder.pretrained": False, "train.epochs": 0, "train.threads": 1}
    tasks = ("sentiment", "paraphrase", "similarity")
    few = {f"tasks.{task}.data.{name}": 30 for task in tasks for name in ("questions", "dev_questions")}
    run = lamina.train("sentences", tmp_path_factory.mktemp("sentences") / "run", settings={**small, **few})
    return lamina.load(run.path, device="cpu")


@pytest.fixture(scope="session")
def service(reader: lamina.Reader, sentences: lamina.Reader, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Yield a service with both models. Tests that change its project use one of their own."""
    folder = tmp_path_factory.mktemp("service")
    settings = Settings(project=folder / "project", runs=folder / "runs")
    with running({"small": reader, "sentences": sentences}, settings) as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a project."""
    return tmp_path / "project"
