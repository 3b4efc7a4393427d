"""Compare the start and the trained model on held-out examples, and decide which one to hand out.

The trained model is handed out if its score is higher. With fewer than 100 held-out examples, chance alone often gives a
higher score. Then the lower end of the 80% interval of the difference must be above 0 too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from lamina.answers.calibration import FEWEST, Calibration
from lamina.answers.decisions import SpanDecision
from lamina.answers.decode import Across, Prediction
from lamina.answers.formats import predictions_json
from lamina.data.examples import Example, Sentence
from lamina.data.labels import Labels
from lamina.scoring.predictions import (
    by_question,
    calibrate,
    null_curve,
    references,
    several_contexts,
    tune_threshold,
    whole_questions,
)
from lamina.scoring.recalibration import share_of
from lamina.scoring.sentence import pearson
from lamina.scoring.significance import LEVEL, Clusters, bootstrap_interval, correlation_interval
from lamina.scoring.squad import question_scores
from lamina.utils.arrays import Doubles

FEW: Final = 100  # held-out examples
CAREFUL: Final = 0.8  # level of the interval that must be above 0 if they are few
SHOWN: Final = 3  # examples whose prediction changed


@dataclass(frozen=True)
class Change:
    """A score of the start and of the trained model, and the 95% interval of the difference."""

    before: float
    after: float
    low: float
    high: float


@dataclass(frozen=True)
class Changed:
    """A held-out example whose prediction changed. An empty answer means "no answer"."""

    text: str  # the question or the sentence
    before: str
    after: str
    right: str


@dataclass(frozen=True)
class Comparison:
    """The scores before and after, by name. The first one decides."""

    scores: Mapping[str, Change]
    examples: int
    better: bool
    changed: list[Changed]

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return asdict(self)


# Questions


@dataclass(frozen=True)
class HeldOutQuestions:
    """Held-out questions with the n-best answers of the start and of a trained model."""

    examples: list[Example]
    before: list[Prediction]
    after: list[Prediction]


def fit_decision(
    predictions: Sequence[Prediction], examples: Sequence[Example], start: SpanDecision, across: Across
) -> SpanDecision:
    """Return a decision fitted on held-out questions. Its thresholds stay as near to those of the start as the data allow.

    Fewer than 20 questions keep the calibration of the start, with its share of unanswerable questions and its curve.
    """
    threshold = _near(start.threshold, predictions, examples)
    of_questions = start.question_threshold
    if several_contexts(examples):
        of_questions = _near(start.over_contexts, *by_question(predictions, examples, across))
    if len(predictions) < FEWEST:
        return start.model_copy(update={"threshold": threshold, "question_threshold": of_questions})
    return SpanDecision(
        threshold=threshold,
        calibration=calibrate(predictions, examples),
        question_threshold=of_questions,
        unanswerable=share_of(examples),
        curve=null_curve(predictions, examples),
    )


def with_calibration_of(start: SpanDecision, trained: SpanDecision) -> SpanDecision:
    """Return the decision of a run, with the calibration of the start if the run had too few questions to fit one."""
    if trained.calibration != Calibration():
        return trained
    kept = {"calibration": start.calibration, "unanswerable": start.unanswerable, "curve": start.curve}
    return trained.model_copy(update=kept)


def _near(start: float, predictions: Sequence[Prediction], examples: Sequence[Example]) -> float:
    """Return the tuned threshold nearest to that of the start, or the latter if both give the same answers."""
    found, _ = tune_threshold(predictions, examples, around=start)
    low, high = min(found, start), max(found, start)
    return found if any(low < prediction.null_odds <= high for prediction in predictions) else start


def question_texts(
    predictions: Sequence[Prediction], examples: Sequence[Example], decision: SpanDecision, across: Across
) -> dict[str, str]:
    """Return the answer to each question over all of its contexts, "" for "no answer"."""
    limit = decision.over_contexts if several_contexts(examples) else decision.threshold
    return predictions_json(by_question(predictions, examples, across)[0], limit)


def compare_questions(
    tested: Sequence[HeldOutQuestions], before: SpanDecision, after: Sequence[SpanDecision], across: Across
) -> Comparison:
    """Return the comparison of EM and F1 over all tested questions. `after` has the decision of each part."""
    examples = [example for part in tested for example in whole_questions(part.examples)]
    old: dict[str, str] = {}
    new: dict[str, str] = {}
    for part, decision in zip(tested, after, strict=True):
        old |= question_texts(part.before, part.examples, before, across)
        new |= question_texts(part.after, part.examples, decision, across)
    gold = references(examples)
    scores = [question_scores(gold, texts) for texts in (old, new)]  # (exact, F1) each
    of_context: dict[str, int] = {}
    clusters = np.array([of_context.setdefault(example.context, len(of_context)) for example in examples])
    by_name = {}
    for name, which in (("f1", 1), ("exact", 0)):
        a, b = (100 * np.array([side[which][example.id] for example in examples]) for side in scores)
        by_name[name] = (a, b)
    f1 = by_name["f1"][1] - by_name["f1"][0]
    changed = [
        Changed(e.question, old[e.id], new[e.id], " / ".join(dict.fromkeys(gold[e.id])))
        for e in (examples[place] for place in np.argsort(-np.abs(f1), kind="stable").tolist())
        if old[e.id] != new[e.id]
    ]
    return Comparison(
        {name: _change(a, b, clusters) for name, (a, b) in by_name.items()},
        len(examples),
        _is_better(f1, clusters),
        changed[:SHOWN],
    )


# Sentences


@dataclass(frozen=True)
class HeldOutSentences:
    """Held-out sentences with the predictions of the start and of a trained model: classes, or scores."""

    examples: Sequence[Sentence]
    before: Sequence[str | float]
    after: Sequence[str | float]


def compare_sentences(tested: Sequence[HeldOutSentences], labels: Labels) -> Comparison:
    """Return the comparison of the accuracy of classes, or of Pearson's correlation of scores."""
    examples = [example for part in tested for example in part.examples]
    old = [value for part in tested for value in part.before]
    new = [value for part in tested for value in part.after]
    if labels.are_scores:
        gold = np.array([labels.number(str(example.label)) for example in examples])
        a, b = np.array(old, np.float64), np.array(new, np.float64)
        low, high = correlation_interval(a, b, gold)
        change = Change(pearson(a, gold), pearson(b, gold), low, high)
        better = change.after > change.before and (len(gold) >= FEW or correlation_interval(a, b, gold, level=CAREFUL)[0] > 0)
        gains = np.abs(a - gold) - np.abs(b - gold)
        return Comparison({"pearson": change}, len(gold), better, _changed(examples, old, new, gains))
    a, b = (np.array([float(found == e.label) for found, e in zip(side, examples, strict=True)]) for side in (old, new))
    scores = {"accuracy": _change(a, b)}
    return Comparison(scores, len(examples), _is_better(b - a), _changed(examples, old, new, b - a))


