"""Decode logits into answers: the n best spans of each window, merged over the windows of an example.

The rules are those of the BERT authors' SQuAD script. Spans combine the 20 best starts and the 20 best ends of a window. They
lie in the context and have at most 30 tokens. A start counts in the window with the most context around it. The null score is
the smallest score of the classifier token over all windows.

Departures, and why:

- The 20 are the best *allowed* positions. The script drops forbidden positions after choosing the best, so a window with
  high logits at its classifier token or question offers fewer answers.
- The 20 do not shrink with `n_best`, so up to 20 a shorter list is always the beginning of a longer one.
- Scores are sums in float64. Ties go to the earlier window, then the earlier start, then the earlier end. So the result does
  not depend on how windows are grouped.
- Texts come from `quote`, and lose a Korean particle (`without_particle`). With `whole_words`, a part of a word becomes the
  word. Then candidates with the same text count once.

Decoding needs only arrays and the examples' contexts, no model and no tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from pydantic import PositiveInt

from lamina.answers.particles import without_particle
from lamina.answers.quoting import quote, whole_words
from lamina.data.examples import Example
from lamina.data.windows import Windows
from lamina.errors import LaminaError
from lamina.utils.arrays import Bools, Doubles, Floats, Longs
from lamina.utils.options import Options

__all__ = [
    "NO_CANDIDATE_ODDS",
    "Across",
    "AnswerOptions",
    "Candidate",
    "Prediction",
    "decode",
    "decode_piece",
    "merge",
    "quote",
]

Across = Literal["margin", "paper_probability"]

NO_CANDIDATE_ODDS = 1e9  # the null odds without any candidate: above every threshold, but finite for JSON
_POOL = 20  # starts and ends of a window that are combined
_CELLS = 1 << 18  # numbers per intermediate array, which fits the processor's cache
_FORBIDDEN = np.iinfo(np.int64).min
_LOW = 0xFFFFFFFF


class AnswerOptions(Options):
    """Options of decoding. `answers.across_contexts` describes the two rules of `across`."""

    n_best: PositiveInt = 20
    """Number of different answers to keep for each example."""
    max_tokens: PositiveInt = 30
    """Largest number of tokens of an answer."""
    across: Across = "margin"
    """How to compare answers from several contexts: by the margin above "no answer", or by the paper's probabilities."""
    cut_particles: bool = True
    """Leave a Korean particle off the end of an answer if one token holds both: 서울 for 서울에서."""
    whole_words: bool = False
    """Extend an answer that starts or ends inside a word to the whole word, in scripts that have capitals."""


_DEFAULT = AnswerOptions()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible answer: ``context[start:end] == text``, with offsets in characters."""

    text: str
    start: int
    end: int
    score: float  # start logit + end logit


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction for one example, from all of its windows.

    >>> prediction = Prediction("q", null=1.0, candidates=(Candidate("Paris", 10, 15, 3.0),))
    >>> prediction.null_odds
    -2.0
    >>> prediction.answer().text
    'Paris'
    >>> prediction.answer(threshold=-2.5) is None
    True

    Attributes:
        id: The id of the example.
        null: The score of "no answer" in logits: the smallest start logit + end logit of the windows' classifier tokens.
        candidates: The possible answers, best first, each text once; may be empty.
    """

    id: str
    null: float
    candidates: tuple[Candidate, ...]

    @property
    def null_odds(self) -> float:
        """The score of "no answer" minus that of the best candidate, in logits; 1e9 without candidates."""
        return self.null - self.candidates[0].score if self.candidates else NO_CANDIDATE_ODDS

    def answer(self, threshold: float = 0.0) -> Candidate | None:
        """Return the best candidate, or None for "no answer".

        Args:
            threshold: The null odds above which the result is None, in logits.

        Returns:
            The candidate with the highest score, or None if there is none or the null odds exceed the threshold.
        """
        return self.candidates[0] if self.candidates and self.null_odds <= threshold else None


def decode(
    windows: Windows, start: Floats, end: Floats, examples: Sequence[Example], options: AnswerOptions = _DEFAULT
) -> list[Prediction]:
    """Return one prediction per example, in the examples' order.

    `start` and `end` [tokens] are logits without padding, aligned with ``windows.starts``. `examples` are the examples of the
    windows.
    """
    seen = np.bincount(windows.example, minlength=len(examples))
    if len(seen) != len(examples) or not seen.all():
        raise LaminaError(
            f"examples: the windows are of {np.count_nonzero(seen)} examples but {len(examples)} were given. "
            "Fix: decode with the examples that the windows were made from"
        )
    return list(decode_piece(windows, start, end, examples, options).values())


