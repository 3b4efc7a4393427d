"""Two curves over the null odds, and the best threshold for any share of unanswerable questions.

`NullCurve` has two logistic curves: the probability that a question is unanswerable, and the F1 of the best candidate if it
is answerable. To answer pays as long as the expected F1 exceeds the probability of "no answer". The threshold is where
both are equal. A fit uses all questions, so that the threshold varies less than the maximum of a score over thresholds
(docs/log.md).

The curve of "unanswerable" is Platt's method, with his targets for few questions (Platt 1999). It is fitted with equal
weights of both kinds, and moves by the logit of the share (`lamina.answers.prior_shift`). The curve of F1 is the same method
with F1 as the target. A fit can be held near an older curve, which then counts as some more questions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lamina.answers.logistic import Line, fit_line, logit, platt_targets, sigmoid
from lamina.utils.arrays import Bools, Doubles

FEWEST_OF_A_KIND = 5  # answerable, and unanswerable questions; a fit on fewer would be mostly chance
FARTHEST = 100.0  # the greatest threshold and, negated, the least: null odds beyond it do not occur


@dataclass(frozen=True, slots=True)
class NullCurve:
    """The probability of "unanswerable" with equal shares of both kinds, and the F1 of answerable questions."""

    unanswerable: Line  # rises
    f1: Line  # falls

    def chances(self, odds: Doubles) -> Doubles:
        """Return the probability that questions are unanswerable, if half of all are."""
        return self.unanswerable.at(odds)

    def threshold(self, unanswerable: float) -> float:
        """Return the null odds above which "no answer" has the greater expected F1, for a share between 0 and 1."""
        shift = logit(unanswerable)
        low, high = -FARTHEST, FARTHEST
        while high - low > 1e-6:
            middle = (low + high) / 2
            odds = np.array(middle)
            null = sigmoid(self.unanswerable.level + shift + self.unanswerable.slope * odds)
            low, high = (middle, high) if (1 - null) * self.f1.at(odds) > null else (low, middle)
        return (low + high) / 2


def fit_curve(
    odds: Doubles, f1_if_answered: Doubles, has_answer: Bools, *, older: NullCurve | None = None, counts: float = 0.0
) -> NullCurve | None:
    """Return the curve of labelled questions, or None with fewer than 5 questions of a kind.

    Args:
        odds: The null odds of each question, [N], finite. Leave out questions without candidates.
        f1_if_answered: The F1 of the best candidate, [N], from 0 to 1.
        has_answer: Whether each question is answerable, [N].
        older: A curve to stay near to.
        counts: How many questions the older curve counts as.
    """
    number = np.bincount(has_answer.astype(int), minlength=2)  # unanswerable, answerable
    if number.min() < FEWEST_OF_A_KIND:
        return None
    share = counts / (counts + len(odds)) if older is not None else 0.0
    truth = platt_targets(~has_answer)
    weights = len(odds) / (2 * number[has_answer.astype(int)])
    null = (1 - share) * truth + (share * older.unanswerable.at(odds) if older else 0.0)
    some = odds[has_answer]
    quality = np.clip(f1_if_answered[has_answer], 1 / (number[1] + 2), (number[1] + 1) / (number[1] + 2))
    quality = (1 - share) * quality + (share * older.f1.at(some) if older else 0.0)
    return NullCurve(fit_line(odds, null, weights, least=0.0), fit_line(some, quality, np.ones(len(some)), most=0.0))
