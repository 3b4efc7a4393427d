"""What the analyses of all kinds of task share: shares, confidence, the most confident mistakes, and the overlap of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np

from lamina.answers.calibration import calibration_error, reliability
from lamina.data.examples import Example, Sentence
from lamina.errors import LaminaError
from lamina.experiments.analysis.results import Bin, Confidence, Overlap, TaskAnalysis
from lamina.scoring.error_analysis import risk_coverage

MISTAKES: Final = 20
COVERAGES: Final = range(5, 101, 5)  # percent


@dataclass(frozen=True)
class Outcome:
    """The analysis of one task, and whether the prediction for each example is right."""

    analysis: TaskAnalysis
    examples: Sequence[Example] | Sequence[Sentence]
    right: Sequence[bool]


def share(some: int, all_: int) -> float | None:
    """Return the share, or None of nothing."""
    return some / all_ if all_ else None


def mean_words(contexts: Sequence[str]) -> float | None:
    """Return the mean number of words between white space, or None without contexts.

    >>> mean_words(["one two", "three"]), mean_words([])
    (1.5, None)
    """
    return fmean(len(context.split()) for context in contexts) if contexts else None


def confidence_of(confidence: Sequence[float], right: Sequence[bool]) -> Confidence:
    """Return the calibration and the risk-coverage curve of predictions, at least one."""
    risks = risk_coverage(confidence, right)
    places = {f"{percent}": -(-percent * len(risks) // 100) - 1 for percent in COVERAGES}  # rounded up
    return Confidence(
        error=calibration_error(confidence, right),
        bins=[Bin(*values) for values in reliability(confidence, right)],
        area=float(risks.mean()),
        risks={percent: float(risks[place]) for percent, place in places.items()},
    )


def most_confident(confidence: Sequence[float], right: Sequence[bool]) -> list[int]:
    """Return the numbers of at most 20 wrong predictions, the most confident first; ties keep their order."""
    wrong = np.flatnonzero(~np.asarray(right, np.bool_))
    order = np.argsort(-np.asarray(confidence, np.float64)[wrong], kind="stable")
    found: list[int] = wrong[order][:MISTAKES].tolist()
    return found


def overlaps_of(a: str, b: str, first: Mapping[str, Outcome], second: Mapping[str, Outcome]) -> list[Overlap]:
    """Return the overlap of two runs for each task that both have. Scores are neither right nor wrong, so they have none."""
    both = [name for name in first if name in second]
    if not both:
        raise LaminaError(f"{b}: has no task in common with {a}. Fix: analyse the two runs one by one")
    return [_overlap(a, b, name, first[name], second[name]) for name in both if first[name].right and second[name].right]


def _overlap(a: str, b: str, task: str, first: Outcome, second: Outcome) -> Overlap:
    if list(first.examples) != list(second.examples):
        raise LaminaError(
            f"{b}: was not scored on the same examples as {a} (task {task}). "
            "Fix: use runs with the same data.dev and the same data.dev_questions"
        )
    pairs = list(zip(first.right, second.right, strict=True))
    only = {
        side: [e for e, pair in zip(first.examples, pairs, strict=True) if pair == side]
        for side in ((True, False), (False, True))
    }
    words = {side: mean_words([e.context for e in some if isinstance(e, Example)]) for side, some in only.items()}
    return Overlap(
        a=a,
        b=b,
        task=task,
        both_right=pairs.count((True, True)),
        only_a=len(only[True, False]),
        only_b=len(only[False, True]),
        both_wrong=pairs.count((False, False)),
        context_words_of_only_a=words[True, False],
        context_words_of_only_b=words[False, True],
    )
