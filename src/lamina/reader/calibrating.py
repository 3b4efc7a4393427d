"""Calibrate a trained span model for the questions that it is used on, and report the decision before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lamina.answers.calibration import FEWEST
from lamina.answers.decisions import SpanDecision
from lamina.answers.decode import Across, Prediction
from lamina.answers.prior_shift import can_shift, estimate_from, shifted
from lamina.data.examples import Example
from lamina.data.in_memory import examples_of, read_twice
from lamina.data.sources import load_examples
from lamina.data.squad import AnswerChecking, DuplicateIds
from lamina.errors import LaminaError
from lamina.reader.questions import span_predictions
from lamina.reader.trained import TrainedReader
from lamina.runtime.ready import ReadyModel
from lamina.scoring.recalibration import cross_validated, measure, refit, replies_of, share_of
from lamina.tasks.kind import DataLike
from lamina.tasks.registry import kind_of
from lamina.tasks.spans import SPANS
from lamina.utils.progress import Progress

Report = dict[str, Any]


@dataclass(frozen=True)
class Shares:
    """The shares of unanswerable questions that the user declares: in use, and in the fit of the model."""

    new: float | None = None
    old: float | None = None

    def __post_init__(self) -> None:
        for name, share in (("unanswerable", self.new), ("old_unanswerable", self.old)):
            if share is not None and not 0 < share < 1:
                raise ValueError(f"{name} must be between 0 and 1, not {share}")


@dataclass(frozen=True)
class Given:
    """The questions of the user, with their predictions."""

    examples: Sequence[Example] = ()
    predictions: Sequence[Prediction] = ()
    across: Across = "margin"

    @property
    def labelled(self) -> bool:
        return any(example.answers for example in self.examples)


def read_questions(data: DataLike, *, duplicate_ids: DuplicateIds = "error") -> list[Example]:
    """Return the questions of data, with their answers if it has any. If it has, every question must have the field."""

    source = data if isinstance(data, str | Path) else read_twice(data)

    def read(answers: AnswerChecking) -> list[Example]:
        if isinstance(source, str | Path):
            return load_examples(str(source), duplicate_ids=duplicate_ids, answers=answers)
        return examples_of(source, duplicate_ids=duplicate_ids, answers=answers)

    found = read("optional")
    return read("check") if any(example.answers for example in found) else found


def calibrate(
    reader: TrainedReader, data: DataLike | None, shares: Shares, *, task: str | None, progress: Progress
) -> tuple[ReadyModel, Report]:
    """Return the model with its new decision, and the report. `Reader.calibrate` describes the arguments."""
    if data is None and shares.new is None:
        raise LaminaError(
            "calibrate: there is nothing to calibrate with. Fix: give questions (--data), a share (--unanswerable), or both"
        )
    trained, (name, options) = reader.trained, reader.task(task)
    if kind_of(options) is not SPANS:
        raise LaminaError(
            f"task: {name!r} (head.type {options.head.type!r}) has no threshold for spans. "
            "Fix: calibrate a model that answers questions with spans"
        )
    old = _with_share(trained.span_decision_of(name), shares.old)
    examples = [] if data is None else read_questions(data)
    found = list(span_predictions(trained, examples, trained.recipe.answer, progress, task=name)) if examples else []
    given = Given(examples, found, trained.recipe.answer.across)
    new, details = _decide(old, given, shares.new)
    report = {"task": name, "how": new.calibrated, "questions": len(examples), "unanswerable": new.unanswerable, **details}
    report |= {"before": _summary(old, given, new), "after": _summary(new, given, new)}
    if given.labelled:
        scores = cross_validated(old, found, examples, unanswerable=shares.new, across=given.across)
        report |= {"cross_validated": scores}
    return trained.with_decisions({name: new}), report


def _with_share(decision: SpanDecision, old: float | None) -> SpanDecision:
    """Return the decision with the share that it was fitted for, as the user declares it."""
    if old is None:
        return decision
    if decision.unanswerable is not None:
        raise LaminaError(
            f"--old-unanswerable: the model stores the share of its fit, {decision.unanswerable:.3f}. Fix: leave it out"
        )
    return decision.model_copy(update={"unanswerable": old})


def _decide(old: SpanDecision, given: Given, share: float | None) -> tuple[SpanDecision, Report]:
    """Return the new decision, and what else the report has."""
    if given.labelled:
        new = refit(old, given.predictions, given.examples, unanswerable=share, across=given.across)
        return new, {"data_unanswerable": share_of(given.examples)}
    if old.unanswerable is None:
        raise LaminaError(
            "model: the share of unanswerable questions that it was fitted for is not known. "
            "Fix: give labelled questions with --data, or that share with --old-unanswerable"
        )
    if not can_shift(old):
        raise LaminaError(
            "model: it was fitted on questions of one kind only, all answerable or all unanswerable. "
            "Fix: give labelled questions of both kinds with --data"
        )
    if share is not None:
        return shifted(old, share), {}
    if len(given.examples) < FEWEST:
        raise LaminaError(
            f"data: {len(given.examples)} questions without answers are too few to estimate a share. "
            f"Fix: give {FEWEST} or more, or declare the share with --unanswerable"
        )
    estimate = estimate_from(old, given.predictions)
    new = shifted(old, estimate.share).model_copy(update={"calibrated": _ESTIMATED})
    return new, {"standard_error": estimate.error}


_ESTIMATED: Literal["estimated"] = "estimated"


def _summary(decision: SpanDecision, given: Given, new: SpanDecision) -> Report:
    """Return the numbers of a decision; with questions, its share of "no answer"; with labels, its scores at the new share."""
    found: Report = {"unanswerable": decision.unanswerable, "threshold": decision.threshold}
    if decision.question_threshold is not None:
        found["question_threshold"] = decision.question_threshold
    calibration = decision.calibration
    found |= {"temperature": calibration.temperature, "bias": calibration.bias}
    found["span_temperature"] = calibration.span_temperature or calibration.temperature
    if not given.examples:
        return found
    replies = replies_of(decision, given.predictions)
    found["no_answer"] = sum(not text for text in replies.texts.values()) / len(replies.texts)
    if given.labelled:
        assert new.unanswerable is not None
        found |= measure(replies, given.examples, new.unanswerable)
    return found
