"""Record and draw learning curves: the losses and scores on the training split and the dev set."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from lamina.config.recipe import Recipe
from lamina.data.splits import sample
from lamina.errors import LaminaError
from lamina.model import Model
from lamina.objectives.loss import Loss
from lamina.tasks.registry import kind_of
from lamina.tasks.sentences import SENTENCES
from lamina.training.datasets import Datasets, TrainingData, dataset_of
from lamina.training.recording import Recording
from lamina.training.task_group import TaskGroup
from lamina.utils.files import read_text
from lamina.utils.plots import line_plot
from lamina.utils.progress import Progress
from lamina.utils.run_folder import Run

Series = dict[str, dict[str, list[tuple[float, float]]]]  # (epoch, score) by metric and split, train and dev

ITEMS = 1000  # of each task's training split
DEV_SEED = 0  # draws the sample of a dev set, the same for every run


class LearningCurves:
    """Scores a sample of each task's training split, and the dev sets or samples of them if every task has one.

    The scores do not choose a checkpoint.
    """

    def __init__(self, recipe: Recipe, data: TrainingData, group: TaskGroup, losses: Mapping[str, Loss]) -> None:
        def some(split: Datasets, count: int, seed: int) -> Datasets:
            return {
                name: dataset_of(recipe, task, sample(split[name].examples, count, seed), data.tokenizer)
                for name, task in recipe.tasks.items()
            }

        count, seed = recipe.train.curves_examples, recipe.train.seed
        self._splits: dict[str, Datasets] = {"train": some(data.train, count or ITEMS, seed)}
        if all(dataset.examples for dataset in data.dev.values()):
            self._splits["dev"] = data.dev if count is None else some(data.dev, count, DEV_SEED)
        self._holdout, self._group, self._losses = data.holdout, group, losses

    def record(self, model: Model, recorder: Recording, epochs: float) -> None:
        """Record the scores with decisions fitted on the held-out split, as after the last step."""
        began = time.monotonic()
        model.eval()
        decisions = self._group.fit(model, self._holdout)
        curve = {
            split: self._group.evaluate(model, found, decisions, self._losses).metrics for split, found in self._splits.items()
        }
        state = recorder.state
        state.costs.evaluate_seconds += time.monotonic() - began
        recorder.record({"step": state.step, "epochs": epochs, "curve": curve})


def read_curves(run: Run) -> Series:
    """Return the recorded curves. A metric has a name such as "sentiment.accuracy"."""
    series: Series = {}
    for line in read_text(run.metrics).splitlines():
        entry = json.loads(line)
        for split, metrics in entry.get("curve", {}).items():
            for metric, value in metrics.items():
                if metric != "mean":
                    series.setdefault(metric, {}).setdefault(split, []).append((entry["epochs"], value))
    return series


def unit_of(metric: str, recipe: Recipe) -> str:
    """Return the unit of a metric with the name that the curves have: loss, correlation, share or percent."""
    *task, name = metric.split(".") if len(recipe.tasks) > 1 else (next(iter(recipe.tasks)), metric)
    if name == "loss":
        return "loss"
    if kind_of(recipe.tasks[".".join(task)]) is not SENTENCES:
        return "percent"
    return "correlation" if name == "pearson" else "share"


def draw_curves(run: Run, recipe: Recipe, progress: Progress) -> None:
    """Write the picture into the run folder, if a plotting library is installed. Metrics of one unit share an axis."""
    series = read_curves(run)
    if not series:
        progress.say(f"no {run.curves.name}: training ended before the first point of its curves")
        return
    try:
        line_plot(run.curves, series, x="epochs", y={metric: unit_of(metric, recipe) for metric in series})
    except LaminaError as error:
        progress.say(f"no {run.curves.name}, but {run.metrics.name} has the numbers: {error}")
