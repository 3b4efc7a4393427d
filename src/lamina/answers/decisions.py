"""Decisions: what a kind of task fits on its held-out split, to turn a model's outputs into answers.

`run.json` stores one decision for each task. `type` names the kind of task. The defaults change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Strict, ValidationError

from lamina.answers.calibration import Calibration
from lamina.errors import LaminaError

Number = Annotated[float, Strict()]  # not a text or a truth value that could be read as one


class Decision(BaseModel):
    """The base of all decisions."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    type: str


class SpanDecision(Decision):
    """When a span model answers "no answer", and what its scores mean as probabilities."""

    type: Literal["spans"] = "spans"
    threshold: Number = 0.0  # null odds above it mean "no answer"
    calibration: Calibration = Calibration()
    question_threshold: Number | None = None  # the same over all contexts of a question; None: fitted on one context each

    @property
    def over_contexts(self) -> float:
        """The threshold for a question over all of its contexts."""
        return self.threshold if self.question_threshold is None else self.question_threshold


class AnswerabilityDecision(Decision):
    """A question is impossible above a probability of one half, as in paper 001: nothing is fitted."""

    type: Literal["answerability"] = "answerability"


class SentenceDecision(Decision):
    """Which logit makes a pair alike. Other heads of sentences take the likeliest class, or a score: nothing is fitted."""

    type: Literal["sentences"] = "sentences"
    threshold: Number = 0.0


D = TypeVar("D", bound=Decision)


def read_decision(kind: type[D], tasks: object, name: str, where: str) -> D:
    """The decision of a task, from the table `tasks` of a run.json; `where` names that file."""
    fix = "copy or train the run again"
    if not isinstance(tasks, Mapping) or not isinstance(tasks.get(name), Mapping):
        raise LaminaError(f"{where}: tasks.{name} is missing: {fix}")
    try:
        return kind.model_validate(tasks[name])
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, (name, *problem["loc"])))
        raise LaminaError(f"{where}: tasks.{place}: {problem['msg']} (given: {problem['input']!r}): {fix}") from None
