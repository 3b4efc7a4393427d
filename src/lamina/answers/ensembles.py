"""Several models answer together (BERTVision, Jiang, Benge and King 2021, section "Ensemble").

From logits, where all models read the same windows: the softmax of a question's starts and that of its ends; for every token
the greatest probability that any model gives it ("max", the paper's), or the mean ("mean", the "sum" that the paper also
tried); then `decode` as for one model.

From n-best lists, where windows or tokenizers differ: the same with the texts of the answers in place of tokens. A text that
is not in a model's list has no probability there.

Departures, and why:

- The softmax runs over what may be answered: the tokens of the context and "no answer". The paper's runs over all tokens,
  padding included.
- It runs over all windows of a question, where "no answer" is the classifier token of the window that doubts it most, as
  `decode` has it. The paper's runs over each window, and the window that is surest of anything wins; so it can be one that
  rightly sees no answer. Questions of one window, most of them, are not concerned.
- The mean level of the models' logits for a question (the log-sum-exp) is added to all of its log-probabilities. It changes
  no answer, and a model together with itself says bit by bit what it says alone.
- Answers are the best valid spans. The paper takes start and end on their own; `scoring.bertvision` does that.
- `at_threshold` takes a model's own null threshold off its null scores beforehand. Each model then votes as it would answer,
  and the threshold of all together is 0. Without it one model that leans towards "no answer" leads the others there: under
  "max" its sureness wins. The paper has no thresholds: that is threshold 0.

Everything is done in logarithms, so that no probability is too small to be told from 0.
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

MASKED: Final = -1e9  # the logit of a token that cannot answer: far below all others, yet finite
_SUMS: Final[dict[How, Callable[[Doubles, Doubles], Doubles]]] = {"max": np.maximum, "mean": np.logaddexp}


def combine(logits: Sequence[SpanLogits], windows: Windows, how: How = "max") -> SpanLogits:
    """The logits of all models together, one `SpanLogits` each for the same windows.

    Every window of a question gets the same "no answer" at its classifier token.
    """
    tokens = int(windows.starts[-1])
    shapes = {part.shape for one in logits for part in (one.start, one.end)}
    if shapes != {(tokens,)}:
        raise LaminaError(
            f"logits of shapes {sorted(shapes)} for windows of {tokens} tokens: combine those of the same windows"
        )
    if not all(np.isfinite(one.start).all() and np.isfinite(one.end).all() for one in logits):
        raise LaminaError("logits that are not finite: a model that wrote them has diverged")
    nulls = [_null_tokens(one, windows) for one in logits]
    start = _combine([one.start for one in logits], nulls, windows, how)
    return SpanLogits(start, _combine([one.end for one in logits], nulls, windows, how))


def at_threshold(logits: SpanLogits, windows: Windows, threshold: float) -> SpanLogits:
    """The logits whose null odds are smaller by `threshold`: what was said at it is said at 0."""
    first = windows.starts[:-1]
    start, end = logits.start.copy(), logits.end.copy()
    start[first] -= threshold / 2
    end[first] -= threshold / 2
    return SpanLogits(start, end)


def combine_nbest(models: Sequence[Sequence[Prediction]], how: How = "max") -> list[Prediction]:
    """The predictions of all models together, one list each for the same questions. Scores are log-probabilities.

    >>> sure = Prediction("q", null=0.0, candidates=(Candidate("Paris", 0, 5, 4.0),))
    >>> unsure = Prediction("q", null=1.0, candidates=(Candidate("Rome", 10, 14, 0.0),))
    >>> together = combine_nbest([[sure], [unsure]])[0]
    >>> [candidate.text for candidate in together.candidates]
    ['Paris', 'Rome']
    """
    asked = {tuple(prediction.id for prediction in predictions) for predictions in models}
    if len(asked) != 1:
        raise LaminaError("n-best lists of different questions: combine those of the same questions, in the same order")
    return [_combine_texts(same, how) for same in zip(*models, strict=True)]


def _null_tokens(logits: SpanLogits, windows: Windows) -> Longs:
    """[E] the classifier token of each question's window that doubts "no answer" most."""
    first = windows.starts[:-1]
    score = logits.start[first].astype(np.float64) + logits.end[first]  # [W]
    order = np.lexsort((score, windows.example))
    doubting: Longs = first[order[_questions(windows)]]
    return doubting


def _questions(windows: Windows) -> Longs:
    """[E] the first window of each question; those of one question follow each other."""
    return np.flatnonzero(np.diff(windows.example, prepend=-1))


def _combine(models: Sequence[Floats], nulls: Sequence[Longs], windows: Windows, how: How) -> Floats:
    parts = [_log_softmax(logits, null, windows) for logits, null in zip(models, nulls, strict=True)]
    token, null, level = zip(*parts, strict=True)
    share = np.log(len(parts)) if how == "mean" else 0.0
    height = np.mean(level, axis=0) - share  # [E]
    question = np.cumsum(np.diff(windows.example, prepend=-1) != 0) - 1  # [W] which of the E
    joined = reduce(_SUMS[how], token) + np.repeat(height[question], windows.lengths)  # [tokens]
    joined = np.where(windows.context, joined, MASKED)
    joined[windows.starts[:-1]] = (reduce(_SUMS[how], null) + height)[question]
    return joined.astype(np.float32)


def _log_softmax(logits: Floats, null: Longs, windows: Windows) -> tuple[Doubles, Doubles, Doubles]:
    """The log-probabilities of the tokens [tokens], -inf outside the context, and of "no answer" [E] for each question; and
    what was taken off the logits [E]: their log-sum-exp."""
    begin = windows.starts[_questions(windows)]  # [E] the first token of each question
    count = np.diff(np.append(begin, windows.starts[-1]))  # [E]
    values = np.where(windows.context, logits.astype(np.float64), -np.inf)  # [tokens]
    values[null] = logits[null]
    top = np.maximum.reduceat(values, begin)  # [E]
    level = top + np.log(np.add.reduceat(np.exp(values - np.repeat(top, count)), begin))  # [E]
    return values - np.repeat(level, count), logits[null] - level, level


def _combine_texts(predictions: Sequence[Prediction], how: How) -> Prediction:
    null: list[float] = []  # the log-probability of "no answer" in each model
    found: dict[str, list[tuple[float, Candidate]]] = {}  # text -> its log-probability where a model lists it
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
