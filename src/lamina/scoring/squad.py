"""The scores of SQuAD 2.0 and 1.1, equal to the official scripts' on every key, and the choice of a null threshold.

Departures from the official scripts:

- 2.0 cannot score a file with missing predictions (it skips them, then stumbles over the gaps when it splits the
  score by HasAns and NoAns). Here they are an error by default, or count as "no answer" with ``missing="null"``.
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
    """Lower case, without ASCII punctuation, English articles and superfluous white space.

    >>> normalize("The  U.S. Army's")
    'us armys'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact(prediction: str, gold: str) -> int:
    """1 if the two are the same text once normalised, else 0."""
    return int(normalize(prediction) == normalize(gold))


def f1(prediction: str, gold: str) -> float:
    """Overlap of the two as bags of normalised words. Nothing agrees with nothing, and with nothing else.

    >>> f1("in the late 1990s", "late 1990s")
    0.8
    """
    return bag_f1(normalize(prediction).split(), normalize(gold).split())


def bag_f1(predicted: Sequence[Hashable], wanted: Sequence[Hashable]) -> float:
    """Overlap of two bags of words, or of anything else that can be told apart. Nothing agrees with nothing only."""
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
    """The official scores, in percent. `golds` gives each question's reference answers, none if unanswerable.

    With `null_odds`, a question whose odds exceed the threshold counts as answered "no answer" in every key but the
    ``best_*``, which say how high the score could be with the threshold chosen on these very questions. An empty
    prediction is "no answer" whatever its odds.
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
    """Exact match and F1 of each question, the best over its references, as numbers from 0 to 1.

    References that normalise to nothing do not count; without any reference the right prediction is "".
    """
    exact_scores, f1_scores = {}, {}
    for question, texts in golds.items():
        wanted = [text for text in map(normalize, texts) if text] or [""]
        exact_scores[question], f1_scores[question] = _best_reference(normalize(predictions[question]), wanted)
    return exact_scores, f1_scores


def _best_reference(predicted: str, wanted: Sequence[str]) -> tuple[float, float]:
    """Exact match and F1 between normalised texts."""
    words = predicted.split()
    return float(predicted in wanted), max(bag_f1(words, text.split()) for text in wanted)


def _silenced(scores: Mapping[str, float], silent: Collection[str], has_answer: Mapping[str, bool]) -> dict[str, float]:
    """The scores when the silent questions are answered with "no answer"."""
    return {q: float(not has_answer[q]) if q in silent else score for q, score in scores.items()}


def _means(
    prefix: str, exact_scores: Mapping[str, float], f1_scores: Mapping[str, float], questions: Sequence[str]
) -> dict[str, float]:
    """Means over some questions in percent; no keys at all where there are none."""
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
    """The best score over all thresholds in percent, and its threshold.

    Starts from silence everywhere and lets the questions speak one by one, by rising odds and, where these are equal,
    in the order of `null_odds`. As in the official script the best may lie between two questions of equal odds (which
    no threshold could tell apart), and silence everywhere has the threshold 0.
    """
    order = sorted((question for question in null_odds if question in scores), key=null_odds.__getitem__)
    gains = [scores[q] if has_answer[q] else -float(q in answered) for q in order]
    silence = float(sum(not answerable for answerable in has_answer.values()))
    totals = np.cumsum([silence, *gains])
    best = int(np.argmax(totals))  # the first of equals
    return 100.0 * float(totals[best]) / len(scores), float(null_odds[order[best - 1]]) if best else 0.0


# SQuAD 1.1


def score_squad1(golds: Golds, predictions: Mapping[str, str]) -> dict[str, float]:
    """The official scores, in percent. A missing prediction scores 0, with a warning."""
    check_texts(golds, predictions)
    check_answerable(golds, "SQuAD 1.1")
    absent = [question for question in golds if question not in predictions]
    if absent:
        warnings.warn(f"{listed(absent, 'missing prediction')}, scored 0", LaminaWarning, stacklevel=2)
    exact_scores, f1_scores = {}, {}
    for question, texts in golds.items():
        predicted = normalize(predictions.get(question, ""))
        best_exact, best_f1 = _best_reference(predicted, [normalize(text) for text in texts])
        exact_scores[question] = best_exact if question in predictions else 0.0
        f1_scores[question] = best_f1 if predicted else 0.0  # in 1.1 two texts without words have nothing in common
    means = _means("", exact_scores, f1_scores, list(golds))
    return {"exact_match": means["exact"], "f1": means["f1"]}


# Checks


def _complete(golds: Golds, predictions: Mapping[str, str], missing: Missing) -> Mapping[str, str]:
    check_texts(golds, predictions)
    absent = [question for question in golds if question not in predictions]
    if absent and missing == "error":
        raise LaminaError(f'{listed(absent, "missing prediction")}: predict them, or count them as "" with --missing null')
    return {**predictions, **dict.fromkeys(absent, "")} if absent else predictions


def check_texts(golds: Golds, predictions: Mapping[str, str]) -> None:
    """There are questions, and what is predicted for them are texts."""
    if not golds:
        raise LaminaError("no questions to score")
    wrong = [question for question in golds if not isinstance(predictions.get(question, ""), str)]
    if wrong:
        raise LaminaError(f"{listed(wrong, 'prediction')} not a text")


def check_answerable(golds: Golds, name: str) -> None:
    """Every question has an answer, as all do in the data set of that name."""
    unanswerable = [question for question, texts in golds.items() if not texts]
    if unanswerable:
        raise LaminaError(f"{listed(unanswerable, 'unanswerable question')}: {name} has none: score with squad2")


def _check_odds(golds: Golds, null_odds: Mapping[str, float]) -> None:
    absent = [question for question in golds if question not in null_odds]
    if absent:
        raise LaminaError(f"{listed(absent, 'question')} without null odds: give the odds of every question")
    wrong = [question for question in golds if not _is_number(null_odds[question])]
    if wrong:
        raise LaminaError(f"{listed(wrong, 'null odds')} not a number")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not math.isnan(value)


def listed(questions: Sequence[str], noun: str) -> str:
    """How many, and which is the first."""
    plural = "" if len(questions) == 1 or noun.endswith("s") else "s"
    return f"{len(questions)} {noun}{plural} (first id {questions[0]})"


# The threshold


def balanced_threshold(
    odds: Doubles, f1_if_answered: Doubles, has_answer: Bools, *, tolerance: float = 0.0
) -> tuple[float, float]:
    """The threshold on the null odds that maximises the mean of HasAns_f1 and NoAns_f1, and that mean (from 0 to 1).

    A question is answered "no answer" iff its odds exceed the threshold. `f1_if_answered` is its F1 otherwise: for an
    unanswerable one 1 if the prediction is empty anyway, else 0. Weighing both kinds alike makes the choice independent
    of their shares, which differ between the part held out and the data to come. With one kind only it is the plain F1.

    Candidates are the midpoints between neighbouring odds, and 1 beyond either end; among equals the one nearest to 0.
    Equal is what falls short of the best by at most `tolerance` standard errors of the difference: the top of the curve
    is flat and ragged when the questions are few, and where on it the maximum lies is then chance.
    """
    odds, f1_if_answered = np.asarray(odds, np.float64), np.asarray(f1_if_answered, np.float64)
    has_answer = np.asarray(has_answer, np.bool_)
    if not len(odds) or not np.isfinite(odds).all():
        raise LaminaError("a null threshold needs at least one question, and finite odds")
    weights = _class_weights(has_answer)  # [N]
    order = np.argsort(odds, kind="stable")
    gains = (weights * (f1_if_answered - ~has_answer))[order]  # [N] of speaking instead of keeping silent
    values, firsts = np.unique(odds[order], return_index=True)  # [V] different odds, where each begins
    silence = float(weights[~has_answer].sum())
    scores = silence + np.concatenate([[0.0], np.cumsum(np.add.reduceat(gains, firsts))])  # [V + 1]
    squares = np.concatenate([[0.0], np.cumsum(np.add.reduceat(gains**2, firsts))])  # [V + 1]
    thresholds = np.concatenate([[values[0] - 1], _between(values), [values[-1] + 1]])  # [V + 1]
    error = np.sqrt(np.abs(squares - squares[scores.argmax()]))  # [V + 1] only the questions between two thresholds differ
    equals = np.flatnonzero(scores >= scores.max() - tolerance * error - 1e-12)
    best = equals[np.argmin(np.abs(thresholds[equals]))]
    return float(thresholds[best]), float(scores[best])


def _class_weights(has_answer: Bools) -> Doubles:
    """The weight of each question in the score: half for each kind, or all for the only kind."""
    answerable = int(has_answer.sum())
    counts = np.where(has_answer, answerable, len(has_answer) - answerable)
    kinds = 1 if answerable in (0, len(has_answer)) else 2
    return 1.0 / (kinds * counts)


def _between(values: Doubles) -> Doubles:
    """Midpoints of neighbours; the lower neighbour where rounding would give the upper one."""
    lower, upper = values[:-1], values[1:]
    middle = lower / 2 + upper / 2
    return np.where((middle >= lower) & (middle < upper), middle, lower)
