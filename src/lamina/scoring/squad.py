"""The scores of SQuAD 2.0 and 1.1, equal to the official scripts' on every key, and the choice of a null threshold.

Departures from the official scripts:

- The script of 2.0 fails on missing predictions: it skips them, then looks them up to split the score by HasAns and NoAns.
  Here they are an error by default, or count as "no answer" with ``missing="null"``.
- Predictions or odds of the wrong type, and odds that are not numbers, are errors here.
"""

from __future__ import annotations

import math
import re
import string
import warnings
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Final, Literal

import numpy as np

from lamina.errors import LaminaError, LaminaWarning
from lamina.utils.arrays import Bools, Doubles

Golds = Mapping[str, Sequence[str]]
Missing = Literal["error", "null"]

_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_ARTICLES: Final = re.compile(r"\b(?:a|an|the)\b")


# One prediction against one reference


def normalize(text: str) -> str:
    """Return the text in lower case, without ASCII punctuation, English articles and extra white space.

    >>> normalize("The  U.S. Army's")
    'us armys'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact(prediction: str, gold: str) -> int:
    """Return 1 if the two normalised texts are equal, else 0."""
    return int(normalize(prediction) == normalize(gold))


def f1(prediction: str, gold: str) -> float:
    """Return the F1 of the two as bags of normalised words. An empty text scores 1 with an empty one, and 0 with others.

    >>> f1("in the late 1990s", "late 1990s")
    0.8
    """
    return bag_f1(normalize(prediction).split(), normalize(gold).split())


def bag_f1(predicted: Sequence[Hashable], wanted: Sequence[Hashable]) -> float:
    """Return the F1 of two bags of words or other items. An empty bag scores 1 with an empty one, and 0 with others."""
    if not predicted or not wanted:
        return float(not predicted and not wanted)
    common = (Counter(predicted) & Counter(wanted)).total()
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(wanted)
    return 2 * precision * recall / (precision + recall)


# SQuAD 2.0


def score_squad2(
    golds: Golds,
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    *,
    threshold: float = 1.0,
    missing: Missing = "error",
) -> dict[str, float]:
    """Return the official scores, in percent. `golds` are each question's reference answers, none if unanswerable.

    With `null_odds`, a question whose odds exceed the threshold counts as "no answer" in all keys except ``best_*``. These
    are the best scores over all thresholds, chosen on the same questions. An empty prediction is always "no answer".
    """
    predictions = _complete(golds, predictions, missing)
    exact_scores, f1_scores = question_scores(golds, predictions)
    has_answer = {question: bool(texts) for question, texts in golds.items()}
    kept_exact, kept_f1 = exact_scores, f1_scores
    if null_odds is not None:
        _check_odds(golds, null_odds)
        silent = {question for question in golds if null_odds[question] > threshold}
        kept_exact = _silenced(exact_scores, silent, has_answer)
        kept_f1 = _silenced(f1_scores, silent, has_answer)
    scores = _means("", kept_exact, kept_f1, list(golds))
    for name, wanted in (("HasAns_", True), ("NoAns_", False)):
        scores |= _means(name, kept_exact, kept_f1, [q for q, answerable in has_answer.items() if answerable is wanted])
    if null_odds is not None:
        answered = {question for question in golds if predictions[question]}
        for name, values in (("exact", exact_scores), ("f1", f1_scores)):
            best, at = _best_score(values, null_odds, has_answer, answered)
            scores |= {f"best_{name}": best, f"best_{name}_thresh": at}
    return scores


def question_scores(golds: Golds, predictions: Mapping[str, str]) -> tuple[dict[str, float], dict[str, float]]:
    """Return exact match and F1 of each question, the best over its references, from 0 to 1.

    References that are empty after normalisation do not count. Without any reference, the right prediction is "".
    """
    exact_scores, f1_scores = {}, {}
    for question, texts in golds.items():
        wanted = [text for text in map(normalize, texts) if text] or [""]
        exact_scores[question], f1_scores[question] = _best_reference(normalize(predictions[question]), wanted)
    return exact_scores, f1_scores


def _best_reference(predicted: str, wanted: Sequence[str]) -> tuple[float, float]:
    """Return exact match and F1 between normalised texts, the best over the references."""
    words = predicted.split()
    return float(predicted in wanted), max(bag_f1(words, text.split()) for text in wanted)


def _silenced(scores: Mapping[str, float], silent: Collection[str], has_answer: Mapping[str, bool]) -> dict[str, float]:
    """Return the scores with "no answer" for the questions of `silent`."""
    return {q: float(not has_answer[q]) if q in silent else score for q, score in scores.items()}


def _means(
    prefix: str, exact_scores: Mapping[str, float], f1_scores: Mapping[str, float], questions: Sequence[str]
) -> dict[str, float]:
    """Return the means over some questions in percent, or an empty dict without questions."""
    if not questions:
        return {}
    total = len(questions)
    return {
        f"{prefix}exact": 100.0 * math.fsum(exact_scores[question] for question in questions) / total,
        f"{prefix}f1": 100.0 * math.fsum(f1_scores[question] for question in questions) / total,
        f"{prefix}total": total,
    }


def _best_score(
    scores: Mapping[str, float],
    null_odds: Mapping[str, float],
    has_answer: Mapping[str, bool],
    answered: Collection[str],
) -> tuple[float, float]:
    """Return the best score over all thresholds in percent, and its threshold.

    Starts with "no answer" for all questions, then answers them one by one, by rising odds. Equal odds keep the order of
    `null_odds`. As in the official script, the best may lie between two questions of equal odds, which no threshold can
    separate. "No answer" for all questions has the threshold 0.
    """
    order = sorted((question for question in null_odds if question in scores), key=null_odds.__getitem__)
    gains = [scores[q] if has_answer[q] else -float(q in answered) for q in order]
    silence = float(sum(not answerable for answerable in has_answer.values()))
    totals = np.cumsum([silence, *gains])
    best = int(np.argmax(totals))  # the first of equals
    return 100.0 * float(totals[best]) / len(scores), float(null_odds[order[best - 1]]) if best else 0.0


# SQuAD 1.1


def score_squad1(golds: Golds, predictions: Mapping[str, str]) -> dict[str, float]:
    """Return the official scores, in percent. A missing prediction scores 0, with a warning."""
    check_texts(golds, predictions)
    check_answerable(golds, "SQuAD 1.1")
    absent = [question for question in golds if question not in predictions]
    if absent:
        warnings.warn(f"predictions: {listed(absent, 'missing prediction')}, scored 0", LaminaWarning, stacklevel=2)
    exact_scores, f1_scores = {}, {}
    for question, texts in golds.items():
        predicted = normalize(predictions.get(question, ""))
        best_exact, best_f1 = _best_reference(predicted, [normalize(text) for text in texts])
        exact_scores[question] = best_exact if question in predictions else 0.0
        f1_scores[question] = best_f1 if predicted else 0.0  # in 1.1 two texts without words score 0
    means = _means("", exact_scores, f1_scores, list(golds))
    return {"exact_match": means["exact"], "f1": means["f1"]}


# Checks


def _complete(golds: Golds, predictions: Mapping[str, str], missing: Missing) -> Mapping[str, str]:
    check_texts(golds, predictions)
    absent = [question for question in golds if question not in predictions]
    if absent and missing == "error":
        raise LaminaError(
            f'predictions: {listed(absent, "missing prediction")}. Fix: predict them, or count them as "" with --missing null'
        )
    return {**predictions, **dict.fromkeys(absent, "")} if absent else predictions


def check_texts(golds: Golds, predictions: Mapping[str, str]) -> None:
    """Raise LaminaError if there are no questions, or a prediction is not a text."""
    if not golds:
        raise LaminaError("golds: no questions to score. Fix: give data with at least one question")
    wrong = [question for question in golds if not isinstance(predictions.get(question, ""), str)]
    if wrong:
        raise LaminaError(f'predictions: {listed(wrong, "prediction")} not a text. Fix: write texts, "" for "no answer"')


def check_answerable(golds: Golds, name: str) -> None:
    """Raise LaminaError if a question has no answer. `name` is the dataset, for the message."""
    unanswerable = [question for question, texts in golds.items() if not texts]
    if unanswerable:
        raise LaminaError(
            f"golds: {listed(unanswerable, 'unanswerable question')}, but {name} has none. Fix: score with squad2"
        )


def _check_odds(golds: Golds, null_odds: Mapping[str, float]) -> None:
    absent = [question for question in golds if question not in null_odds]
    if absent:
        raise LaminaError(f"null_odds: {listed(absent, 'question')} without null odds. Fix: give the odds of every question")
    wrong = [question for question in golds if not _is_number(null_odds[question])]
    if wrong:
        raise LaminaError(f"null_odds: {listed(wrong, 'null odds')} not a number. Fix: give a number for every question")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not math.isnan(value)


def listed(questions: Sequence[str], noun: str) -> str:
    """Return the number of questions with a noun, and the first id."""
    plural = "" if len(questions) == 1 or noun.endswith("s") else "s"
    return f"{len(questions)} {noun}{plural} (first id {questions[0]})"


# The threshold


def balanced_threshold(
    odds: Doubles,
    f1_if_answered: Doubles,
    has_answer: Bools,
    *,
    tolerance: float = 0.0,
    unanswerable: float = 0.5,
    centre: float = 0.0,
) -> tuple[float, float]:
    """Return the threshold on the null odds that maximises the mean of HasAns_f1 and NoAns_f1, and that mean (from 0 to 1).

    A question gets "no answer" iff its odds exceed the threshold. `f1_if_answered` [N] is its F1 otherwise: for an
    unanswerable one, 1 if the prediction is empty, else 0. NoAns_f1 has the weight `unanswerable` in the mean. Equal weights
    make the choice independent of the shares of both kinds, which differ between the held-out split and the data in use.
    With one kind only, it is the plain F1.

    Candidates are the midpoints between neighbouring odds, and 1 beyond either end. Among equal scores, the one nearest to
    `centre` wins. Scores are equal if they differ from the best by at most `tolerance` standard errors of the difference.
    With few questions the top of the curve is flat and noisy, so the position of the maximum is chance.
    """
    odds, f1_if_answered = np.asarray(odds, np.float64), np.asarray(f1_if_answered, np.float64)
    has_answer = np.asarray(has_answer, np.bool_)
    if not len(odds) or not np.isfinite(odds).all():
        raise LaminaError(
            "odds: a null threshold needs at least one question, and finite odds. Fix: give finite odds of some questions"
        )
    weights = class_weights(has_answer, unanswerable)  # [N]
    order = np.argsort(odds, kind="stable")
    gains = (weights * (f1_if_answered - ~has_answer))[order]  # [N] of answering instead of "no answer"
    values, firsts = np.unique(odds[order], return_index=True)  # [V] different odds, and the first index of each
    silence = float(weights[~has_answer].sum())
    scores = silence + np.concatenate([[0.0], np.cumsum(np.add.reduceat(gains, firsts))])  # [V + 1]
    squares = np.concatenate([[0.0], np.cumsum(np.add.reduceat(gains**2, firsts))])  # [V + 1]
    thresholds = np.concatenate([[values[0] - 1], _between(values), [values[-1] + 1]])  # [V + 1]
    error = np.sqrt(np.abs(squares - squares[scores.argmax()]))  # [V + 1] only questions between two thresholds differ
    equals = np.flatnonzero(scores >= scores.max() - tolerance * error - 1e-12)
    best = equals[np.argmin(np.abs(thresholds[equals] - centre))]
    return float(thresholds[best]), float(scores[best])


def class_weights(has_answer: Bools, unanswerable: float = 0.5) -> Doubles:
    """Return weights of questions, [N], with the sum 1. `unanswerable` is that of one kind; the only kind has all."""
    answerable = int(has_answer.sum())
    counts = np.where(has_answer, answerable, len(has_answer) - answerable)
    if answerable in (0, len(has_answer)):
        return 1.0 / counts
    return np.where(has_answer, 1 - unanswerable, unanswerable) / counts


def _between(values: Doubles) -> Doubles:
    """Return the midpoints of neighbours, or the lower neighbour if rounding would give the upper one."""
    lower, upper = values[:-1], values[1:]
    middle = lower / 2 + upper / 2
    return np.where((middle >= lower) & (middle < upper), middle, lower)
