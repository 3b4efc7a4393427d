"""Decode logits by the rules of the question-answering pipeline that `transformers` had until version 5.3.

They differ from the SQuAD scripts (`decode`). Starts and ends are probabilities within one window. A span's score is their
product, and its ends move to whole words. The scores of equal answers are summed, also over windows, so a score can exceed 1.
The score of "no answer" is the smallest that any window gives to its classifier token.

Departures:

- Spans of probability 0 are never answers, unless there is nothing else. The pipeline could fill a long list with them, some
  with the end before the start.
- Among equal scores the earlier span comes first. The pipeline left that to the sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from lamina.data.tokenizer import NO_WORD
from lamina.data.windows import Windows
from lamina.errors import LaminaError
from lamina.utils.arrays import Floats, Longs

_CELLS = 1 << 20  # numbers per intermediate array


class PipelineAnswer(TypedDict):
    """An answer in the pipeline's form: ``context[start:end] == answer``."""

    score: float
    start: int
    end: int
    answer: str


@dataclass
class SummedAnswers:
    """The answers to one question. Its windows add to them in order."""

    context: str
    null: float = 1e6
    by_text: dict[str, PipelineAnswer] = field(default_factory=dict)  # lower-case text -> the first answer with that text

    def add(self, start: int, end: int, score: float) -> None:
        """Add the score of a span; equal texts, in any case, share one score."""
        text = self.context[start:end]
        if known := self.by_text.get(text.lower()):
            known["score"] += score
        else:
            self.by_text[text.lower()] = PipelineAnswer(score=score, start=start, end=end, answer=text)

    def best(self, top_k: int, *, impossible: bool) -> list[PipelineAnswer]:
        """Return the `top_k` best answers. With `impossible`, "no answer" is one of the candidates."""
        null = [PipelineAnswer(score=self.null, start=0, end=0, answer="")] if impossible else []
        found = sorted([*self.by_text.values(), *null], key=lambda answer: -answer["score"])[:top_k]
        return found or [PipelineAnswer(score=0.0, start=0, end=0, answer="")]


def add_windows(
    answers: Sequence[SummedAnswers], windows: Windows, start: Floats, end: Floats, *, top_k: int, max_tokens: int, words: bool
) -> None:
    """Add the spans of some windows to the answers of their examples. `words` moves ends to whole words.

    `start` and `end` [tokens] are logits without padding. As in the pipeline, only the best spans of a window count:
    `top_k`, or 2 * top_k + 10 with `words`, because whole words can make several spans equal.
    """
    if not (np.isfinite(start).all() and np.isfinite(end).all()):
        raise LaminaError(
            "model: its logits are not finite: it has diverged in training. Fix: train it again with a lower train.lr"
        )
    first_of, last_of = _word_ends(windows) if words else (np.arange(len(windows.ids)),) * 2
    pool = 2 * top_k + 10 if words else top_k
    lengths = windows.lengths
    rows = max(1, _CELLS // max(1, int(lengths.max(initial=1)) * max_tokens))
    for low in range(0, len(windows), rows):
        null, row, begin, stop, score = _best_spans(
            windows, np.arange(low, min(low + rows, len(windows))), start, end, pool, max_tokens
        )
        for window, value in enumerate(null.tolist(), low):
            owner = answers[windows.example[window]]
            owner.null = min(owner.null, value)
        begins = windows.offsets[first_of[begin], 0].tolist()
        stops = windows.offsets[last_of[stop], 1].tolist()
        owners = windows.example[row].tolist()
        for owner_number, a, b, value in zip(owners, begins, stops, score.tolist(), strict=True):
            answers[owner_number].add(a, b, value)


def _best_spans(
    windows: Windows, chunk: Longs, start: Floats, end: Floats, pool: int, max_tokens: int
) -> tuple[Floats, Longs, Longs, Longs, Floats]:
    """Return the null score of each window, and the window, first token, last token and score of its best spans, best first."""
    length = windows.lengths[chunk]
    column = np.arange(int(length.max()))
    real = column < length[:, None]  # [R, T]
    token = np.where(real, windows.starts[chunk][:, None] + column, 0)  # [R, T]
    allowed = real & windows.context[token]
    allowed[:, 0] = True  # the softmax includes the classifier token
    starts, ends = _softmax(start[token], allowed), _softmax(end[token], allowed)
    null = starts[:, 0] * ends[:, 0]
    starts[:, 0] = ends[:, 0] = 0

    width = min(max_tokens, len(column))
    padded = np.concatenate([ends, np.zeros((len(chunk), width), np.float32)], 1)
    reach = np.lib.stride_tricks.sliding_window_view(padded, width, 1)[:, : len(column)]  # [R, T, D] ends from each start on
    scores = (starts[:, :, None] * reach).reshape(len(chunk), -1)  # [R, T * D]
    count = min(pool, scores.shape[1])
    best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    best.sort(axis=1)  # ties go to the earlier span
    order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1, kind="stable")
    best = np.take_along_axis(best, order, 1)
    value = np.take_along_axis(scores, best, 1)
    row, rank = np.nonzero(value > 0)
    begin, more = np.divmod(best[row, rank], width)
    first = windows.starts[chunk][row] + begin
    return null, chunk[row], first, first + more, value[row, rank]


def _softmax(logits: Floats, allowed: npt.NDArray[np.bool_]) -> Floats:
    """Return [R, T] the softmax over the allowed positions, 0 elsewhere."""
    masked = np.where(allowed, logits, np.float32(-np.inf))
    weights = np.exp(masked - masked.max(1, keepdims=True))
    result: Floats = weights / weights.sum(1, keepdims=True)
    return result


def _word_ends(windows: Windows) -> tuple[Longs, Longs]:
    """Return [tokens] the first and the last token of each token's word within its window."""
    assert windows.words is not None
    same = (windows.words[1:] == windows.words[:-1]) & (windows.words[1:] != NO_WORD)
    same[windows.starts[1:-1] - 1] = False  # another window
    index = np.arange(len(windows.ids))
    begins = np.concatenate([[True], ~same]) if len(index) else np.zeros(0, bool)
    ends = np.concatenate([~same, [True]]) if len(index) else np.zeros(0, bool)
    first = np.maximum.accumulate(np.where(begins, index, 0))
    last = np.minimum.accumulate(np.where(ends, index, len(index))[::-1])[::-1]
    return first, last
