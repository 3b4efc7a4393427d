"""Draw pictures with matplotlib, an optional extra. Without it, the functions raise LaminaError."""

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
    """Write a PNG file with one panel for each title, and in it one line for each series over steps or epochs."""
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
    """Write a PNG file with one panel for each parameter: its values on the x axis, the scores on the y axis.

    `panels` gives the parameter's value for each score. Points with a true `faint` are grey.
    """
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
    """Yield `count` panels to draw on, and write them as a PNG file at the end."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # draws without a screen
        from matplotlib.figure import Figure
    except ImportError:
        raise LaminaError(f"{path}: pictures need matplotlib. Fix: pip install 'lamina-qa[plots]'") from None
    figure = Figure(figsize=(2 + 4 * count, 4.5), layout="constrained")
    yield list(figure.subplots(1, count, squeeze=False, sharey=True)[0])
    with replacing(path) as draft:
        FigureCanvasAgg(figure).print_figure(str(draft), format="png")
