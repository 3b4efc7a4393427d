"""Analyse tasks of sentences and of answerability: confusion, shares of the classes, confidence and mistakes.

The confusion matrices and shares are those of paper 002's Figures 8 and 9. Scores have no classes. For them, the range of the
labels is cut into five equal steps, and the greatest label is a class of its own. For labels from 0 to 5 this is the whole part
of the label, as in Figure 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from lamina.answers.sentences import class_probabilities
from lamina.data.labels import Labels
from lamina.errors import LaminaError
from lamina.experiments.analysis.common import MISTAKES, Outcome, confidence_of, most_confident
from lamina.experiments.analysis.results import ClassAnalysis, Mistake, ScoreAnalysis
from lamina.experiments.analysis.saved_tasks import SavedAnswerability, SavedSentences
from lamina.experiments.analysis.spans import question_mistake
from lamina.scoring.error_analysis import confusion
from lamina.scoring.sentence import accuracy, distribution, macro_f1, pearson, spearman
from lamina.utils.arrays import Doubles, Longs

ANSWERABILITY: Final = ("answer", "no answer")
STEPS: Final = 5  # of the range of scores


def analyze_answerability(saved: SavedAnswerability) -> Outcome:
    """Return the analysis of an answerability task. A question has no answer above a probability of one half."""
    impossible = np.asarray(saved.impossible, np.float64)
    predicted = (impossible > 0.5).astype(np.int64)
    gold = np.array([not example.answers for example in saved.examples], np.int64)
    chances = np.where(predicted == 1, impossible, 1 - impossible).tolist()
    right = (predicted == gold).tolist()
    mistakes = [
        question_mistake(saved.examples[number], ANSWERABILITY[predicted[number]], chances[number])
        for number in most_confident(chances, right)
    ]
    analysis = _analysis("answerability", ANSWERABILITY, predicted, gold, chances, mistakes)
    return Outcome(analysis, saved.examples, right)


def analyze_sentences(saved: SavedSentences) -> Outcome:
    """Return the analysis of a sentence task, with classes or with scores."""
    return _scores(saved) if saved.labels.are_scores else _classes(saved)


def score_classes(values: Sequence[float], labels: Labels) -> Longs:
    """Return the class of each score, from 0 to 5.

    >>> score_classes([0.0, 0.9, 2.5, 4.99, 5.0], Labels(low=0, high=5)).tolist()
    [0, 0, 2, 4, 5]
    """
    shares = (np.asarray(values, np.float64) - labels.low) / (labels.high - labels.low)
    found: Longs = np.floor(STEPS * shares + 1e-9).clip(0, STEPS).astype(np.int64)
    return found


def _classes(saved: SavedSentences) -> Outcome:
    classes = saved.labels.classes
    gold = np.array([saved.labels.number(str(s.label)) for s in saved.examples], np.int64)
    predicted = np.array([saved.labels.number(str(name)) for name in saved.predictions], np.int64)
    probabilities = class_probabilities(saved.outputs, saved.threshold, saved.score_map)  # [I, C]
    _check_rows(len(probabilities), len(gold))
    chances = probabilities[np.arange(len(gold)), predicted].tolist()
    right = (predicted == gold).tolist()
    mistakes = [_mistake(saved, number, chances[number]) for number in most_confident(chances, right)]
    return Outcome(_analysis("sentences", classes, predicted, gold, chances, mistakes), saved.examples, right)


def _analysis(
    kind: Literal["answerability", "sentences"],
    classes: tuple[str, ...],
    predicted: Longs,
    gold: Longs,
    chances: Sequence[float],
    mistakes: list[Mistake],
) -> ClassAnalysis:
    """Return the numbers of any task with classes. `chances` are the probabilities of the predicted classes."""
    return ClassAnalysis(
        kind=kind,
        items=len(gold),
        accuracy=100 * accuracy(predicted, gold),
        macro_f1=100 * macro_f1(predicted, gold),
        classes=classes,
        confusion=confusion(predicted, gold, len(classes)).tolist(),
        predicted=distribution(predicted, classes),
        gold=distribution(gold, classes),
        confidence=confidence_of(chances, (predicted == gold).tolist()),
        mistakes=mistakes,
    )


def _scores(saved: SavedSentences) -> Outcome:
    labels = saved.labels
    gold: Doubles = np.array([labels.number(str(s.label)) for s in saved.examples])
    predicted: Doubles = np.array([float(value) for value in saved.predictions])
    differences = np.abs(predicted - gold)
    names = [f"{labels.low + number * (labels.high - labels.low) / STEPS:g}" for number in range(STEPS + 1)]
    given, wanted = score_classes(predicted.tolist(), labels), score_classes(gold.tolist(), labels)
    farthest = np.argsort(-differences, kind="stable")[:MISTAKES].tolist()
    analysis = ScoreAnalysis(
        items=len(gold),
        pearson=pearson(predicted, gold),
        spearman=spearman(predicted, gold),
        mean_difference=float(differences.mean()),
        classes=names,
        confusion=confusion(given, wanted, len(names)).tolist(),
        predicted=distribution(given, names),
        gold=distribution(wanted, names),
        mistakes=[_mistake(saved, number, None) for number in farthest if differences[number] > 0],
    )
    return Outcome(analysis, saved.examples, [])


def _mistake(saved: SavedSentences, number: int, confidence: float | None) -> Mistake:
    sentence, prediction = saved.examples[number], saved.predictions[number]
    shown = prediction if isinstance(prediction, str) else f"{prediction:.2f}"
    return Mistake(sentence.id, sentence.first, [str(sentence.label)], shown, confidence, sentence.second or "")


def _check_rows(found: int, wanted: int) -> None:
    if found != wanted:
        raise LaminaError(f"outputs: {found} rows for {wanted} sentences. Fix: copy or train the run again")
