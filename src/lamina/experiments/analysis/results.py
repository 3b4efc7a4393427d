"""The results of an analysis, as plain values that `dataclasses.asdict` turns into JSON.

Scores are in percent, shares and confidences from 0 to 1. A share of nothing is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Group:
    """The official scores of some questions."""

    questions: int
    exact: float
    f1: float


@dataclass(frozen=True)
class Bin:
    """The predictions of similar confidence: their mean confidence, and their share of all predictions."""

    confidence: float
    right: float  # share of right predictions
    share: float


@dataclass(frozen=True)
class Confidence:
    """How well the confidence tells right predictions from wrong ones."""

    error: float  # the expected calibration error over ten bins
    bins: Sequence[Bin]
    area: float  # under the risk-coverage curve; the mean risk without any order is 1 - accuracy
    risks: Mapping[str, float]  # share of wrong predictions by coverage in percent, most confident predictions first


@dataclass(frozen=True)
class Mistake:
    """A wrong prediction. `text` is a piece of the context, or the second text of a pair."""

    id: str
    question: str  # or the first text of a sentence task
    gold: Sequence[str]  # the references; empty if there is no answer
    prediction: str  # "" for "no answer"
    confidence: float | None  # None for scores
    text: str


@dataclass(frozen=True)
class SpanAnalysis:
    """The analysis of a span task at the run's own threshold. An answer is right by the official exact match."""

    questions: int
    threshold: float
    exact: float
    f1: float
    counts: Mapping[str, int]  # those of `answer_counts`, and HasAns_null: wrong HasAns that were predicted null
    null_of_wrong_has_answer: float | None  # share of wrong HasAns questions that were predicted null
    second_right_of_wrong: float | None  # share of wrong questions whose second answer is right
    has_answer_of_second_right: float | None  # share of those that have an answer
    has_answer_of_right: float | None  # share of right questions that have an answer
    context_words_of_right: float | None  # mean number of words of the contexts
    context_words_of_wrong: float | None
    by_question_word: Mapping[str, Group]
    by_answer_length: Mapping[str, Group]  # words of the shortest reference
    confidence: Confidence
    mistakes: Sequence[Mistake]
    kind: Literal["spans"] = "spans"


@dataclass(frozen=True)
class ClassAnalysis:
    """The analysis of a task with classes: sentences, or answerability."""

    kind: Literal["sentences", "answerability"]
    items: int
    accuracy: float  # percent
    macro_f1: float  # percent
    classes: Sequence[str]
    confusion: Sequence[Sequence[int]]  # [gold class, predicted class]
    predicted: Mapping[str, float]  # share of each class
    gold: Mapping[str, float]
    confidence: Confidence
    mistakes: Sequence[Mistake]


@dataclass(frozen=True)
class ScoreAnalysis:
    """The analysis of a sentence task with scores. Its classes are six equal steps of the range of labels."""

    items: int
    pearson: float
    spearman: float
    mean_difference: float  # mean of the absolute differences, in the unit of the labels
    classes: Sequence[str]
    confusion: Sequence[Sequence[int]]
    predicted: Mapping[str, float]
    gold: Mapping[str, float]
    mistakes: Sequence[Mistake]  # those with the greatest differences
    kind: Literal["scores"] = "scores"


TaskAnalysis = SpanAnalysis | ClassAnalysis | ScoreAnalysis


@dataclass(frozen=True)
class RunAnalysis:
    """The analysis of a run by the names of its tasks."""

    run: str
    tasks: Mapping[str, TaskAnalysis]


@dataclass(frozen=True)
class Overlap:
    """The predictions of two runs for the same questions or sentences."""

    a: str
    b: str
    task: str
    both_right: int
    only_a: int  # right in `a` only
    only_b: int
    both_wrong: int
    context_words_of_only_a: float | None  # mean number of words of the contexts; None for sentences
    context_words_of_only_b: float | None


@dataclass(frozen=True)
class Analysis:
    """The analyses of runs, and the overlap of every two of them."""

    runs: Sequence[RunAnalysis]
    overlaps: Sequence[Overlap]
