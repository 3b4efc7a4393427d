"""Combine the predictions of several models (BERTVision, Jiang, Benge and King 2021, section "Ensemble").

From logits, if all models have the same windows: take the softmax of a question's starts, and that of its ends. For every
token, take the greatest probability of all models ("max", the paper's) or the mean ("mean", the "sum" that the paper also
tried). Then `decode` as for one model.

From n-best lists, if windows or tokenizers differ: do the same with the texts of the answers instead of tokens. A text that is
not in a model's list has probability 0 there.

Departures, and why:

- The softmax runs over the possible answers: the tokens of the context and "no answer". The paper's runs over all tokens,
  including padding.
- The softmax runs over all windows of a question. "No answer" is the classifier token with the lowest null score, as in
  `decode`. The paper's softmax runs over each window, and the window with the highest probability wins. That can be a window
  without the answer. Questions of one window, which are most, do not differ.
- The mean log-sum-exp of the models' logits for a question is added to all of its log-probabilities. No answer changes, and
  a model combined with itself gives the same bits as alone.
- Answers are the best valid spans. The paper takes start and end independently; `scoring.bertvision` does that.
- `at_threshold` subtracts a model's own null threshold from its null scores first. Each model then votes as it would answer,
  and the common threshold is 0. Without it, one model with a bias to "no answer" wins under "max". The paper has no
  thresholds, which is threshold 0.

All sums are in logarithms, so that no probability becomes 0 by underflow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final, Literal

import numpy as np

from lamina.answers.decode import Candidate, Prediction
from lamina.data.logits import SpanLogits
from lamina.data.windows import Windows
from lamina.errors import LaminaError
from lamina.utils.arrays import Doubles, Floats, Longs

How = Literal["max", "mean"]

MASKED: Final = -1e9  # the logit of a token outside the context: far below all others, but finite
_SUMS: Final[dict[How, Callable[[Doubles, Doubles], Doubles]]] = {"max": np.maximum, "mean": np.logaddexp}


def combine(logits: Sequence[SpanLogits], windows: Windows, how: How = "max") -> SpanLogits:
    """Return the combined logits of several models, given one `SpanLogits` per model for the same windows.

    All windows of a question get the same null score at their classifier tokens.
    """
    tokens = int(windows.starts[-1])
    shapes = {part.shape for one in logits for part in (one.start, one.end)}
    if shapes != {(tokens,)}:
        raise LaminaError(
            f"logits: they have shapes {sorted(shapes)} for windows of {tokens} tokens. Fix: combine those of the same windows"
        )
    if not all(np.isfinite(one.start).all() and np.isfinite(one.end).all() for one in logits):
        raise LaminaError("logits: some are not finite: a model has diverged. Fix: leave out that model")
    nulls = [_null_tokens(one, windows) for one in logits]
    start = _combine([one.start for one in logits], nulls, windows, how)
    return SpanLogits(start, _combine([one.end for one in logits], nulls, windows, how))


def at_threshold(logits: SpanLogits, windows: Windows, threshold: float) -> SpanLogits:
    """Return logits with null odds smaller by `threshold`: at 0 they give the answers of the original at `threshold`."""
    first = windows.starts[:-1]
    start, end = logits.start.copy(), logits.end.copy()
    start[first] -= threshold / 2
    end[first] -= threshold / 2
    return SpanLogits(start, end)


def combine_nbest(models: Sequence[Sequence[Prediction]], how: How = "max") -> list[Prediction]:
    """Return the combined predictions, given one list per model for the same questions. Scores are log-probabilities.

    >>> sure = Prediction("q", null=0.0, candidates=(Candidate("Paris", 0, 5, 4.0),))
    >>> unsure = Prediction("q", null=1.0, candidates=(Candidate("Rome", 10, 14, 0.0),))
    >>> together = combine_nbest([[sure], [unsure]])[0]
    >>> [candidate.text for candidate in together.candidates]
    ['Paris', 'Rome']
    """
    asked = {tuple(prediction.id for prediction in predictions) for predictions in models}
    if len(asked) != 1:
        raise LaminaError(
            "models: the n-best lists are of different questions. Fix: combine lists of the same questions, in the same order"
        )
    return [_combine_texts(same, how) for same in zip(*models, strict=True)]


def _null_tokens(logits: SpanLogits, windows: Windows) -> Longs:
    """Return [E] for each question the classifier token with the lowest null score of its windows."""
    first = windows.starts[:-1]
    score = logits.start[first].astype(np.float64) + logits.end[first]  # [W]
    order = np.lexsort((score, windows.example))
    lowest: Longs = first[order[_questions(windows)]]
    return lowest


def _questions(windows: Windows) -> Longs:
    """Return [E] the first window of each question. The windows of a question are consecutive."""
    return np.flatnonzero(np.diff(windows.example, prepend=-1))


def _combine(models: Sequence[Floats], nulls: Sequence[Longs], windows: Windows, how: How) -> Floats:
    parts = [_log_softmax(logits, null, windows) for logits, null in zip(models, nulls, strict=True)]
    token, null, level = zip(*parts, strict=True)
    share = np.log(len(parts)) if how == "mean" else 0.0
    height = np.mean(level, axis=0) - share  # [E]
    question = np.cumsum(np.diff(windows.example, prepend=-1) != 0) - 1  # [W] the question's number
    joined = reduce(_SUMS[how], token) + np.repeat(height[question], windows.lengths)  # [tokens]
    joined = np.where(windows.context, joined, MASKED)
    joined[windows.starts[:-1]] = (reduce(_SUMS[how], null) + height)[question]
    return joined.astype(np.float32)


def _log_softmax(logits: Floats, null: Longs, windows: Windows) -> tuple[Doubles, Doubles, Doubles]:
    """Return the log-probabilities of the tokens [tokens], of "no answer" [E], and the log-sum-exp of the logits [E].

    Tokens outside the context have -inf.
    """
    begin = windows.starts[_questions(windows)]  # [E] the first token of each question
    count = np.diff(np.append(begin, windows.starts[-1]))  # [E]
    values = np.where(windows.context, logits.astype(np.float64), -np.inf)  # [tokens]
    values[null] = logits[null]
    top = np.maximum.reduceat(values, begin)  # [E]
    level = top + np.log(np.add.reduceat(np.exp(values - np.repeat(top, count)), begin))  # [E]
    return values - np.repeat(level, count), logits[null] - level, level


def _combine_texts(predictions: Sequence[Prediction], how: How) -> Prediction:
    null: list[float] = []  # the log-probability of "no answer" in each model
    found: dict[str, list[tuple[float, Candidate]]] = {}  # text -> its log-probability in each model that lists it
    for prediction in predictions:
        level = float(np.logaddexp.reduce([prediction.null, *(c.score for c in prediction.candidates)]))
        null.append(prediction.null - level)
        for candidate in prediction.candidates:
            found.setdefault(candidate.text, []).append((candidate.score - level, candidate))

    def together(values: Sequence[float]) -> float:
        return max(values) if how == "max" else float(np.logaddexp.reduce(values)) - float(np.log(len(predictions)))

    candidates = [
        replace(max(same, key=lambda pair: pair[0])[1], score=together([log_p for log_p, _ in same])) for same in found.values()
    ]
    return Prediction(predictions[0].id, together(null), tuple(sorted(candidates, key=lambda c: -c.score)))
