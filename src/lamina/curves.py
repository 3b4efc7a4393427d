"""How a training went: what it scored on what it trained on and on the dev set, epoch by epoch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from lamina.errors import LaminaError
from lamina.files import read_text
from lamina.plots import line_plot
from lamina.progress import Progress
from lamina.run import Run

Series = Mapping[str, Sequence[tuple[float, float]]]  # what is drawn: (epoch, score) of each line


def read_curves(run: Run) -> Series:
    """The recorded scores by part and metric, such as "dev sentiment.accuracy"."""
    series: dict[str, list[tuple[float, float]]] = {}
    for line in read_text(run.metrics).splitlines():
        entry = json.loads(line)
        for part, metrics in entry.get("curve", {}).items():
            for metric, value in metrics.items():
                if metric not in ("threshold", "mean"):
                    series.setdefault(f"{part} {metric}", []).append((entry["epochs"], value))
    return series


def draw_curves(run: Run, progress: Progress) -> None:
    """Writes the picture beside the run's other files, where a plotting library is installed."""
    try:
        line_plot(run.curves, read_curves(run), x="epoch", y="score", title="train against dev")
    except LaminaError as error:
        progress.say(f"no {run.curves.name} ({error}); {run.metrics.name} holds the numbers")
