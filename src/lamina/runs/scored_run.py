"""Open a finished run with its saved outputs and the questions of its dev set, to compare or combine runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lamina.answers.decisions import SpanDecision, read_decision
from lamina.answers.decode import AnswerOptions
from lamina.answers.saved_outputs import saved_fingerprint
from lamina.data.examples import Example
from lamina.data.sources import load_examples
from lamina.data.splits import first_questions
from lamina.data.windows import WindowOptions, windows_fingerprint
from lamina.errors import LaminaError, first_line
from lamina.utils.files import read_bytes
from lamina.utils.run_folder import Run


@dataclass(frozen=True)
class ScoredRun:
    """A finished run with the saved outputs of its dev set."""

    run: Run
    saved: Run  # where the outputs of its task are
    decision: SpanDecision
    fingerprint: str  # of the dev set's windows
    data: dict[str, Any]
    window: WindowOptions
    answer: AnswerOptions

    @classmethod
    def open(cls, path: Path, task: str | None = None) -> ScoredRun:
        """Return a run with its span task of this name, or its first span task."""
        run = Run.open(path)
        recipe, fitted = run.read_recipe(), run.read_info().get("tasks")
        name = _span_task(run, fitted) if task is None else task
        decision = read_decision(SpanDecision, fitted, name, str(run.info))
        try:
            data = recipe["tasks"][name]["data"]
            saved = run if len(recipe["tasks"]) == 1 else run.task(name)
            return cls(
                run,
                saved,
                decision,
                fingerprint=saved_fingerprint(saved),
                data={name: data[name] for name in ("dev", "duplicate_ids", "dev_questions")},
                window=WindowOptions.model_validate(recipe["window"]),
                answer=AnswerOptions.model_validate(recipe["answer"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            reason = first_line(error)
            raise LaminaError(
                f"{run.recipe}: is not the recipe of a run ({reason}). Fix: copy or train the run again"
            ) from None

    def read(self, data: str | None = None) -> list[Example]:
        """Return the questions of the dev set in its recipe, or those of `data`."""
        examples = load_examples(data or self.data["dev"], duplicate_ids=self.data["duplicate_ids"])
        return first_questions(examples, self.data["dev_questions"])

    def answered(self, examples: Sequence[Example]) -> bool:
        """Return whether the run was scored on these questions."""
        tokenizer = hashlib.sha256(read_bytes(self.run.tokenizer)).hexdigest()
        return windows_fingerprint(examples, tokenizer, self.window) == self.fingerprint


def _span_task(run: Run, fitted: object) -> str:
    """Return the name of the run's task that answers questions with spans."""
    if not isinstance(fitted, Mapping) or not all(isinstance(decision, Mapping) for decision in fitted.values()):
        raise LaminaError(f"{run.info}: tasks is not a table of decisions. Fix: copy or train the run again")
    for name, decision in fitted.items():
        if decision.get("type") == SpanDecision.model_fields["type"].default:
            return str(name)
    raise LaminaError(f"{run.path}: this run does not answer questions with spans. Fix: use runs with a span head")


def same_questions(runs: Sequence[ScoredRun], data: str | None = None) -> list[Example]:
    """Return the questions that all runs were scored on. `data` names the dev set if the first run's recipe has an old path."""
    first, *others = runs
    examples = first.read(data)
    if not first.answered(examples):
        raise LaminaError(
            f"{first.run.path}: was not scored on the present questions of {data or first.data['dev']}. "
            "Fix: name its dev set with --data"
        )
    for other in others:
        if not other.answered(examples):
            raise LaminaError(
                f"{other.run.path}: was not scored on the same questions as {first.run.path}. "
                "Fix: use runs with the same data.dev and the same data.dev_questions"
            )
    return examples