def decode_piece(
    windows: Windows, start: Floats, end: Floats, examples: Sequence[Example], options: AnswerOptions = _DEFAULT
) -> dict[int, Prediction]:
    """Return the predictions of the examples that have windows here, by their number. `merge` joins several pieces."""
    start, end = np.asarray(start, np.float32), np.asarray(end, np.float32)
    _check(windows, start, end, examples)
    null = _null_scores(windows, start, end, len(examples))
    spans = _best_spans(windows, start, end, options)
    first, last = windows.offsets[spans.start, 0], windows.offsets[spans.end]  # in characters
    columns = (first.tolist(), last[:, 0].tolist(), last[:, 1].tolist(), spans.score.tolist())
    here = np.unique(windows.example)
    owners = windows.example[spans.window]
    bounds = zip(np.searchsorted(owners, here).tolist(), np.searchsorted(owners, here, side="right").tolist(), strict=True)
    predictions = {}
    for i, (low, high) in zip(here.tolist(), bounds, strict=True):
        own = zip(*(column[low:high] for column in columns), strict=True)
        candidates = _distinct(examples[i].context, own, options)
        predictions[i] = Prediction(examples[i].id, float(null[i]), candidates)
    return predictions


def merge(parts: Sequence[Prediction], options: AnswerOptions = _DEFAULT) -> Prediction:
    """Return one prediction from those of an example's pieces, equal to decoding the pieces at once."""
    if len(parts) == 1:
        return parts[0]
    best: dict[str, Candidate] = {}
    for candidate in sorted((c for part in parts for c in part.candidates), key=lambda c: -c.score):
        best.setdefault(candidate.text, candidate)
    return Prediction(parts[0].id, min(part.null for part in parts), tuple(best.values())[: options.n_best])


class _Spans(NamedTuple):
    """Scored spans as parallel arrays."""

    window: Longs
    start: Longs  # the span's first token
    end: Longs  # the span's last token
    score: Doubles

    def take(self, which: Longs | Bools) -> _Spans:
        return _Spans(self.window[which], self.start[which], self.end[which], self.score[which])


def _distinct(context: str, spans: Iterable[tuple[int, int, int, float]], options: AnswerOptions) -> tuple[Candidate, ...]:
    """Return the first `n_best` spans with different quotes. Empty quotes are skipped: they would mean "no answer".

    A span has its first character, the first character of its last token, the end of its characters, and its score.
    """
    found: dict[str, Candidate] = {}
    for first, token, last, score in spans:
        begin, stop = quote(context, first, last)
        if options.cut_particles:
            stop = without_particle(context, max(begin, token), stop)
        if options.whole_words:
            begin, stop = whole_words(context, begin, stop)
        text = context[begin:stop]
        if text and text not in found:
            found[text] = Candidate(text, begin, stop, score)
            if len(found) == options.n_best:
                break
    return tuple(found.values())


def _null_scores(windows: Windows, start: Floats, end: Floats, count: int) -> Doubles:
    """Return the smallest score of the classifier tokens per example: one window with an answer is enough."""
    first = windows.starts[:-1]
    null = np.full(count, np.inf)
    np.minimum.at(null, windows.example, start[first].astype(np.float64) + end[first])
    return null


