"""Stop a run between two steps and resume it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from lamina.config.recipe import Recipe
from lamina.training import steps as planning
from lamina.training import trainer
from lamina.utils.run_folder import Run


def stopped_and_resumed(recipe: Recipe, out: Path, *, before: int, meanwhile: Callable[[], None] = lambda: None) -> Run:
    """Return a run that was stopped before the step with the number `before`, from 1, and then resumed."""
    step, calls = planning.make_step, itertools.count(1)

    def stopping(*arguments: Any) -> Any:
        if next(calls) == before:
            raise KeyboardInterrupt
        return step(*arguments)

    with patch.object(trainer, "make_step", stopping), pytest.raises(KeyboardInterrupt):
        trainer.train(recipe, out)
    meanwhile()
    return trainer.train(recipe, out, resume=True)
