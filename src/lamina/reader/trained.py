"""What reading questions and reading sentences share: the trained model, and what can be said of any text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lamina.errors import LaminaError
from lamina.runs.load import Trained


class TrainedReader:
    """A trained model, its tokenizer and what was settled for each of its tasks."""

    def __init__(self, trained: Trained) -> None:
        self.recipe, self.model, self.tokenizer = trained.recipe, trained.model, trained.tokenizer
        self._settled: Mapping[str, dict[str, Any]] = trained.settled
        self.threshold: float = trained.threshold  # where a task has settled none of its own

    def _heads(self) -> str:
        return ", ".join(f"{task.head.type}" for task in self.recipe.tasks.values())


def check_text(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LaminaError(f"{name}, character {error.start}: not UTF-8 text") from None
