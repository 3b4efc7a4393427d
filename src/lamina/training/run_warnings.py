"""Warn about settings and data that let a run learn little."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from lamina.config.recipe import Recipe
from lamina.data.splits import FEWEST_HELD_OUT
from lamina.errors import LaminaWarning
from lamina.objectives import Remembers
from lamina.tasks.checks import of_task
from lamina.tasks.registry import kind_of
from lamina.training.datasets import TrainingData


def warn_of_late_terms(memories: Sequence[Remembers], steps: int) -> None:
    """Warn if the run ends before a term begins."""
    for term in memories:
        if term.waits >= steps > 0:
            message = f"terms.{term.name}: begins after {term.waits} steps, but the run has {steps}. Fix: let it begin earlier"
            warnings.warn(message, LaminaWarning, stacklevel=4)


def warn_of_spent_time(minutes: float | None, seconds: float) -> None:
    """Warn if storing states and outputs of teachers took the whole time budget, `train.minutes`."""
    if minutes is not None and seconds >= 60 * minutes:
        message = f"train.minutes: is {minutes:g}, but storing took {seconds / 60:.1f} minutes, so the run has only one step"
        warnings.warn(f"{message}. Fix: train again in another folder; it uses the stores", LaminaWarning, stacklevel=4)


def warn_of_small_data(recipe: Recipe, data: TrainingData, steps: int) -> None:
    """Warn if so few examples are held out that the checkpoint and the threshold are mostly chance."""
    for name, task in recipe.tasks.items():
        kind = kind_of(task)
        noun, held_out = next(iter(kind.counts(data.holdout[name].examples).items()))
        if 0 < held_out <= FEWEST_HELD_OUT:
            trained = next(iter(kind.counts(data.train[name].examples).values()))
            message = (
                f"{trained} {noun} to train on in {steps} steps, and {held_out} held out to choose the checkpoint and the "
                "threshold, are few: expect poor and unsteady scores. Fix: train on more data, or raise train.epochs"
            )
            warnings.warn(of_task(name, f"data.train: {message}"), LaminaWarning, stacklevel=4)
