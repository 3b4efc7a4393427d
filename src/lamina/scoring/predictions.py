"""Fit the threshold for "no answer" and the calibration on predictions, and score predictions at thresholds."""

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
from lamina.answers.null_curve import NullCurve, fit_curve
from lamina.data.examples import Answer, Example
from lamina.data.splits import questions_of
from lamina.data.training_sets import sources_of
from lamina.scoring.korquad import score_composed, score_korquad
from lamina.scoring.squad import balanced_threshold, exact, f1, score_squad2
from lamina.utils.arrays import Doubles

Scores = dict[str, float]


def references(examples: Sequence[Example]) -> dict[str, list[str]]:
    """Return the gold texts of every example by id; none for an unanswerable one."""
    return {example.id: [answer.text for answer in example.answers] for example in examples}


def tune_threshold(
    predictions: Sequence[Prediction], examples: Sequence[Example], *, around: float = 0.0
) -> tuple[float, float]:
    """Return the null threshold, and the best mean of HasAns_f1 and NoAns_f1 over all thresholds, in percent.

    The threshold is the one nearest to `around` within one standard error of the best mean. The mean of the two replaces
    the plain F1, because the share of unanswerable questions may differ between these examples and the model's use.
    """
    odds = np.array([p.null_odds for p in predictions]) - around
    has_answer = np.array([bool(e.answers) for e in examples])
    answered = f1_if_answered(predictions, examples)
    _, best = balanced_threshold(odds, answered, has_answer)
    threshold, _ = balanced_threshold(odds, answered, has_answer, tolerance=1.0)
    return threshold + around, 100 * best


def f1_if_answered(predictions: Sequence[Prediction], examples: Sequence[Example]) -> Doubles:
    """Return the F1 of the best candidates, [N] from 0 to 1. For an unanswerable question, 1 if there is none, else 0."""
    return np.array(
        [
            max((f1(_text(p), answer.text) for answer in e.answers), default=float(_text(p) == ""))
            for p, e in zip(predictions, examples, strict=True)
        ]
    )


def null_curve(
    predictions: Sequence[Prediction], examples: Sequence[Example], *, older: NullCurve | None = None, counts: float = 0.0
) -> NullCurve | None:
    """Return the curve that gives the threshold for any share of unanswerable questions, or None with too few questions.

    An older curve counts as `counts` questions.
    """
    rows = [(p, e) for p, e in zip(predictions, examples, strict=True) if p.candidates]
    if not rows:
        return None
    some, own = zip(*rows, strict=True)
    odds = np.array([p.null_odds for p in some])
    has_answer = np.array([bool(e.answers) for e in own])
    return fit_curve(odds, f1_if_answered(some, own), has_answer, older=older, counts=counts)


def calibrate(predictions: Sequence[Prediction], examples: Sequence[Example]) -> Calibration:
    """Return the calibration fitted on predictions for examples that the model was not trained on."""
    return fit_calibration(predictions, [not example.answers for example in examples], right(predictions, examples))


def right(predictions: Sequence[Prediction], examples: Sequence[Example]) -> list[bool]:
    """Return for each prediction whether its best candidate is a gold answer, by the official script's exact match."""
    return [any(exact(_text(p), answer.text) for answer in e.answers) for p, e in zip(predictions, examples, strict=True)]


def score_at(predictions: Sequence[Prediction], examples: Sequence[Example], threshold: float) -> Scores:
    """Return the official SQuAD 2.0 scores with "no answer" above `threshold`, and those at the best threshold."""
    texts = {p.id: _text(p) for p in predictions}
    odds = {p.id: p.null_odds for p in predictions}
    return score_squad2(references(examples), texts, odds, threshold=threshold)


def score_all(predictions: Sequence[Prediction], examples: Sequence[Example], threshold: float) -> dict[str, Scores]:
    """Return the scores at threshold 0, at the run's tuned threshold, and at the best threshold for these examples.

    The last are the official script's best scores. They use the gold answers, so they are an upper bound of tuning.
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
    """Return whether any question has more than one context."""
    return len({example.group for example in examples}) < len(examples)


def by_question(
    predictions: Sequence[Prediction], examples: Sequence[Example], across: Across = "margin"
) -> tuple[list[Prediction], list[Example]]:
    """Return one prediction for each question over all of its contexts, and the questions as examples."""
    grouped: dict[str, list[Prediction]] = {}
    for prediction, example in zip(predictions, examples, strict=True):
        grouped.setdefault(example.group, []).append(prediction)
    return [together(group, own, across) for group, own in grouped.items()], whole_questions(examples)


def whole_questions(examples: Sequence[Example]) -> list[Example]:
    """Return one example for each question, with the answers of all of its contexts.

    A question is unanswerable if no context has an answer. The context is the first with an answer, else the first. Answers
    keep the offsets of their own contexts.
    """
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
    """Return `score_all` of the examples, and of the questions over all of their contexts.

    The latter is under the key `questions`, at `question_threshold`, only if a question has several contexts. `korean` adds
    KorQuAD's scores.
    """
    scores: dict[str, Any] = dict(score_all(predictions, examples, threshold))
    scores |= score_korean(predictions, examples, threshold) if korean else {}
    if several_contexts(examples):
        questions = by_question(predictions, examples, across)
        scores["questions"] = dict(score_all(*questions, question_threshold))
        scores["questions"] |= score_korean(*questions, question_threshold) if korean else {}
    return scores


def score_sources(
    predictions: Sequence[Prediction],
    examples: Sequence[Example],
    threshold: float,
    question_threshold: float,
    across: Across = "margin",
) -> list[dict[str, Any]]:
    """Return the scores of each training set that the examples come from, with its name; empty if they come from one.

    The scores are those at the threshold. If a question of the set has several contexts, `questions` has the scores of its
    questions over all of their contexts.
    """
    names = sources_of(examples)
    pairs = list(zip(predictions, examples, strict=True))
    found: list[dict[str, Any]] = []
    for name in names if len(names) > 1 else ():
        predicted, own = zip(*(pair for pair in pairs if pair[1].source == name), strict=True)
        found.append({"name": name, **score_at(predicted, own, threshold)})
        if several_contexts(own):
            found[-1]["questions"] = score_at(*by_question(predicted, own, across), question_threshold)
    return found


def score_korean(
    predictions: Sequence[Prediction], examples: Sequence[Example], threshold: float
) -> dict[str, dict[str, float]]:
    """Return KorQuAD's scores of the examples that have an answer, or nothing if none has.

    `korquad` are the scores at the threshold. `korquad_always` are those without "no answer", because all of KorQuAD's
    questions have an answer.
    """
    answered = [example for example in examples if example.answers]
    at = {"korquad": threshold, "korquad_always": math.inf} if answered else {}
    return {name: korquad(answered, predictions_json(predictions, limit)) for name, limit in at.items()}


def korquad(examples: Sequence[Example], texts: Mapping[str, str]) -> dict[str, float]:
    """Return KorQuAD's scores of questions that have an answer, without and with conversion to NFC."""
    golds = references(examples)
    return {**score_korquad(golds, texts), **score_composed(golds, texts), "total": len(golds)}


def _text(prediction: Prediction) -> str:
    return prediction.candidates[0].text if prediction.candidates else ""
