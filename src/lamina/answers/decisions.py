"""Decisions: the thresholds and calibrations that a kind of task fits on the held-out split.

`run.json` stores one decision for each task. `type` is the kind of task. The defaults change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError

from lamina.answers.calibration import Calibration
from lamina.answers.null_curve import NullCurve
from lamina.errors import LaminaError
from lamina.utils.files import shortened

Number = Annotated[float, Strict()]  # pydantic would also accept texts and booleans
Share = Annotated[float, Strict(), Field(ge=0, le=1)]


class Decision(BaseModel):
    """The base of all decisions."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    type: str


class SpanDecision(Decision):
    """The thresholds for "no answer" and the calibration of a span model."""

    type: Literal["spans"] = "spans"
    threshold: Number = 0.0  # null odds above it mean "no answer"
    calibration: Calibration = Calibration()
    question_threshold: Number | None = None  # for all contexts of a question together; None: use `threshold`
    unanswerable: Share | None = None  # share of unanswerable questions in the fit; None: not known, as in older runs
    curve: NullCurve | None = None  # the best threshold for any share; None: not fitted
    calibrated: Literal["labelled", "declared", "estimated"] | None = None  # how, after training; None: not at all

    @property
    def over_contexts(self) -> float:
        """The threshold for a question over all of its contexts."""
        return self.threshold if self.question_threshold is None else self.question_threshold

    @property
    def fitted(self) -> bool:
        """Whether anything was fitted; not for a checkpoint of another library."""
        return self.calibrated is not None or self.threshold != 0 or self.calibration != Calibration()

    @property
    def threshold_unanswerable(self) -> float | None:
        """The share of unanswerable questions that the threshold is for: one half where training gave both kinds equal weights.

        Without a fit, "no answer" wins if its score is the greatest. This is right for the share of the training data.
        """
        return self.unanswerable if self.calibrated is not None or not self.fitted else 0.5


class AnswerabilityDecision(Decision):
    """The decision of answerability: unanswerable above a probability of one half, as in paper 001. Nothing is fitted."""

    type: Literal["answerability"] = "answerability"


class SentenceDecision(Decision):
    """The logit above which a pair is similar. Heads for classes and scores need no threshold, so nothing is fitted."""

    type: Literal["sentences"] = "sentences"
    threshold: Number = 0.0


D = TypeVar("D", bound=Decision)


def read_decision(kind: type[D], tasks: object, name: str, where: str) -> D:
    """Return the decision of the task `name` from the table `tasks` of a run.json. `where` is that file, for messages."""
    fix = "copy the run folder again, or train the run again"
    if not isinstance(tasks, Mapping) or not isinstance(tasks.get(name), Mapping):
        raise LaminaError(f"{where}: tasks.{name} is missing. Fix: {fix}")
    try:
        return kind.model_validate(tasks[name])
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, (name, *problem["loc"])))
        given = shortened(repr(problem["input"]))
        raise LaminaError(f"{where}: tasks.{place}: {problem['msg']} (given: {given}). Fix: {fix}") from None
