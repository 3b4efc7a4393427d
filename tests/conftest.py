"""What the tests of all rooms share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("lamina", deadline=None)  # a busy machine is no failure
settings.load_profile("lamina")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data and reference outputs beside the repository; where CI=true it must be there."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if folder.is_dir():
        return folder
    if os.environ.get("CI") == "true":
        pytest.fail(f"{folder} is missing, and CI must not skip the tests that need it")
    pytest.skip(f"{folder} is missing")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest test first: the others fill the time beside it."""
    items.sort(key=lambda item: "test_readme" not in item.nodeid)
