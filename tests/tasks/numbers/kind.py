"""A kind of task that classifies questions: whether they ask for a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from lamina.answers.decisions import Decision
from lamina.answers.saved_outputs import save_arrays
from lamina.data.examples import Example
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import WindowOptions, Windows
from lamina.tasks.kind import Data, Evaluation, Infer, JsonObject, ScoreTable
from lamina.tasks.questions import Questions
from lamina.utils.arrays import Bools, Doubles, Floats
from lamina.utils.run_folder import Run

if TYPE_CHECKING:
    from lamina.config.recipe import Recipe, TaskOptions


class NumberDecision(Decision):
    """The threshold of the score above which a question asks for a number."""

    type: Literal["numbers"] = "numbers"
    threshold: float = 0.5


class Numbers(Questions):
    """The kind of number tasks. Outputs are scores of windows, [W]; the label is whether the first answer has a digit."""

    decision = NumberDecision
    predicts: tuple[str, ...] = ("predictions",)

    def settings(self, recipe: Recipe, task: TaskOptions, tokenizer: Tokenizer) -> None:
        return None

    def windows(self, examples: Sequence[Example], tokenizer: Tokenizer, task: TaskOptions, window: WindowOptions) -> Windows:
        windows = super().windows(examples, tokenizer, task, window)
        return replace(windows, labels=_numeric(examples)[windows.example].astype(np.float32))

    def outputs(self, infer: Infer, data: Data[Example]) -> Floats:
        return infer.items(data.windows)["scores"]

    def fit(self, outputs: Floats, data: Data[Example], settings: None) -> NumberDecision:
        """Return the threshold with the highest accuracy: halfway between two neighbouring scores, or below all of them."""
        means, gold = _means(outputs, data), _numeric(data.examples)
        known = np.unique(means)
        thresholds = np.concatenate([[known[0] - 1], (known[:-1] + known[1:]) / 2, [known[-1] + 1]])
        return NumberDecision(threshold=float(max(thresholds, key=lambda limit: _accuracy(means > limit, gold))))

    def evaluate(
        self, outputs: Floats, data: Data[Example], settings: None, decision: NumberDecision | None = None
    ) -> Evaluation:
        fitted = decision or self.fit(outputs, data, settings)
        accuracy = self.score(outputs, data, settings, fitted)["accuracy"]
        return Evaluation(accuracy, {"accuracy": accuracy})

    def score(self, outputs: Floats, data: Data[Example], settings: None, decision: NumberDecision) -> ScoreTable:
        predicted = _means(outputs, data) > decision.threshold
        return {"accuracy": _accuracy(predicted, _numeric(data.examples)), "numbers": int(predicted.sum())}

    def predict(self, outputs: Floats, data: Data[Example], settings: None, decision: NumberDecision) -> dict[str, JsonObject]:
        predicted = _means(outputs, data) > decision.threshold
        return {"predictions": {example.id: bool(one) for example, one in zip(data.examples, predicted, strict=True)}}

    def summary(self, predictions: Mapping[str, JsonObject], decision: NumberDecision) -> dict[str, object]:
        return {"numbers": sum(predictions["predictions"].values())}

    def save(self, run: Run, outputs: Floats, data: Data[Example]) -> None:
        save_arrays(run.outputs, {"scores": outputs, "example": data.windows.example}, data.windows.fingerprint)


def _means(outputs: Floats, data: Data[Example]) -> Doubles:
    """Return the score of each question, [E]: the mean over its windows."""
    example, count = data.windows.example, len(data.examples)
    means: Doubles = np.bincount(example, outputs, count) / np.bincount(example, minlength=count)
    return means


def _numeric(examples: Sequence[Example]) -> Bools:
    return np.array([any(any(map(str.isdigit, answer.text)) for answer in example.answers[:1]) for example in examples])


def _accuracy(predicted: Bools, gold: Bools) -> float:
    return 100 * float((predicted == gold).mean())


NUMBERS = Numbers()
