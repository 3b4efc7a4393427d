"""Settings and fixtures of all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("lamina", deadline=None)  # tests must not fail on a busy machine
settings.load_profile("lamina")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of real data and reference outputs beside the repository. With CI=true it must exist."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if folder.is_dir():
        return folder
    if os.environ.get("CI") == "true":
        pytest.fail(f"{folder} is missing, and CI must not skip the tests that need it")
    pytest.skip(f"{folder} is missing")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest test first, so that the others run beside it."""
    items.sort(key=lambda item: "test_readme" not in item.nodeid)
