"""A command that needs a package of an extra names the extra in one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lamina.errors import LaminaError
from lamina.training.tracking import TensorBoard
from lamina.utils.extras import needs, needs_torch
from tests.command import lamina as command


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Make every import of a package fail, as if it were not installed."""
    monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize(
    ("words", "package", "extra"),
    [
        (["serve", "--port", "0"], "fastapi", "serve"),
        (["serve", "--port", "0"], "uvicorn", "serve"),
        (["report", "nowhere"], "jinja2", "reports"),
    ],
)
def test_a_command_names_the_extra(words: list[str], package: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, package)
    result = command(*words)
    assert result.code == 2
    wanted = f"lamina {words[0]}: needs {package}, which is not installed. Fix: pip install 'lamina-qa[{extra}]'"
    assert result.err.strip() == f"lamina: {wanted}"


def test_the_dashboard_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "tensorboard")
    with pytest.raises(LaminaError, match=r"--track tensorboard: needs tensorboard, .* 'lamina-qa\[tracking\]'"):
        TensorBoard(tmp_path)


def test_other_missing_modules_are_mistakes_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "colorsys")
    with pytest.raises(ModuleNotFoundError, match="colorsys"), needs_torch("this"), needs("that", "numpy", extra="more"):
        import colorsys

        colorsys.rgb_to_hsv(0, 0, 0)
