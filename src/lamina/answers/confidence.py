"""Confidences in the order of the decision: no rival of a reply is surer than the reply.

Calibrated probabilities alone do not have this order. The threshold is fitted for the mean of HasAns and NoAns F1, not for
the share of right replies. So near the threshold, the less probable of "no answer" and the best span can be the reply.
Candidates of several contexts are ranked by their margins, but each has the probability of its own context.

- Where the model's own decision and the two probabilities disagree, both become their mean. That is the nearest pair with
  the order of the decision (isotonic regression), and their sum does not change.
- A threshold of the caller can change the reply. Its confidence stays the probability of what is replied.
- Then every rival has at most the confidence of what is ranked above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate


def ordered_confidences(
    no_answer: float, candidates: Sequence[float], *, answers: bool, replies: bool
) -> tuple[float, list[float]]:
    """Return the confidence of "no answer", and those of the candidates in their order, which never rise.

    >>> ordered_confidences(0.25, [0.5, 0.125], answers=False, replies=False)  # the threshold prefers "no answer"
    (0.375, [0.375, 0.125])
    >>> ordered_confidences(0.75, [0.125, 0.25], answers=False, replies=True)  # the caller wants an answer in any case
    (0.125, [0.125, 0.125])

    Args:
        no_answer: The probability of "no answer", from 0 to 1.
        candidates: The probabilities of the candidates, best first.
        answers: Whether the model's own decision is the best candidate.
        replies: Whether the reply is the best candidate.
    """
    if not candidates:
        return no_answer, []
    best = candidates[0]
    if best < no_answer if answers else no_answer < best:
        best = no_answer = (best + no_answer) / 2
    if replies:
        no_answer = min(no_answer, best)
    else:
        best = min(no_answer, best)
    return no_answer, list(accumulate([best, *candidates[1:]], min))
