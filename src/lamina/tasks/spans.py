"""The kind of task that answers questions with spans of their contexts.

Every context is an example. Questions with several contexts are also scored over all of them, with a threshold for questions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lamina.answers.decisions import SpanDecision
from lamina.answers.decode import AnswerOptions, Prediction, decode
from lamina.answers.formats import nbest_json, null_odds_json, predictions_json
from lamina.answers.saved_outputs import save_outputs
from lamina.data.examples import Example
from lamina.data.logits import SpanLogits
from lamina.data.tokenizer import Tokenizer
from lamina.scoring.bertvision import bertvision_legacy, gold_pieces
from lamina.scoring.predictions import (
    by_question,
    calibrate,
    null_curve,
    score_at,
    score_both,
    score_sources,
    several_contexts,
    tune_threshold,
)
from lamina.scoring.recalibration import share_of
from lamina.tasks.kind import Data, Evaluation, Infer, JsonObject, ScoreTable
from lamina.tasks.questions import Questions
from lamina.utils.run_folder import Run

if TYPE_CHECKING:
    from lamina.config.recipe import Recipe, TaskOptions

Scorer = Literal["official", "bertvision_legacy", "korquad"]


@dataclass(frozen=True)
class SpanSettings:
    answer: AnswerOptions
    tokenizer: Tokenizer
    scorer: Scorer = "official"


class Spans(Questions):
    decision = SpanDecision
    predicts: tuple[str, ...] = ("predictions", "null_odds", "nbest", "questions")

    def settings(self, recipe: Recipe, task: TaskOptions, tokenizer: Tokenizer) -> SpanSettings:
        return SpanSettings(recipe.answer, tokenizer, recipe.train.scorer)

    def outputs(self, infer: Infer, data: Data[Example]) -> SpanLogits:
        return infer.spans(data.windows)

    def fit(self, outputs: SpanLogits, data: Data[Example], settings: SpanSettings) -> SpanDecision:
        predictions = _decode(outputs, data, settings)
        threshold, _ = tune_threshold(predictions, data.examples)
        calibration = calibrate(predictions, data.examples)
        of_questions = None
        if several_contexts(data.examples):
            of_questions, _ = tune_threshold(*by_question(predictions, data.examples, settings.answer.across))
        return SpanDecision(
            threshold=threshold,
            calibration=calibration,
            question_threshold=of_questions,
            unanswerable=share_of(data.examples),
            curve=null_curve(predictions, data.examples),
        )

    def evaluate(
        self, outputs: SpanLogits, data: Data[Example], settings: SpanSettings, decision: SpanDecision | None = None
    ) -> Evaluation:
        """Return the official scores at the decision's threshold; without a decision, the best balanced F1."""
        predictions = _decode(outputs, data, settings)
        if decision is not None:
            scores = score_at(predictions, data.examples, decision.threshold)
            return Evaluation(scores["f1"], {"f1": scores["f1"], "exact": scores["exact"]})
        threshold, mean = tune_threshold(predictions, data.examples)
        metrics = {"balanced_f1": mean, "threshold": threshold}
        if several_contexts(data.examples):
            questions = by_question(predictions, data.examples, settings.answer.across)
            metrics["question_balanced_f1"] = tune_threshold(*questions)[1]
        return Evaluation(mean, metrics)

    def score(self, outputs: SpanLogits, data: Data[Example], settings: SpanSettings, decision: SpanDecision) -> ScoreTable:
        scores = self.score_predictions(_decode(outputs, data, settings), data.examples, settings, decision)
        if settings.scorer != "bertvision_legacy":
            return scores
        gold = gold_pieces(data.examples, settings.tokenizer)
        return {**scores, "bertvision_legacy": bertvision_legacy(data.windows, outputs, gold)}

    def score_predictions(
        self, predictions: Sequence[Prediction], examples: Sequence[Example], settings: SpanSettings, decision: SpanDecision
    ) -> ScoreTable:
        """Return the scores of decoded predictions. Unlike `score`, it does not need all logits in memory."""
        arguments = predictions, examples, decision.threshold, decision.over_contexts, settings.answer.across
        scores = score_both(*arguments, korean=settings.scorer == "korquad")
        sources = score_sources(*arguments)
        return {**scores, "sources": sources} if sources else scores

    def predict(
        self, outputs: SpanLogits, data: Data[Example], settings: SpanSettings, decision: SpanDecision
    ) -> dict[str, JsonObject]:
        """Return files in the format of the official SQuAD script. `questions` has one answer per question."""
        return self.files_of(_decode(outputs, data, settings), data.examples, settings, decision, self.predicts)

    def files_of(
        self,
        predictions: Sequence[Prediction],
        examples: Sequence[Example],
        settings: SpanSettings,
        decision: SpanDecision,
        wanted: Collection[str],
    ) -> dict[str, JsonObject]:
        """Return the `wanted` files of decoded predictions, in the format of `predict`."""

        def by_questions() -> JsonObject:
            grouped, _ = by_question(predictions, examples, settings.answer.across)
            limit = decision.over_contexts if several_contexts(examples) else decision.threshold
            return predictions_json(grouped, limit)

        files: dict[str, Callable[[], JsonObject]] = {
            "predictions": lambda: predictions_json(predictions, decision.threshold),
            "null_odds": lambda: null_odds_json(predictions),
            "nbest": lambda: nbest_json(predictions),
            "questions": by_questions,
        }
        return {name: make() for name, make in files.items() if name in wanted}

    def summary(self, predictions: Mapping[str, JsonObject], decision: SpanDecision) -> dict[str, object]:
        return {"answered": sum(map(bool, predictions["predictions"].values())), "threshold": decision.threshold}

    def save(self, run: Run, outputs: SpanLogits, data: Data[Example]) -> None:
        save_outputs(run, data.windows, outputs)


def _decode(outputs: SpanLogits, data: Data[Example], settings: SpanSettings) -> Sequence[Prediction]:
    return decode(data.windows, outputs.start, outputs.end, data.examples, settings.answer)


SPANS = Spans()
