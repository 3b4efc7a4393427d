"""`ReadyModel`: a trained model that is ready to be used, with its settings, tokenizer, decisions and engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from lamina.answers.decisions import Decision, SpanDecision
from lamina.data.tokenizer import Tokenizer
from lamina.errors import LaminaError
from lamina.runtime.engine import Engine
from lamina.tasks.registry import kind_of, tasks_of
from lamina.tasks.spans import SPANS
from lamina.utils.run_folder import Run, RunInfo

if TYPE_CHECKING:
    from lamina.config.recipe import Recipe

R = TypeVar("R", bound="ReadyModel")


@dataclass(frozen=True, kw_only=True)
class ReadyModel(ABC):
    """A trained model with its recipe, tokenizer and decisions. A subclass has what runs it.

    Without torch, `recipe` is a `RecipeView`, which has the fields that a prediction needs.
    """

    recipe: Recipe
    tokenizer: Tokenizer
    decisions: Mapping[str, Decision] = field(default_factory=dict)  # by task; the default of its kind where there is none
    run: Run | None = None  # the folder that it was loaded from; None for a checkpoint of another library
    language: str | None = None  # of the texts that it was trained on, such as "en"; None if unknown

    @property
    @abstractmethod
    def engine(self) -> Engine:
        """What runs the model."""

    @property
    @abstractmethod
    def shape(self) -> str:
        """The family and the size of the encoder, as text."""

    def with_decisions(self: R, decisions: Mapping[str, Decision]) -> R:
        """Return the model with other decisions for some tasks."""
        return replace(self, decisions={**self.decisions, **decisions})

    def decision(self, task: str) -> Decision:
        """Return the decision of a task, which turns its outputs into predictions."""
        return self.decisions.get(task) or kind_of(self.recipe.tasks[task]).decision()

    def find_spans(self) -> str | None:
        """Return the name of the task that answers questions with spans, or None."""
        return next(iter(tasks_of(self.recipe, SPANS)), None)

    @property
    def span_task(self) -> str:
        """The name of the task that answers questions with spans. Raises LaminaError if there is none."""
        name = self.find_spans()
        if name is None:
            raise LaminaError(
                f"model: does not answer questions with spans; its heads: {self.heads}. Fix: use a model with a span head"
            )
        return name

    @property
    def span_decision(self) -> SpanDecision:
        return self.span_decision_of(self.span_task)

    def span_decision_of(self, task: str) -> SpanDecision:
        """Return the decision of a span task."""
        decision = self.decision(task)
        assert isinstance(decision, SpanDecision)
        return decision

    @property
    def heads(self) -> str:
        """The types of all heads, separated by commas."""
        return ", ".join(task.head.type for task in self.recipe.tasks.values())

    @property
    def stored_precision(self) -> Literal["float32", "int8"]:
        """The precision of the weights in the folder that the model was loaded from."""
        info: RunInfo = {} if self.run is None else self.run.read_info()
        return "int8" if info.get("weights") == "int8" else "float32"

    def settings(self, task: str) -> Any:
        """Return the settings that decode the outputs of a task."""
        options = self.recipe.tasks[task]
        return kind_of(options).settings(self.recipe, options, self.tokenizer)
