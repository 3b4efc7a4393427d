"""How a task is judged: on the held-out part while it trains, and on the dev set at the end. One judge a kind of head."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal, Protocol, cast

import numpy as np

from lamina.answers.calibration import Calibration
from lamina.answers.decode import Prediction, decode
from lamina.answers.formats import nbest_json, null_odds_json, predictions_json
from lamina.cache.part import Part
from lamina.data.logits import SpanLogits
from lamina.data.tokenizer import Tokenizer
from lamina.evaluation import calibrate, score_all, tune_threshold
from lamina.files import write_json
from lamina.heads import AnswerabilityHeadOptions
from lamina.heads.answerability import IMPOSSIBLE
from lamina.inference import Floats, class_logits, span_logits
from lamina.model import Model
from lamina.progress import Progress, Silent
from lamina.recipe import Recipe
from lamina.run import Run
from lamina.saved import save_outputs
from lamina.scoring.answerability import Doubles, answerability, score_answerability
from lamina.scoring.bertvision import bertvision_legacy, gold_pieces
from lamina.training.loop import Evaluation


class Judge(Protocol):
    def evaluate(self, model: Model, part: Part) -> Evaluation:
        """What training chooses its checkpoint by."""
        ...

    def settle(self, model: Model, part: Part) -> dict[str, Any]:
        """What the held-out part tells about how to use the model; goes into run.json. The part may be empty."""
        ...

    def score(self, run: Run, model: Model, part: Part, settled: dict[str, Any], progress: Progress) -> None:
        """Scores the dev set and writes the scores with what they were made from."""
        ...


def judge_of(recipe: Recipe, tokenizer: Tokenizer) -> Judge:
    head = recipe.main.head
    return AnswerabilityJudge(head) if isinstance(head, AnswerabilityHeadOptions) else SpanJudge(recipe, tokenizer)


class SpanJudge:
    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        self._recipe = recipe
        self._tokenizer = tokenizer

    def evaluate(self, model: Model, part: Part) -> Evaluation:
        threshold, mean = tune_threshold(self._answers(model, part)[1], part.examples)
        return Evaluation(mean, {"balanced_f1": mean, "threshold": threshold})

    def settle(self, model: Model, part: Part) -> dict[str, Any]:
        if not part.examples:
            return {"threshold": 0.0, "calibration": asdict(Calibration())}
        predictions = self._answers(model, part)[1]
        return {
            "threshold": tune_threshold(predictions, part.examples)[0],
            "calibration": asdict(calibrate(predictions, part.examples)),
        }

    def score(self, run: Run, model: Model, part: Part, settled: dict[str, Any], progress: Progress) -> None:
        logits, predictions = self._answers(model, part, progress)
        threshold = cast(float, settled["threshold"])
        scores: dict[str, Any] = dict(score_all(predictions, part.examples, threshold))
        if self._recipe.train.scorer == "bertvision_legacy":
            gold = gold_pieces(part.examples, self._tokenizer)
            scores["bertvision_legacy"] = bertvision_legacy(part.windows, logits, gold)
        write_json(run.scores, scores)
        write_json(run.predictions, predictions_json(predictions, threshold))
        write_json(run.null_odds, null_odds_json(predictions))
        write_json(run.nbest, nbest_json(predictions))
        save_outputs(run, part.windows, logits)

    def _answers(self, model: Model, part: Part, progress: Progress | None = None) -> tuple[SpanLogits, list[Prediction]]:
        progress = progress or Silent()
        progress.start("answering", len(part.windows))
        logits = span_logits(model, part.windows, store=part.store, progress=progress)
        return logits, decode(part.windows, logits.start, logits.end, part.examples, self._recipe.answer)


class AnswerabilityJudge:
    def __init__(self, head: AnswerabilityHeadOptions) -> None:
        self._how: Literal["min", "max"] = "min" if head.aggregate == "min" else "max"

    def evaluate(self, model: Model, part: Part) -> Evaluation:
        scores = self._scores(self._impossible(model, part, Silent()), part)
        return Evaluation(scores["accuracy"], {"accuracy": scores["accuracy"], "f1": scores["f1"]})

    def settle(self, model: Model, part: Part) -> dict[str, Any]:
        return {}

    def score(self, run: Run, model: Model, part: Part, settled: dict[str, Any], progress: Progress) -> None:
        impossible = self._impossible(model, part, progress)
        write_json(run.scores, self._scores(impossible, part))
        write_json(run.predictions, {e.id: float(p) for e, p in zip(part.examples, impossible, strict=True)})

    def _impossible(self, model: Model, part: Part, progress: Progress) -> Doubles:
        """[E] the probability that a question has no answer."""
        progress.start("judging", len(part.windows))
        logits = class_logits(model, part.windows, store=part.store, progress=progress)  # [W, 2]
        return answerability(softmax(logits)[:, IMPOSSIBLE], part.windows.example, self._how)

    def _scores(self, impossible: Doubles, part: Part) -> dict[str, float]:
        return score_answerability(impossible, np.array([not example.answers for example in part.examples]))


def softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return cast(Floats, powers / powers.sum(-1, keepdims=True))
