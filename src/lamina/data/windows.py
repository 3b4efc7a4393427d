"""Examples -> windows: token sequences of bounded length that together cover each context.

A context that many questions share is tokenised once. Windows are cut from flat arrays by index arithmetic, so no Python code
runs per token. The rules are those of the SQuAD baselines:

- The query is cut to 64 tokens.
- A window that does not hold the whole answer is labelled null.
- If several windows hold a token, an answer may start at it only in the window with the most context around it, measured as
  ``min(left, right) + 0.01 * length``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import Field, model_validator

from lamina.data.examples import Example
from lamina.data.foreign_texts import warn_if_foreign
from lamina.data.tokenizer import NO_WORD, Tokenizer
from lamina.data.window_segments import CONTEXT, QUERY, WindowSegments
from lamina.errors import LaminaError
from lamina.utils.arrays import Bools, Floats, Ints, Longs
from lamina.utils.options import Options

LOST = -1  # gold of an answer that no token covers; such windows are not trained on
MAX_SPECIALS = 4  # <s> A </s></s> B </s>
PIECE = 1 << 16  # tokens of the windows that are made at once, to bound the memory


class WindowOptions(Options):
    """How contexts are cut into windows. Give `step` or `overlap`, not both.

    `step` is the distance in tokens between the starts of windows (the stride of the papers). `overlap` is the number of tokens
    that two neighbours share (``doc_stride`` in run_qa and in the transformers pipeline).
    """

    length: int = Field(default=384, ge=4)
    """Number of tokens of a window, with the question and special tokens, at least 4."""
    step: int | None = Field(default=None, ge=1)
    """Distance between the starts of two windows in tokens, the papers' stride; give this or `overlap`."""
    overlap: int | None = Field(default=None, ge=0)
    """Number of tokens that two neighbouring windows share, called `doc_stride` elsewhere; give this or `step`."""
    query: int | None = Field(default=64, ge=1)
    """Number of tokens that a question is cut to; `None` in Python never cuts it."""

    @model_validator(mode="after")
    def _fits(self) -> WindowOptions:
        if self.step is not None and self.overlap is not None:
            raise ValueError("step and overlap are both given. Fix: give one of them")
        return self

    def check(self) -> None:
        """Raise LaminaError if a window has no room for context beside a question."""
        room = self.length - (self.query or 0) - MAX_SPECIALS
        if self.query is not None and (room < 1 or (self.step or 1) > room or (self.overlap or 0) >= room):
            raise LaminaError(
                f"window.length: {self.length} leaves {room} tokens of context beside a query of {self.query}, too few "
                f"for step = {self.step}, overlap = {self.overlap}. Fix: raise window.length or lower the others"
            )

    def stride(self, room: Longs) -> Longs:
        """Return the distance between window starts for each room, the number of context tokens in a window."""
        if self.overlap is not None:
            return room - self.overlap
        return np.minimum(room, self.step or 128)


@dataclass(frozen=True, slots=True)
class Windows:
    """All windows of a dataset as flat arrays: window w has the tokens ``starts[w]:starts[w + 1]``.

    Windows of one example follow each other, in the order of the examples. Token 0 of a window is always the classifier
    token. Gold ``(0, 0)`` is the null answer.
    """

    starts: Longs  # [W + 1]
    ids: Ints  # [tokens]
    type_ids: Ints  # [tokens]
    context: Bools  # [tokens] where an answer can be
    offsets: Ints  # [tokens, 2] characters of the example's context; (0, 0) outside it
    max_context: Bools  # [tokens] whether this window has the most context around the token
    example: Ints  # [W] index into the examples
    gold: Ints  # [W, 2] first and last token of the answer in the window; (LOST, LOST) if no token covers it
    pad: int  # token id to pad with
    words: Ints | None = None  # [tokens] the index of the token's word, NO_WORD outside the context; None unless requested
    fingerprint: str = ""  # of the examples, the tokenizer and the window settings
    sides: int = 1  # windows of an item, which follow each other: 2 for pairs encoded separately
    labels: Floats | None = None  # [items] the class or score of each; only for sentences

    def __len__(self) -> int:
        return len(self.example)

    @property
    def lengths(self) -> Longs:
        """[W] the number of tokens of each window."""
        return np.diff(self.starts)

    @property
    def items(self) -> int:
        """The number of items. Batches consist of items: windows, or pairs of windows."""
        return len(self) // self.sides

    @property
    def item_lengths(self) -> Longs:
        """[items] the number of tokens of each item after padding to its longest window."""
        longest: Longs = self.lengths.reshape(-1, self.sides).max(1)
        return self.sides * longest

    def windows_of(self, items: Sequence[int] | Longs) -> Longs:
        """Return the indices of the windows of some items, item by item."""
        windows: Longs = (np.asarray(items, np.int64)[:, None] * self.sides + np.arange(self.sides)).ravel()
        return windows


