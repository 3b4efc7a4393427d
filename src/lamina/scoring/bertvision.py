"""Compute scores as the BERTVision paper does (Jiang, Benge and King 2021), to compare with its tables.

In each window, take the best start and the best end independently. Take the window of a question with the greatest
product of their probabilities. The answer is the wordpieces from start to end. Exact match and F1 compare wordpieces without
normalisation. The best over the references counts.

- "No answer" is the classifier token alone (start and end at 0), and any span whose end is before its start. Such a span is
  empty, so a contradiction counts as a right "no answer". The scores are too high because of it, so this is not the default.
- A span may start at the classifier token and end later, or lie in the question. Its wordpieces match no reference, or only
  partly.
- References are the wordpieces of the answer's text alone. Tokenizers that mark the space before a word (RoBERTa's) split it
  differently inside a text, so the exact match is meaningful for WordPiece vocabularies only.

One departure: padding has no logits here, so it is neither chosen nor part of the softmax.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lamina.data.examples import Example
from lamina.data.logits import SpanLogits
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import Windows
from lamina.errors import LaminaError
from lamina.scoring.squad import bag_f1
from lamina.utils.arrays import Doubles, Floats, Longs


def bertvision_legacy(windows: Windows, logits: SpanLogits, gold_pieces: Sequence[Sequence[Sequence[int]]]) -> dict[str, float]:
    """Return exact match and F1 in percent: of all questions, of those with an answer (HasAns) and of those without.

    `gold_pieces` are each example's references as token ids, none for an unanswerable one. The windows must have their
    token ids: windows that a run saved do not.
    """
    answers = _answers(windows, logits)
    if len(answers) != len(gold_pieces):
        raise LaminaError(
            f"gold_pieces: windows of {len(answers)} examples but references of {len(gold_pieces)}. "
            "Fix: give those of the same examples"
        )
    wanted = [[list(pieces) for pieces in golds] or [[]] for golds in gold_pieces]
    exact = np.array([answer in golds for answer, golds in zip(answers, wanted, strict=True)], np.float64)
    f1 = np.array([max(bag_f1(answer, gold) for gold in golds) for answer, golds in zip(answers, wanted, strict=True)])
    has_answer = np.array([bool(golds) for golds in gold_pieces], np.bool_)
    scores: dict[str, float] = {}
    for prefix, which in (("", np.ones_like(has_answer)), ("HasAns_", has_answer), ("NoAns_", ~has_answer)):
        if which.any():
            scores[f"{prefix}exact"] = 100 * float(exact[which].mean())
            scores[f"{prefix}f1"] = 100 * float(f1[which].mean())
            scores[f"{prefix}total"] = int(which.sum())
    return scores


def gold_pieces(examples: Sequence[Example], tokenizer: Tokenizer) -> list[list[list[int]]]:
    """Return each example's references as token ids."""
    texts = [answer.text for example in examples for answer in example.answers]
    if not texts:
        return [[] for _ in examples]
    tokens = tokenizer.encode(texts)
    pieces = iter([tokens.ids[tokens.text(number)].tolist() for number in range(len(texts))])
    return [[next(pieces) for _ in example.answers] for example in examples]


def _answers(windows: Windows, logits: SpanLogits) -> list[list[int]]:
    """Return the token ids of each example's answer, none for "no answer"."""
    tokens = int(windows.starts[-1])
    for part in (windows.ids, logits.start, logits.end):
        if part.shape != (tokens,):
            raise LaminaError(
                f"windows: {tokens} tokens with {len(part)} ids or logits. Fix: use windows with token ids, and their logits"
            )
        if not np.isfinite(part).all():
            raise LaminaError("logits: some are not finite: the model has diverged. Fix: train it again with a lower train.lr")
    begin, begin_log_p = _best(windows, logits.start)
    stop, stop_log_p = _best(windows, logits.end)
    order = np.lexsort((-(begin_log_p + stop_log_p), windows.example))  # stable: a tie goes to the earlier window
    _, first = np.unique(windows.example[order], return_index=True)
    answers = []
    for window in order[first].tolist():
        low, high, base = int(begin[window]), int(stop[window]), int(windows.starts[window])
        answers.append(windows.ids[base + low : base + high + 1].tolist() if (low, high) != (0, 0) else [])
    return answers


def _best(windows: Windows, logits: Floats) -> tuple[Longs, Doubles]:
    """Return [W] the first best token of each window, counted from its start, and the logarithm of its probability."""
    first, lengths, values = windows.starts[:-1], windows.lengths, logits.astype(np.float64)
    top = np.repeat(np.maximum.reduceat(values, first), lengths)  # [tokens]
    position = np.arange(len(values)) - np.repeat(first, lengths)  # [tokens]
    best = np.minimum.reduceat(np.where(values == top, position, len(values)), first)  # [W]
    return best, -np.log(np.add.reduceat(np.exp(values - top), first))
