"""The registry of the kinds of task, and the lookup of a head's kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lamina.tasks.answerability import ANSWERABILITY
from lamina.tasks.kind import AnyKind
from lamina.tasks.sentences import SENTENCES
from lamina.tasks.spans import SPANS

if TYPE_CHECKING:
    from lamina.config.recipe import Recipe, TaskOptions

KINDS: Final[dict[str, AnyKind]] = {
    "spans": SPANS,
    "answerability": ANSWERABILITY,
    "sentences": SENTENCES,
}


def kind_of(task: TaskOptions) -> AnyKind:
    """Return the kind of a task, which its head names."""
    return KINDS[task.head.kind]


def tasks_of(recipe: Recipe, kind: AnyKind) -> dict[str, TaskOptions]:
    """Return the tasks of a recipe that are of this kind."""
    return {name: task for name, task in recipe.tasks.items() if kind_of(task) is kind}
