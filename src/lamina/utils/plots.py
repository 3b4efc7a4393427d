"""Draw pictures with matplotlib, an optional extra. Without it, the functions raise LaminaError."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.errors import LaminaError
from lamina.utils.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = Sequence[tuple[float, float]]


def line_plot(path: Path, panels: Mapping[str, Mapping[str, Points]], *, x: str, y: str | Mapping[str, str]) -> None:
    """Write a PNG file with one panel for each title, and in it one line for each series over steps or epochs.

    `y` is the unit of all panels, or the unit by title. Only panels of one unit share the y axis.
    """
    with _panels(path, len(panels), shared=False) as axes:
        draw_lines(axes, panels, x=x, y=y)


def draw_lines(axes: Sequence[Axes], panels: Mapping[str, Mapping[str, Points]], *, x: str, y: str | Mapping[str, str]) -> None:
    """Draw the panels of `line_plot` on these axes, which must not share any axis yet."""
    from matplotlib.ticker import MaxNLocator

    first: dict[str, Axes] = {}  # panel of each unit
    for panel, (title, series) in zip(axes, panels.items(), strict=True):
        unit = y if isinstance(y, str) else y[title]
        if unit in first:
            panel.sharey(first[unit])
        first.setdefault(unit, panel)
        panel.set(ylabel=unit)
        for name, points in series.items():
            panel.plot([point[0] for point in points], [point[1] for point in points], marker=".", label=name)
        panel.set(xlabel=x, title=title)
        if all(point[0] == round(point[0]) for points in series.values() for point in points):
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        if len(series) > 1:
            panel.legend()


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


def bar_plot(path: Path, panels: Mapping[str, Mapping[str, Mapping[str, float]]], *, y: str) -> None:
    """Write a picture with one panel for each title, and in it bars by label, side by side for each series.

    The ending of `path` is the format, .png or .svg. A series may lack a label.
    """
    with _panels(path, len(panels)) as axes:
        for panel, (title, series) in zip(axes, panels.items(), strict=True):
            labels = list(dict.fromkeys(label for values in series.values() for label in values))
            width = 0.8 / max(1, len(series))
            for number, (name, values) in enumerate(series.items()):
                places = [labels.index(label) + (number - (len(series) - 1) / 2) * width for label in values]
                panel.bar(places, list(values.values()), width, label=name)
            panel.set_xticks(range(len(labels)), labels, rotation=30, ha="right")
            panel.set(title=title)
            if len(series) > 1:
                panel.legend()
        axes[0].set(ylabel=y)


def share_plot(path: Path, panels: Mapping[str, Mapping[str, Points]], *, x: str, y: str, diagonal: bool = False) -> None:
    """Write a picture with lines whose x and y are shares from 0 to 1; `diagonal` adds the line of equal shares."""
    with _panels(path, len(panels)) as axes:
        for panel, (title, series) in zip(axes, panels.items(), strict=True):
            if diagonal:
                panel.plot([0, 1], [0, 1], color="tab:gray", linestyle="--")
            for name, points in series.items():
                panel.plot([point[0] for point in points], [point[1] for point in points], marker=".", label=name)
            panel.set(xlabel=x, title=title, xlim=(0, 1), ylim=(0, 1))
            if len(series) > 1:
                panel.legend()
        axes[0].set(ylabel=y)


def confusion_plot(path: Path, panels: Mapping[str, Sequence[Sequence[int]]], classes: Sequence[str]) -> None:
    """Write a picture with one confusion matrix for each title. Colours are shares of the gold class."""
    with _panels(path, len(panels)) as axes:
        for panel, (title, counts) in zip(axes, panels.items(), strict=True):
            shares = [[count / max(1, sum(row)) for count in row] for row in counts]
            panel.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
            for row, values in enumerate(counts):
                for column, count in enumerate(values):
                    colour = "white" if shares[row][column] > 0.5 else "black"
                    panel.text(column, row, f"{count:,}", ha="center", va="center", color=colour)
            panel.set_xticks(range(len(classes)), classes, rotation=30, ha="right")
            panel.set_yticks(range(len(classes)), classes)
            panel.set(xlabel="predicted", title=title)
        axes[0].set(ylabel="gold")


def check_plots(where: str) -> None:
    """Raise LaminaError if matplotlib is missing. `where` is the option or file that needs it."""
    try:
        import_module("matplotlib.figure")
    except ImportError:
        raise LaminaError(f"{where}: pictures need matplotlib. Fix: pip install 'lamina-qa[plots]'") from None


@contextmanager
def _panels(path: Path, count: int, *, shared: bool = True) -> Iterator[list[Axes]]:
    """Yield `count` panels to draw on, and write them at the end. The ending of `path` is the format, .png or .svg.

    With `shared`, all panels have one y axis.
    """
    check_plots(str(path))
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # draws without a screen
    from matplotlib.figure import Figure

    with rc_context({"text.parse_math": False}):  # a name may have dollar signs
        figure = Figure(figsize=(2 + 4 * count, 4.5), layout="constrained")
        yield list(figure.subplots(1, count, squeeze=False, sharey=shared)[0])
    with replacing(path) as draft:
        FigureCanvasAgg(figure).print_figure(str(draft), format=path.suffix[1:])