def _changed(
    examples: Sequence[Sentence], old: Sequence[str | float], new: Sequence[str | float], gains: Doubles
) -> list[Changed]:
    """Return the examples with the greatest gains or losses."""
    order = np.argsort(-np.abs(gains), kind="stable").tolist()
    different = [place for place in order if _shown(old[place]) != _shown(new[place])]
    return [
        Changed(_text(examples[place]), _shown(old[place]), _shown(new[place]), str(examples[place].label))
        for place in different[:SHOWN]
    ]


def _shown(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.2f}"


def _text(sentence: Sentence) -> str:
    return sentence.first if sentence.second is None else f"{sentence.first} | {sentence.second}"


# Both


def _change(a: Doubles, b: Doubles, clusters: Clusters | None = None) -> Change:
    low, high = _interval(b - a, clusters, LEVEL)
    return Change(float(a.mean()), float(b.mean()), low, high)


def _is_better(differences: Doubles, clusters: Clusters | None = None) -> bool:
    """Return whether the mean is above 0, and surely so if there are few examples."""
    if differences.mean() <= 0:
        return False
    return len(differences) >= FEW or _interval(differences, clusters, CAREFUL)[0] > 0


def _interval(differences: Doubles, clusters: Clusters | None, level: float) -> tuple[float, float]:
    """Return the interval of the mean. The questions on one or two texts count as independent.

    A bootstrap of two clusters has only three different means, so that it takes chance for a gain too often.
    """
    few = clusters is not None and len(set(clusters.tolist())) < 3
    return bootstrap_interval(differences, None if few else clusters, level=level)