def make_windows(examples: Sequence[Example], tokenizer: Tokenizer, options: WindowOptions) -> Windows:
    """Return the windows of all examples, with gold answers."""
    cutting = cut_examples(examples, tokenizer, options)
    fingerprint = windows_fingerprint(examples, tokenizer.fingerprint, options)
    return replace(cutting.windows(), gold=cutting.gold(examples), fingerprint=fingerprint)


def cut_examples(
    examples: Sequence[Example], tokenizer: Tokenizer, options: WindowOptions, *, remember: bool = False
) -> Cutting:
    """Return the cutting of examples, which makes windows in pieces and without answers."""
    questions = [example.question.lstrip() for example in examples]
    return Cutting(questions, [example.context for example in examples], tokenizer, options, remember=remember)


class Cutting:
    """Tokenised pairs of a question and a text, and the starts of their windows.

    Windows are made on demand, all at once or in pieces, because the windows of many long texts would not fit in memory.
    """

    def __init__(
        self,
        questions: Sequence[str],
        texts: Sequence[str],
        tokenizer: Tokenizer,
        options: WindowOptions,
        *,
        words: bool = False,  # also keep the index of each token's word
        remember: bool = False,  # keep the tokens: the next cutting probably has the same texts
    ) -> None:
        unique, self._text_of = distinct(texts)
        asked, self._question_of = distinct(questions)
        self._contexts = tokenizer.encode(unique, words=words, remember=remember)
        self._queries = tokenizer.encode(asked)
        warn_if_foreign(unique, self._contexts, tokenizer)
        self._layout, self._pad = tokenizer.layout, tokenizer.pad

        query_length = np.diff(self._queries.starts)[self._question_of]  # [E]
        if options.query is not None:
            query_length = np.minimum(query_length, options.query)
        context_length = np.diff(self._contexts.starts)[self._text_of]  # [E]
        room = options.length - self._layout.specials - query_length  # [E]
        stride = options.stride(room)  # [E]
        if len(tight := np.flatnonzero((context_length > room) & ((room < 1) | (stride < 1)) | (room < 0))):
            raise LaminaError(
                f"question {tight[0] + 1}: has {query_length[tight[0]]} tokens, which leaves no room for the text in a window "
                f"of {options.length}. Fix: shorten it, raise window.length or lower window.overlap"
            )
        room, stride = np.maximum(room, 1), np.maximum(stride, 1)
        self._count = 1 + np.maximum(0, -(-(context_length - room) // stride))  # [E] windows of each pair
        self._reach = int((-(-room // stride)).max(initial=1))  # windows that are further apart share no token

        self._example = np.repeat(np.arange(len(questions)), self._count)  # [W]
        nth = np.arange(len(self._example)) - np.repeat(np.cumsum(self._count) - self._count, self._count)  # [W]
        self._first = nth * stride[self._example]  # [W] first context token in the window
        self._seen = np.minimum(
            room[self._example], context_length[self._example] - self._first
        )  # [W] number of context tokens in it
        self._query_length = query_length[self._example]  # [W]

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self._example)

    def pieces(self, tokens: int = PIECE) -> Iterator[Windows]:
        """Yield all windows in order, in pieces of at least one window and otherwise at most `tokens` tokens.

        The first pieces are smaller, so that the first results come early.
        """
        total = np.cumsum(self._query_length + self._seen + self._layout.specials)
        start, size = 0, max(1, tokens // 8)
        while start < len(self):
            before = total[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(total, before + size, side="right")))
            yield self.windows(start, stop)
            start, size = stop, min(tokens, 2 * size)

    def windows(self, start: int = 0, stop: int | None = None) -> Windows:
        """Return the windows `start` to `stop`, all labelled null."""
        stop = len(self) if stop is None else stop
        example, first, layout = self._example[start:stop], self._first[start:stop], self._layout
        segments = self._segments(start, stop)
        starts = np.concatenate([[0], np.cumsum(segments.lengths)])
        window = np.repeat(np.arange(len(example)), segments.lengths)  # [tokens]
        position = np.arange(starts[-1]) - starts[window]  # [tokens]
        segment = segments.of(window, position)
        in_query, in_context = segment == QUERY, segment == CONTEXT
        query_token = (
            self._queries.starts[self._question_of[example[window[in_query]]]] + position[in_query] - len(layout.before)
        )
        context_position = first[window[in_context]] + position[in_context] - segments.context_at[window[in_context]]
        context_token = self._contexts.starts[self._text_of[example[window[in_context]]]] + context_position

        ids = segments.special_ids(window, position, segment)
        ids[in_query] = self._queries.ids[query_token]
        ids[in_context] = self._contexts.ids[context_token]
        offsets = np.zeros((len(ids), 2), np.int32)
        offsets[in_context] = self._contexts.offsets[context_token]
        max_context = np.zeros(len(ids), np.bool_)
        max_context[in_context] = self._max_context(start, stop)
        words = None
        if self._contexts.words is not None:
            words = np.full(len(ids), NO_WORD, np.int32)
            words[in_context] = self._contexts.words[context_token]

        return Windows(
            starts=starts,
            ids=ids,
            type_ids=np.array(layout.types, np.int32)[segment],
            context=in_context,
            offsets=offsets,
            max_context=max_context,
            example=example.astype(np.int32),
            gold=np.zeros((len(example), 2), np.int32),
            pad=self._pad,
            words=words,
        )

    def gold(self, examples: Sequence[Example]) -> Ints:
        """Return [W, 2] the first and last token of the first gold answer in each window."""
        span = np.zeros((len(examples), 2), np.int64)  # [E, 2] in tokens of the context
        answerable = np.zeros(len(examples), np.bool_)
        for index, item in enumerate(examples):
            if item.answers:
                answer = item.answers[0]
                answerable[index] = True
                offsets = self._contexts.offsets[self._contexts.text(int(self._text_of[index]))]
                span[index] = tokens_of(offsets, answer.start, answer.start + len(answer.text))
        lost = answerable & (span[:, 0] > span[:, 1])
        example, first = self._example, self._first
        inside = answerable[example] & (span[example, 0] >= first) & (span[example, 1] < first + self._seen)
        context_at = self._segments(0, len(self)).context_at
        gold = np.where(inside[:, None], span[example] - first[:, None] + context_at[:, None], 0)
        gold[lost[example]] = LOST
        return gold.astype(np.int32)

    def _segments(self, start: int, stop: int) -> WindowSegments:
        return WindowSegments(self._layout, self._query_length[start:stop], self._seen[start:stop])

    def _max_context(self, start: int, stop: int) -> Bools:
        """Return, for each context token of some windows, whether its window has the most context around the token.

        Windows outside the range are compared as well. The earlier of two equal windows wins.
        """
        low, high = max(0, start - self._reach), min(len(self), stop + self._reach)
        window = np.repeat(np.arange(low, high), self._seen[low:high])
        began = np.cumsum(self._seen[low:high]) - self._seen[low:high]
        left = np.arange(len(window)) - began[window - low]
        position = self._first[window] + left
        answer = np.ones(len(window), np.bool_)
        contested = np.flatnonzero(self._count[self._example[window]] > 1)
        if len(contested):
            rival, place, before = window[contested], position[contested], left[contested]
            score = np.minimum(before, self._seen[rival] - 1 - before) + 0.01 * self._seen[rival]
            order = np.lexsort((rival, -score, place, self._example[rival]))
            same_token = (np.diff(self._example[rival][order]) == 0) & (np.diff(place[order]) == 0)
            answer[contested[order[1:][same_token]]] = False
        kept: Bools = answer[(window >= start) & (window < stop)]
        return kept


def distinct(texts: Sequence[str]) -> tuple[list[str], Longs]:
    """Return the different texts, and [texts] the index of each text among them."""
    index: dict[str, int] = {}
    where = np.fromiter((index.setdefault(text, len(index)) for text in texts), np.int64, count=len(texts))
    return list(index), where


def tokens_of(offsets: Ints, start: int, end: int) -> tuple[int, int]:
    """Return the first and last token of the characters ``start:end``.

    They are the first token that ends after the start and the last that starts before the end. If no token covers the
    characters, the first is greater than the last.

    >>> tokens_of(np.array([[0, 3], [4, 7], [7, 8]], np.int32), 4, 8)
    (1, 2)
    """
    first = int(np.searchsorted(offsets[:, 1], start, side="right"))
    last = int(np.searchsorted(offsets[:, 0], end, side="left")) - 1
    return first, last


def windows_fingerprint(examples: Sequence[Example], tokenizer: str, options: WindowOptions) -> str:
    """Return the fingerprint of the windows of examples without cutting them; `tokenizer` is the sha256 of its file."""
    digest = hashlib.sha256(f"{tokenizer} {options.model_dump_json()}".encode())
    context = None
    for example in examples:
        answer = f"{example.answers[0].start}+{len(example.answers[0].text)}" if example.answers else "null"
        digest.update(f"\0{example.id}\0{example.question}\0{answer}".encode())
        if example.context != context:  # most neighbours have the same context
            context = example.context
            digest.update(f"\0{context}".encode())
    return digest.hexdigest()
