"""Examples -> windows: token sequences of bounded length that together cover each context.

A context that many questions share is tokenised once, and windows are cut from flat arrays by index arithmetic, so no
Python runs per token. The rules are those of the SQuAD baselines: the query is cut to 64 tokens, a window that does not
hold the whole answer is labelled null, and of the windows that see a token the one with the most context around it
(``min(left, right) + 0.01 * length``) may start an answer there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from lamina.data.examples import Example
from lamina.data.foreign_texts import warn_if_foreign
from lamina.data.tokenizer import NO_WORD, Tokenizer
from lamina.data.window_segments import CONTEXT, QUERY, WindowSegments
from lamina.errors import LaminaError
from lamina.utils.arrays import Bools, Floats, Ints, Longs

LOST = -1  # gold of an answer that no token covers: such windows are not trained on
MAX_SPECIALS = 4  # <s> A </s></s> B </s>
PIECE = 1 << 16  # tokens of windows that are made at once where memory must stay bounded


class WindowOptions(BaseModel):
    """How contexts are cut. `step` is the distance between window starts (the papers' stride), `overlap` what two
    neighbours share (the run_qa example's and the old pipeline's ``doc_stride``); give one of them."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

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
            raise ValueError("window.step and window.overlap are two ways to say the same: give one of them")
        return self

    def check(self) -> None:
        """There must be room for a text beside a question."""
        room = self.length - (self.query or 0) - MAX_SPECIALS
        if self.query is not None and (room < 1 or (self.step or 1) > room or (self.overlap or 0) >= room):
            raise LaminaError(
                f"window.length = {self.length} leaves {room} tokens of context beside a query of {self.query}, too few "
                f"for step = {self.step}, overlap = {self.overlap}: raise window.length or lower the others"
            )

    def stride(self, room: Longs) -> Longs:
        """Distance between window starts, for each example's room for context."""
        if self.overlap is not None:
            return room - self.overlap
        return np.minimum(room, self.step or 128)


@dataclass(frozen=True, slots=True)
class Windows:
    """All windows of a data set as flat arrays: window w owns the tokens ``starts[w]:starts[w + 1]``.

    Windows of one example follow each other, and examples come in the order in which they were given. Token 0 of
    a window is always the classifier token; gold ``(0, 0)`` is the null answer.
    """

    starts: Longs  # [W + 1]
    ids: Ints  # [tokens]
    type_ids: Ints  # [tokens]
    context: Bools  # [tokens] where an answer may lie
    offsets: Ints  # [tokens, 2] characters of the example's context; (0, 0) outside it
    max_context: Bools  # [tokens] this window sees the token with the most text around it
    example: Ints  # [W] index into the examples
    gold: Ints  # [W, 2] first and last token of the answer, counted from the window's start; (LOST, LOST) if no token covers it
    pad: int  # token id to pad with
    words: Ints | None = None  # [tokens] which word of the context a token is of, NO_WORD outside it; made where asked for
    fingerprint: str = ""  # of the examples, the tokenizer and the window settings
    sides: int = 1  # how many windows, one after the other, make up an item: 2 for pairs whose texts are read apart
    labels: Floats | None = None  # [items] the class or the score of each; of sentences only

    def __len__(self) -> int:
        return len(self.example)

    @property
    def lengths(self) -> Longs:
        return np.diff(self.starts)

    @property
    def items(self) -> int:
        """What a batch is made of: windows, or pairs of them."""
        return len(self) // self.sides

    @property
    def item_lengths(self) -> Longs:
        """[items] the tokens of each when its windows are padded to the longest of them."""
        longest: Longs = self.lengths.reshape(-1, self.sides).max(1)
        return self.sides * longest

    def windows_of(self, items: Sequence[int] | Longs) -> Longs:
        """The windows that some items are made of, item by item."""
        windows: Longs = (np.asarray(items, np.int64)[:, None] * self.sides + np.arange(self.sides)).ravel()
        return windows


def make_windows(examples: Sequence[Example], tokenizer: Tokenizer, options: WindowOptions) -> Windows:
    """Cuts all examples into windows, with their answers."""
    cutting = cut_examples(examples, tokenizer, options)
    fingerprint = windows_fingerprint(examples, tokenizer.fingerprint, options)
    return replace(cutting.windows(), gold=cutting.gold(examples), fingerprint=fingerprint)


def cut_examples(
    examples: Sequence[Example], tokenizer: Tokenizer, options: WindowOptions, *, remember: bool = False
) -> Cutting:
    """The windows of examples whose answers do not matter, to be made piece by piece."""
    questions = [example.question.lstrip() for example in examples]
    return Cutting(questions, [example.context for example in examples], tokenizer, options, remember=remember)


class Cutting:
    """Pairs of a question and a text, tokenised, and where their windows begin.

    The windows themselves are made on demand, all at once or in pieces: those of a whole library would not fit in memory.
    """

    def __init__(
        self,
        questions: Sequence[str],
        texts: Sequence[str],
        tokenizer: Tokenizer,
        options: WindowOptions,
        *,
        words: bool = False,  # note which tokens are of one word
        remember: bool = False,  # the next cutting is likely to be of the same texts
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
                f"question {tight[0] + 1} has {query_length[tight[0]]} tokens, which leaves no room for the text in a window "
                f"of {options.length}: shorten it, lengthen the window or shorten the overlap"
            )
        room, stride = np.maximum(room, 1), np.maximum(stride, 1)
        self._count = 1 + np.maximum(0, -(-(context_length - room) // stride))  # [E] windows of each pair
        self._reach = int((-(-room // stride)).max(initial=1))  # windows further apart than this share no token

        self._example = np.repeat(np.arange(len(questions)), self._count)  # [W]
        nth = np.arange(len(self._example)) - np.repeat(np.cumsum(self._count) - self._count, self._count)  # [W]
        self._first = nth * stride[self._example]  # [W] first context token that the window sees
        self._seen = np.minimum(room[self._example], context_length[self._example] - self._first)  # [W] context tokens in it
        self._query_length = query_length[self._example]  # [W]

    def __len__(self) -> int:
        """How many windows there are."""
        return len(self._example)

    def pieces(self, tokens: int = PIECE) -> Iterator[Windows]:
        """All windows in order, in pieces of at least one window and at most `tokens` tokens; the first are smaller, so that
        what comes of them is there soon."""
        total = np.cumsum(self._query_length + self._seen + self._layout.specials)
        start, size = 0, max(1, tokens // 8)
        while start < len(self):
            before = total[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(total, before + size, side="right")))
            yield self.windows(start, stop)
            start, size = stop, min(tokens, 2 * size)

    def windows(self, start: int = 0, stop: int | None = None) -> Windows:
        """Windows `start` to `stop`, all labelled null."""
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
        """[W, 2] the first reference answer in each window's tokens."""
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
        """For the context tokens of some windows, in order: does this window see the token with the most text around it
        (the earlier one on a tie)? Neighbours outside the range compete as well."""
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
    index: dict[str, int] = {}
    where = np.fromiter((index.setdefault(text, len(index)) for text in texts), np.int64, count=len(texts))
    return list(index), where


def tokens_of(offsets: Ints, start: int, end: int) -> tuple[int, int]:
    """First and last token of the characters ``start:end``: the first token that ends after the start and the last that
    begins before the end. The first is greater than the last when no token lies there.

    >>> tokens_of(np.array([[0, 3], [4, 7], [7, 8]], np.int32), 4, 8)
    (1, 2)
    """
    first = int(np.searchsorted(offsets[:, 1], start, side="right"))
    last = int(np.searchsorted(offsets[:, 0], end, side="left")) - 1
    return first, last


def windows_fingerprint(examples: Sequence[Example], tokenizer: str, options: WindowOptions) -> str:
    """Of the windows that `make_windows` would cut; `tokenizer` is the sha256 of its file. No window is made."""
    digest = hashlib.sha256(f"{tokenizer} {options.model_dump_json()}".encode())
    context = None
    for example in examples:
        answer = f"{example.answers[0].start}+{len(example.answers[0].text)}" if example.answers else "null"
        digest.update(f"\0{example.id}\0{example.question}\0{answer}".encode())
        if example.context != context:  # neighbours mostly share one text
            context = example.context
            digest.update(f"\0{context}".encode())
    return digest.hexdigest()
