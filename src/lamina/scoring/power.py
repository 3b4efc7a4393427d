"""Compute which difference a study can see, before it runs.

The difference of two recipes has two sources of chance: the questions of the dev set, and the seeds of the runs. The
variance of the mean difference is the sum of both. More seeds shrink only the second: other seeds do not change which questions
suit a recipe. Two runs of one recipe stand for two recipes, because the others have not been trained yet. A two-sided test at
95% sees a true difference with 80% probability if the difference is 2.8 times the standard error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, stdev
from typing import Final

import numpy as np

from lamina.errors import LaminaError
from lamina.scoring.significance import LEVEL, POWER, Clusters, cluster_error
from lamina.utils.arrays import Doubles

FEWEST: Final = 2  # seeds that show a spread


@dataclass(frozen=True)
class Power:
    """What a study of so many seeds and questions can see. All numbers are in the unit of the scores, such as percent."""

    visible: float
    """The smallest true difference that is found with 80% probability."""
    question_error: float
    """Standard error of the mean difference from the choice of the questions, for one pair of runs."""
    seed_deviation: float
    """Standard deviation of the score over the seeds of one recipe."""
    seeds: int
    questions: int


def power_of(
    scores: Sequence[Doubles], clusters: Clusters | None, *, seeds: int, level: float = LEVEL, power: float = POWER
) -> Power:
    """Return what a study with this baseline can see.

    Args:
        scores: The score of each question, [N], of two or more runs of the baseline that differ only in their seed.
        clusters: The number of each question's cluster, [N]; None for independent questions.
        seeds: The number of seeds of each variant in the study.
        level: The level of the test.
        power: The probability to find the difference.

    Raises:
        LaminaError: There are fewer than two runs, or their questions differ.
    """
    if len(scores) < FEWEST:
        raise LaminaError(
            f"scores: a spread over seeds needs two runs, not {len(scores)}. Fix: train the baseline with two seeds"
        )
    if len({len(one) for one in scores}) > 1:
        raise LaminaError("scores: the runs were scored on different numbers of questions. Fix: give runs of one study")
    pairs = [(a, b) for a in range(len(scores)) for b in range(a)]
    errors = [cluster_error(scores[a] - scores[b], clusters) for a, b in pairs]
    question_error = math.sqrt(float(np.mean(np.square(errors))))
    deviation = stdev([float(one.mean()) for one in scores])
    error = math.sqrt(question_error**2 + 2 * deviation**2 / seeds)
    reach = NormalDist().inv_cdf((1 + level) / 2) + NormalDist().inv_cdf(power)
    return Power(reach * error, question_error, deviation, seeds, len(scores[0]))


def sentence(found: Power, unit: str = "F1") -> str:
    """Return what a study can see as one sentence.

    >>> sentence(Power(2.84, 0.8, 0.6, 3, 3000))
    'With 3 seeds and 3,000 questions, this study finds a true difference of 2.8 F1 in four of five cases, in a single test.'
    """
    return (
        f"With {found.seeds} seed{'s' if found.seeds > 1 else ''} and {found.questions:,} questions, this study finds a true "
        f"difference of {found.visible:.1f} {unit} in four of five cases, in a single test."
    )
