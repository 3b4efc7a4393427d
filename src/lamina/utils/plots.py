"""Pictures by matplotlib, which is an extra: without it, `LaminaError`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.errors import LaminaError
from lamina.utils.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = Sequence[tuple[float, float]]


def line_plot(path: Path, panels: Mapping[str, Mapping[str, Points]], *, x: str, y: str) -> None:
    """A panel a title, and in it a line a series, over steps or epochs, into a PNG file."""
    with _panels(path, len(panels)) as axes:
        from matplotlib.ticker import MaxNLocator

        for panel, (title, series) in zip(axes, panels.items(), strict=True):
            for name, points in series.items():
                panel.plot([point[0] for point in points], [point[1] for point in points], marker=".", label=name)
            panel.set(xlabel=x, title=title)
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
            if len(series) > 1:
                panel.legend()
        axes[0].set(ylabel=y)


def scatter_plot(
    path: Path,
    panels: Mapping[str, Sequence[Any]],
    scores: Sequence[float],
    *,
    y: str,
    title: str = "",
    faint: Sequence[bool] | None = None,
) -> None:
    """Scores by each of several parameters, a panel a parameter with the parameter's value of each score, into a PNG file."""
    colours = ["tab:gray" if weak else "tab:blue" for weak in faint or [False] * len(scores)]
    with _panels(path, len(panels)) as axes:
        for panel, (name, values) in zip(axes, panels.items(), strict=True):
            numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
            panel.scatter(values if numbers else [str(value) for value in values], scores, c=colours)
            if numbers and values and 0 < 10 * min(values) <= max(values):
                panel.set_xscale("log")
            panel.set(xlabel=name)
        axes[0].set(ylabel=y)
        axes[0].figure.suptitle(title)


@contextmanager
def _panels(path: Path, count: int) -> Iterator[list[Axes]]:
    """Panels side by side to draw on; at the end they are the picture at `path`."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # draws without a screen
        from matplotlib.figure import Figure
    except ImportError:
        raise LaminaError("pictures need matplotlib: pip install 'lamina-qa[plots]'") from None
    figure = Figure(figsize=(2 + 4 * count, 4.5), layout="constrained")
    yield list(figure.subplots(1, count, squeeze=False, sharey=True)[0])
    with replacing(path) as draft:
        FigureCanvasAgg(figure).print_figure(str(draft), format="png")
