"""How a training went: what it scored on what it trained on and on the dev set, epoch by epoch."""

from __future__ import annotations

import json
import time

from lamina.config.recipe import Recipe
from lamina.data.splits import sample
from lamina.errors import LaminaError
from lamina.model import Model
from lamina.training.datasets import Datasets, TrainingData, dataset_of
from lamina.training.recording import Recorder
from lamina.training.task_group import TaskGroup
from lamina.utils.files import read_text
from lamina.utils.plots import line_plot
from lamina.utils.progress import Progress
from lamina.utils.run_folder import Run

Series = dict[str, dict[str, list[tuple[float, float]]]]  # (epoch, score) by metric and split, train and dev

ITEMS = 1000  # of each task's training split


class LearningCurves:
    """Scores some of each task's training split, and the dev sets where every task has one. It chooses nothing."""

    def __init__(self, recipe: Recipe, data: TrainingData, group: TaskGroup) -> None:
        seen = {
            name: dataset_of(recipe, task, sample(data.train[name].examples, ITEMS, recipe.train.seed), data.tokenizer)
            for name, task in recipe.tasks.items()
        }
        self._splits: dict[str, Datasets] = {"train": seen}
        if all(dataset.examples for dataset in data.dev.values()):
            self._splits["dev"] = data.dev
        self._holdout, self._group = data.holdout, group

    def record(self, model: Model, recorder: Recorder, epoch: int) -> None:
        """Scores with decisions fitted on the held-out split, as at the end of training."""
        began = time.monotonic()
        model.eval()
        decisions = self._group.fit(model, self._holdout)
        curve = {split: self._group.evaluate(model, found, decisions).metrics for split, found in self._splits.items()}
        state = recorder.state
        state.costs.evaluate_seconds += time.monotonic() - began
        recorder.record({"step": state.step, "epochs": epoch, "curve": curve})


def read_curves(run: Run) -> Series:
    """What was recorded; a metric is such as "sentiment.accuracy"."""
    series: Series = {}
    for line in read_text(run.metrics).splitlines():
        entry = json.loads(line)
        for split, metrics in entry.get("curve", {}).items():
            for metric, value in metrics.items():
                if metric != "mean":
                    series.setdefault(metric, {}).setdefault(split, []).append((entry["epochs"], value))
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
