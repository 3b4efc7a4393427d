"""Tests of plots: PNG files, or a LaminaError without matplotlib."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from lamina.errors import LaminaError
from lamina.utils.plots import draw_lines, line_plot, scatter_plot


def size(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    return int.from_bytes(content[16:20]), int.from_bytes(content[20:24])


def test_lines_over_steps(tmp_path: Path) -> None:
    path = tmp_path / "lines.png"
    lines = {"train": [(1, 0.5), (2, 0.7)], "dev": [(1, 0.4), (2, 0.45)]}
    line_plot(path, {"SST-5": lines}, x="epoch", y="accuracy")
    both, (width, height) = path.read_bytes(), size(path)
    assert min(width, height) >= 400
    line_plot(path, {"SST-5": {"train": lines["train"]}}, x="epoch", y="accuracy")
    assert path.read_bytes() != both
    line_plot(path, {"SST-5": lines, "Quora": lines}, x="epoch", y="accuracy")
    assert size(path)[0] > width
    assert list(tmp_path.iterdir()) == [path]


def test_panels_share_an_axis_only_with_their_unit() -> None:
    from matplotlib.figure import Figure

    axes = list(Figure().subplots(1, 4))
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {
        "f1": {"dev": [(1, 40.0), (1.3, 60.0)]},
        "accuracy": {"dev": [(1, 0.4), (1.3, 0.6)]},
        "exact": {"dev": [(1, 20.0), (2, 30.0)]},
        "loss": {"dev": [(1, 2.0), (1.3, 3.0)]},
    }
    units = {"f1": "percent", "accuracy": "share", "exact": "percent", "loss": "loss"}
    draw_lines(axes, panels, x="epochs", y=units)
    assert axes[0].get_ylim() == axes[2].get_ylim()
    assert axes[0].get_ylim()[1] >= 60
    assert axes[1].get_ylim()[1] < 1
    assert 3 <= axes[3].get_ylim()[1] < 4
    assert [panel.get_ylabel() for panel in axes] == ["percent", "share", "percent", "loss"]
    assert list(axes[0].lines[0].get_xdata()) == [1, 1.3]


def test_each_parameter_has_a_panel(tmp_path: Path) -> None:
    one, two = tmp_path / "one.png", tmp_path / "two.png"
    scatter_plot(one, {"train.lr": [1e-5, 1e-3]}, [50.0, 60.0], y="score")
    values: dict[str, list[Any]] = {"train.lr": [1e-5, 1e-3], "tune.layers": ["all", 0]}
    scatter_plot(two, values, [50.0, 60.0], y="score", title="trials", faint=[True, False])
    assert size(two)[0] > size(one)[0]
    assert size(two)[1] == size(one)[1]


def test_a_missing_matplotlib_is_a_lamina_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(LaminaError, match=r"lines\.png: pictures need matplotlib\. Fix: pip install 'lamina-qa\[plots\]'$"):
        line_plot(tmp_path / "lines.png", {"": {"a": [(0, 1)]}}, x="step", y="loss")