def _best_spans(windows: Windows, start: Floats, end: Floats, options: AnswerOptions) -> _Spans:
    """Return the best spans of every window, sorted by example, then best first. Ties: see the module."""
    pool = max(_POOL, options.n_best)
    parts = [_chunk_spans(windows, chunk, start, end, pool, options) for chunk in _chunks(windows, pool)]
    if not parts:
        nothing = np.zeros(0, np.int64)
        return _Spans(nothing, nothing, nothing, np.zeros(0))
    spans = _Spans(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    # lexsort is stable and each window's spans are in the order of their tokens, so ties keep that order.
    spans = spans.take(np.lexsort((-spans.score, spans.window)))
    rank = np.arange(len(spans.window)) - np.searchsorted(spans.window, spans.window)
    spans = spans.take(rank < options.n_best)
    return spans.take(np.lexsort((-spans.score, windows.example[spans.window])))


def _chunks(windows: Windows, pool: int) -> Iterator[Longs]:
    """Yield groups of windows with similar lengths, so that padding costs little."""
    lengths = windows.lengths
    order = np.argsort(lengths, kind="stable")
    position = 0
    while position < len(order):
        # Lengths grow along the order: guess the number of rows from the shortest, then correct it by the longest.
        rows = max(1, _CELLS // max(int(lengths[order[position]]), pool * pool))
        longest = int(lengths[order[position : position + rows]][-1])
        rows = max(1, min(rows, _CELLS // max(longest, pool * pool)))
        yield order[position : position + rows]
        position += rows


def _chunk_spans(windows: Windows, chunk: Longs, start: Floats, end: Floats, pool: int, options: AnswerOptions) -> _Spans:
    """Return the best spans of some windows. Positions count from the first token of all windows."""
    first = windows.starts[chunk]
    length = windows.lengths[chunk]
    column = np.arange(int(length.max()))
    real = column < length[:, None]  # [R, T]
    token = np.where(real, first[:, None] + column, 0)  # [R, T]
    may_end = real & windows.context[token]
    may_start = may_end & windows.max_context[token]
    begin, begin_ok = _top_positions(start[token], may_start, pool)  # [R, P]
    stop, stop_ok = _top_positions(end[token], may_end, pool)  # [R, P]
    begin, stop = begin + first[:, None], stop + first[:, None]

    tokens = stop[:, None, :] - begin[:, :, None] + 1  # [R, P, P]
    valid = begin_ok[:, :, None] & stop_ok[:, None, :] & (tokens >= 1) & (tokens <= options.max_tokens)
    score = start[begin].astype(np.float64)[:, :, None] + end[stop][:, None, :]
    pairs = np.where(valid, score, -np.inf).reshape(len(chunk), -1)  # [R, P * P]
    keep = _at_least_nth(pairs, options.n_best)
    row, pair = np.divmod(np.flatnonzero(keep), pairs.shape[1])
    i, j = np.divmod(pair, stop.shape[1])
    return _Spans(chunk[row], begin[row, i], stop[row, j], pairs[row, pair])


def _at_least_nth(scores: Doubles, n: int) -> Bools:
    """Return a mask of the n highest finite scores per row, and of all that tie with the last of them."""
    finite = scores > -np.inf
    if n >= scores.shape[1]:
        return finite
    nth = -np.partition(-scores, n - 1, axis=1)[:, n - 1 : n]
    kept: Bools = finite & (scores >= nth)
    return kept


def _top_positions(logits: Floats, allowed: Bools, count: int) -> tuple[Longs, Bools]:
    """Return per row the positions of the highest allowed logits, in ascending order, and which of them are real.

    Partitions integers whose high half sorts as the logit and whose low half sorts as the reversed position. So a tie goes
    to the earlier position, whatever the padding.

    >>> _top_positions(np.float32([[1, 3, 3, 9, 3]]), np.array([[True, True, True, False, True]]), 2)
    (array([[1, 2]]), array([[ True,  True]]))
    """
    width = logits.shape[1]
    bits = (logits + np.float32(0)).view(np.int32)  # adding 0 turns -0 into 0
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # floats sort by sign and magnitude, integers do not
    keys = (ordered.astype(np.int64) << 32) | (_LOW - np.arange(width))
    keys = np.where(allowed, keys, _FORBIDDEN)
    if count < width:
        keys = np.partition(keys, width - count, axis=1)[:, width - count :]
    real = keys != _FORBIDDEN
    position = np.where(real, _LOW - (keys & _LOW), width)
    order = np.argsort(position, axis=1)
    real = np.take_along_axis(real, order, axis=1)
    return np.where(real, np.take_along_axis(position, order, axis=1), 0), real


def _check(windows: Windows, start: Floats, end: Floats, examples: Sequence[Example]) -> None:
    """Raise LaminaError if outputs, windows and examples do not belong together: they come from different files."""
    tokens = int(windows.starts[-1])
    for name, logits in (("start", start), ("end", end)):
        if logits.shape != (tokens,):
            raise LaminaError(
                f"{name}: the logits have shape {logits.shape} but the windows have {tokens} tokens. "
                f"Fix: give logits of shape ({tokens},)"
            )
        if not np.isfinite(logits).all():
            broken = int(tokens - np.isfinite(logits).sum())
            raise LaminaError(
                f"{name}: {broken} of {tokens} logits are not finite: the model has diverged. "
                "Fix: train it again with a lower train.lr"
            )
    sizes = np.zeros(len(examples), np.int64)
    for index in np.unique(windows.example).tolist():
        sizes[index] = len(examples[index].context)
    beyond = windows.offsets[:, 1] > np.repeat(sizes[windows.example], windows.lengths)
    if beyond.any():
        owner = np.searchsorted(windows.starts, np.argmax(beyond), side="right") - 1
        raise LaminaError(
            f"examples: the windows of example {examples[windows.example[owner]].id!r} reach beyond its context. "
            "Fix: decode with the examples that the windows were made from"
        )
