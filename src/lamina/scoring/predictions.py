"""Predictions -> scores: the threshold for "no answer" and what a model is worth at it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lamina.answers.across_contexts import together
from lamina.answers.calibration import Calibration, fit_calibration
from lamina.answers.decode import Across, Prediction
from lamina.answers.formats import predictions_json
from lamina.data.examples import Answer, Example
from lamina.data.splits import questions_of
from lamina.scoring.korquad import score_composed, score_korquad
from lamina.scoring.squad import balanced_threshold, exact, f1, score_squad2

Scores = dict[str, float]


def references(examples: Sequence[Example]) -> dict[str, list[str]]:
    """The gold texts of every question; none for an unanswerable one."""
    return {example.id: [answer.text for answer in example.answers] for example in examples}


def tune_threshold(predictions: Sequence[Prediction], examples: Sequence[Example]) -> tuple[float, float]:
    """The null threshold by the mean of HasAns_f1 and NoAns_f1, and the best that this mean can be, in percent.

    The mean of the two, not the plain F1: the shares of unanswerable questions here and where the model will be used
    may differ widely, and the plain F1 would carry the one over to the other. Of the thresholds that are not clearly
    worse than the best (by one standard error) the one nearest to 0 is taken.
    """
    answered = [
        max((f1(_text(p), answer.text) for answer in e.answers), default=float(_text(p) == ""))
        for p, e in zip(predictions, examples, strict=True)
    ]
    odds = np.array([p.null_odds for p in predictions])
    has_answer = np.array([bool(e.answers) for e in examples])
    _, best = balanced_threshold(odds, np.array(answered), has_answer)
    threshold, _ = balanced_threshold(odds, np.array(answered), has_answer, tolerance=1.0)
    return threshold, 100 * best


def calibrate(predictions: Sequence[Prediction], examples: Sequence[Example]) -> Calibration:
    """What the model's scores mean as probabilities, from questions that it was not trained on."""
    return fit_calibration(predictions, [not example.answers for example in examples], right(predictions, examples))


def right(predictions: Sequence[Prediction], examples: Sequence[Example]) -> list[bool]:
    """Whether each prediction's best candidate is a gold answer, by the official script's exact match."""
    return [any(exact(_text(p), answer.text) for answer in e.answers) for p, e in zip(predictions, examples, strict=True)]


def score_at(predictions: Sequence[Prediction], examples: Sequence[Example], threshold: float) -> Scores:
    """The official SQuAD 2.0 scores when "no answer" is said above `threshold`, with the best-threshold ones."""
    texts = {p.id: _text(p) for p in predictions}
    odds = {p.id: p.null_odds for p in predictions}
    return score_squad2(references(examples), texts, odds, threshold=threshold)


def score_all(predictions: Sequence[Prediction], examples: Sequence[Example], threshold: float) -> dict[str, Scores]:
    """Scores at threshold 0, at the run's own (tuned) threshold, and the best that any threshold gives on these examples.

    The last is what the official script calls best: it looks at the answers, so it bounds what tuning could reach.
    """
    zero = score_at(predictions, examples, 0.0)
    tuned = score_at(predictions, examples, threshold) if threshold else zero
    best = {"exact": zero["best_exact"], "f1": zero["best_f1"]}
    return {
        "zero": {"threshold": 0.0} | zero,
        "tuned": {"threshold": threshold} | tuned,
        "best": {"threshold": zero["best_f1_thresh"]} | best,
    }


def several_contexts(examples: Sequence[Example]) -> bool:
    """Whether any question has more than one."""
    return len({example.group for example in examples}) < len(examples)


def by_question(
    predictions: Sequence[Prediction], examples: Sequence[Example], across: Across = "margin"
) -> tuple[list[Prediction], list[Example]]:
    """One prediction a question, of all of its contexts together; and the questions."""
    said: dict[str, list[Prediction]] = {}
    for prediction, example in zip(predictions, examples, strict=True):
        said.setdefault(example.group, []).append(prediction)
    return [together(group, own, across) for group, own in said.items()], whole_questions(examples)


def whole_questions(examples: Sequence[Example]) -> list[Example]:
    """The questions, each with the answers that its contexts hold: a question whose answer is in none of them is unanswerable.
    The context is the first that holds one, else the first; answers keep the places in their own contexts."""
    questions = []
    for group, own in questions_of(examples).items():
        texts: dict[str, Answer] = {}
        for answer in (answer for example in own for answer in example.answers):
            texts.setdefault(answer.text, answer)
        best = next((example for example in own if example.answers), own[0])
        questions.append(replace(best, id=group, answers=tuple(texts.values())))
    return questions


def score_both(
    predictions: Sequence[Prediction],
    examples: Sequence[Example],
    threshold: float,
    question_threshold: float,
    across: Across = "margin",
    *,
    korean: bool = False,
) -> dict[str, Any]:
    """As `score_all`, a score an example; where questions have several contexts, `questions` holds the same for each question
    over all of its contexts, at a threshold of their own. `korean` asks for KorQuAD's scores too."""
    scores: dict[str, Any] = dict(score_all(predictions, examples, threshold))
    scores |= score_korean(predictions, examples, threshold) if korean else {}
    if several_contexts(examples):
        questions = by_question(predictions, examples, across)
        scores["questions"] = dict(score_all(*questions, question_threshold))
        scores["questions"] |= score_korean(*questions, question_threshold) if korean else {}
    return scores


def score_korean(
    predictions: Sequence[Prediction], examples: Sequence[Example], threshold: float
) -> dict[str, dict[str, float]]:
    """KorQuAD's scores of the examples that have an answer: at the threshold, and when an answer is always given, as KorQuAD's
    own questions all have one. Nothing where none has."""
    answered = [example for example in examples if example.answers]
    at = {"korquad": threshold, "korquad_always": math.inf} if answered else {}
    return {name: korquad(answered, predictions_json(predictions, limit)) for name, limit in at.items()}


def korquad(examples: Sequence[Example], texts: Mapping[str, str]) -> dict[str, float]:
    """KorQuAD's scores of questions that have an answer, as they are and in NFC."""
    golds = references(examples)
    return {**score_korquad(golds, texts), **score_composed(golds, texts), "total": len(golds)}


def _text(prediction: Prediction) -> str:
    return prediction.candidates[0].text if prediction.candidates else ""
