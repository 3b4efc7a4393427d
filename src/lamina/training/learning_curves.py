"""How a training went: what it scored on what it trained on and on the dev set, epoch by epoch."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from lamina.config.recipe import Recipe
from lamina.data.splits import sample
from lamina.errors import LaminaError
from lamina.model import Model
from lamina.state_cache.dataset import Part
from lamina.training.judging import Judges
from lamina.training.material import AnyPart, Material, cut
from lamina.training.recording import Recorder
from lamina.utils.files import read_text
from lamina.utils.plots import line_plot
from lamina.utils.progress import Progress
from lamina.utils.run_folder import Run

Series = dict[str, dict[str, list[tuple[float, float]]]]  # (epoch, score) by metric and part, train and dev

ITEMS = 1000  # of each task's training part


class Curves:
    """Scores some of what each task trains on, and the dev sets where every task has one. Nothing is chosen by it."""

    def __init__(self, recipe: Recipe, material: Material, judges: Judges) -> None:
        seen: dict[str, AnyPart] = {}
        for name, task in recipe.tasks.items():
            some = sample(material.training[name].examples, ITEMS, recipe.train.seed)
            seen[name] = Part(some, cut(recipe, task, some, material.tokenizer))
        self._parts: dict[str, Mapping[str, AnyPart]] = {"train": seen}
        if all(part.examples for part in material.dev.values()):
            self._parts["dev"] = material.dev
        self._holdout, self._judges = material.holdout, judges

    def record(self, model: Model, recorder: Recorder, epoch: int) -> None:
        """At thresholds that are settled on the held-out part, as they will be at the end."""
        began = time.monotonic()
        model.eval()
        settled = self._judges.settle(model, self._holdout)
        curve = {which: self._judges.evaluate(model, parts, settled).metrics for which, parts in self._parts.items()}
        state = recorder.state
        state.costs.evaluate_seconds += time.monotonic() - began
        recorder.record({"step": state.step, "epochs": epoch, "curve": curve})


def read_curves(run: Run) -> Series:
    """What was recorded; a metric is such as "sentiment.accuracy"."""
    series: Series = {}
    for line in read_text(run.metrics).splitlines():
        entry = json.loads(line)
        for part, metrics in entry.get("curve", {}).items():
            for metric, value in metrics.items():
                if metric != "mean":
                    series.setdefault(metric, {}).setdefault(part, []).append((entry["epochs"], value))
    return series


def draw_curves(run: Run, progress: Progress) -> None:
    """Writes the picture beside the run's other files, where a plotting library is installed."""
    series = read_curves(run)
    if not series:
        progress.say(f"no {run.curves.name}: training ended before its first epoch did")
        return
    try:
        line_plot(run.curves, series, x="epoch", y="score")
    except LaminaError as error:
        progress.say(f"no {run.curves.name} ({error}); {run.metrics.name} holds the numbers")
