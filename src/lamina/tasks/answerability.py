"""The kind of task that classifies questions as answerable or impossible (paper 001's classification)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from lamina.answers.decisions import AnswerabilityDecision
from lamina.answers.saved_outputs import save_arrays
from lamina.data.examples import Example
from lamina.data.tokenizer import Tokenizer
from lamina.data.training_sets import sources_of
from lamina.scoring.answerability import IMPOSSIBLE, answerability, score_answerability
from lamina.tasks.kind import Data, Evaluation, Infer, JsonObject, ScoreTable
from lamina.tasks.questions import Questions
from lamina.utils.arrays import Bools, Doubles, Floats
from lamina.utils.run_folder import Run

if TYPE_CHECKING:
    from lamina.config.recipe import Recipe, TaskOptions


@dataclass(frozen=True)
class AnswerabilitySettings:
    aggregate: Literal["min", "max"] = "min"  # which of the windows' probabilities becomes that of the question


class Answerability(Questions):
    """The kind of answerability tasks. Its outputs are the logits of every window, [W, 2]."""

    decision = AnswerabilityDecision
    predicts: tuple[str, ...] = ("predictions",)

    def settings(self, recipe: Recipe, task: TaskOptions, tokenizer: Tokenizer) -> AnswerabilitySettings:
        if task.head.type != "answerability":
            raise TypeError(f"head.type = {task.head.type!r} has no rule to aggregate windows")
        return AnswerabilitySettings("min" if task.head.aggregate == "min" else "max")

    def outputs(self, infer: Infer, data: Data[Example]) -> Floats:
        return infer.items(data.windows)["logits"]

    def fit(self, outputs: Floats, data: Data[Example], settings: AnswerabilitySettings) -> AnswerabilityDecision:
        return AnswerabilityDecision()

    def evaluate(
        self,
        outputs: Floats,
        data: Data[Example],
        settings: AnswerabilitySettings,
        decision: AnswerabilityDecision | None = None,
    ) -> Evaluation:
        scores = _scores(outputs, data, settings)
        return Evaluation(scores["accuracy"], {"accuracy": scores["accuracy"], "f1": scores["f1"]})

    def score(
        self, outputs: Floats, data: Data[Example], settings: AnswerabilitySettings, decision: AnswerabilityDecision
    ) -> ScoreTable:
        """Return the accuracy, and the F1 of the class "impossible", in percent."""
        scores, names = _scores(outputs, data, settings), sources_of(data.examples)
        if len(names) < 2:
            return scores
        source = np.array([example.source for example in data.examples])
        return {**scores, "sources": [{"name": name, **_scores(outputs, data, settings, source == name)} for name in names]}

    def predict(
        self, outputs: Floats, data: Data[Example], settings: AnswerabilitySettings, decision: AnswerabilityDecision
    ) -> dict[str, JsonObject]:
        """Return the probability that each question is impossible."""
        impossible = _impossible(outputs, data, settings)
        return {"predictions": {e.id: float(p) for e, p in zip(data.examples, impossible, strict=True)}}

    def summary(self, predictions: Mapping[str, JsonObject], decision: AnswerabilityDecision) -> dict[str, object]:
        return {"impossible": sum(probability > 0.5 for probability in predictions["predictions"].values())}

    def save(self, run: Run, outputs: Floats, data: Data[Example]) -> None:
        save_arrays(run.outputs, {"logits": outputs, "example": data.windows.example}, data.windows.fingerprint)


def _impossible(outputs: Floats, data: Data[Example], settings: AnswerabilitySettings) -> Doubles:
    """Return the probability that each question has no answer, [E]."""
    return answerability(_softmax(outputs)[:, IMPOSSIBLE], data.windows.example, settings.aggregate)


def _scores(
    outputs: Floats, data: Data[Example], settings: AnswerabilitySettings, chosen: Bools | None = None
) -> dict[str, float]:
    """Return the scores of all questions, or of the chosen ones, [E]."""
    impossible, unanswerable = (
        _impossible(outputs, data, settings),
        np.array([not example.answers for example in data.examples]),
    )
    if chosen is None:
        return score_answerability(impossible, unanswerable)
    return score_answerability(impossible[chosen], unanswerable[chosen])


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    probabilities: Floats = powers / powers.sum(-1, keepdims=True)
    return probabilities


ANSWERABILITY = Answerability()
