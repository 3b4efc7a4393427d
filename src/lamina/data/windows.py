"""Examples -> windows: token sequences of bounded length that together cover each context.

A context that many questions share is tokenised once, and windows are cut from flat arrays by index arithmetic, so no
Python runs per token. The rules are those of the SQuAD baselines: the query is cut to 64 tokens, a window that does not
hold the whole answer is labelled null, and of the windows that see a token the one with the most context around it
(``min(left, right) + 0.01 * length``) may start an answer there.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from lamina.data.examples import Example
from lamina.data.tokenizer import Layout, Tokenizer, Tokens, script
from lamina.errors import LaminaWarning

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LOST = -1  # gold of an answer that no token covers: such windows are not trained on
FOREIGN_SHARE = 1 / 3  # of unknown or single-letter tokens, above which a text is taken to be outside the vocabulary
MAX_SPECIALS = 4  # <s> A </s></s> B </s>


class WindowOptions(BaseModel):
    """How contexts are cut. `step` is the distance between window starts (the papers' stride), `overlap` what two
    neighbours share (the run_qa example's and the old pipeline's ``doc_stride``); give one of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    length: int = Field(default=384, ge=16)
    step: int | None = Field(default=None, ge=1)
    overlap: int | None = Field(default=None, ge=0)
    query: int = Field(default=64, ge=1)

    @model_validator(mode="after")
    def _fits(self) -> WindowOptions:
        room = self.length - self.query - MAX_SPECIALS
        if self.step is not None and self.overlap is not None:
            raise ValueError("window.step and window.overlap are two ways to say the same: give one of them")
        if room < 1 or (self.step or 1) > room or (self.overlap or 0) >= room:
            raise ValueError(
                f"window.length = {self.length} leaves {room} tokens of context beside a query of {self.query}, too few for "
                f"step = {self.step}, overlap = {self.overlap}: raise window.length or lower the others"
            )
        return self

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
    fingerprint: str  # of the examples, the tokenizer and the window settings

    def __len__(self) -> int:
        return len(self.example)

    @property
    def lengths(self) -> Longs:
        return np.diff(self.starts)


def make_windows(examples: Sequence[Example], tokenizer: Tokenizer, options: WindowOptions) -> Windows:
    """Cuts all examples into windows."""
    texts, text_of = _unique([example.context for example in examples])
    contexts = tokenizer.encode(texts)
    queries = tokenizer.encode([example.question.lstrip() for example in examples])
    _warn_if_foreign(texts, contexts, tokenizer)

    layout = tokenizer.layout
    query_length = np.minimum(np.diff(queries.starts), options.query)  # [E]
    context_length = np.diff(contexts.starts)[text_of]  # [E]
    room = options.length - layout.specials - query_length  # [E]
    stride = options.stride(room)  # [E]
    count = 1 + np.maximum(0, -(-(context_length - room) // stride))  # [E] windows of each example

    example = np.repeat(np.arange(len(examples)), count)  # [W]
    nth = np.arange(len(example)) - np.repeat(np.cumsum(count) - count, count)  # [W]
    first = nth * stride[example]  # [W] first context token that the window sees
    seen = np.minimum(room[example], context_length[example] - first)  # [W] context tokens in the window

    shape = _Shape(layout, query_length[example], seen)
    starts = np.concatenate([[0], np.cumsum(shape.lengths)])
    window = np.repeat(np.arange(len(example)), shape.lengths)  # [tokens]
    position = np.arange(starts[-1]) - starts[window]  # [tokens]
    part = shape.part(window, position)
    in_query, in_context = part == 1, part == 3
    query_token = queries.starts[example[window[in_query]]] + position[in_query] - len(layout.before)
    context_position = first[window[in_context]] + position[in_context] - shape.context_at[window[in_context]]
    context_token = contexts.starts[text_of[example[window[in_context]]]] + context_position

    ids = shape.special_ids(window, position, part)
    ids[in_query] = queries.ids[query_token]
    ids[in_context] = contexts.ids[context_token]
    offsets = np.zeros((len(ids), 2), np.int32)
    offsets[in_context] = contexts.offsets[context_token]
    max_context = np.zeros(len(ids), np.bool_)
    max_context[in_context] = _max_context(window[in_context], context_position, example, first, seen, count)

    return Windows(
        starts=starts,
        ids=ids,
        type_ids=np.array(layout.types, np.int32)[part],
        context=in_context,
        offsets=offsets,
        max_context=max_context,
        example=example.astype(np.int32),
        gold=_gold(examples, contexts, text_of, example, first, seen, shape.context_at),
        pad=tokenizer.pad,
        fingerprint=_fingerprint(examples, tokenizer, options),
    )


class _Shape:
    """The parts of every window: 0 before, 1 query, 2 between, 3 context, 4 after."""

    def __init__(self, layout: Layout, query: Longs, seen: Longs) -> None:
        self._layout = layout
        self._between_at = len(layout.before) + query  # [W]
        self.context_at = self._between_at + len(layout.between)  # [W]
        self._after_at = self.context_at + seen  # [W]
        self.lengths: Longs = self._after_at + len(layout.after)  # [W]

    def part(self, window: Longs, position: Longs) -> npt.NDArray[np.int8]:
        part = (position >= len(self._layout.before)).astype(np.int8)
        for edge in (self._between_at, self.context_at, self._after_at):
            part += position >= edge[window]
        return part

    def special_ids(self, window: Longs, position: Longs, part: npt.NDArray[np.int8]) -> Ints:
        """[tokens] ids of the special tokens, 0 elsewhere."""
        ids = np.zeros(len(position), np.int32)
        zero = np.zeros_like(self._between_at)
        for number, tokens, edge in (
            (0, self._layout.before, zero),
            (2, self._layout.between, self._between_at),
            (4, self._layout.after, self._after_at),
        ):
            here = part == number
            ids[here] = np.array(tokens, np.int32)[position[here] - edge[window[here]]]
        return ids


def _unique(texts: Sequence[str]) -> tuple[list[str], Longs]:
    index: dict[str, int] = {}
    where = np.fromiter((index.setdefault(text, len(index)) for text in texts), np.int64, count=len(texts))
    return list(index), where


def _max_context(window: Longs, position: Longs, example: Longs, first: Longs, seen: Longs, count: Longs) -> Bools:
    """For context tokens only: does this window see the token with the most text around it (the earlier one on a tie)?"""
    answer = np.ones(len(window), np.bool_)
    contested = np.flatnonzero(count[example[window]] > 1)
    if not len(contested):
        return answer
    window, position = window[contested], position[contested]
    left = position - first[window]
    right = first[window] + seen[window] - 1 - position
    score = np.minimum(left, right) + 0.01 * seen[window]
    order = np.lexsort((window, -score, position, example[window]))
    same_token = (np.diff(example[window][order]) == 0) & (np.diff(position[order]) == 0)
    answer[contested[order[1:][same_token]]] = False
    return answer


def _gold(
    examples: Sequence[Example],
    contexts: Tokens,
    text_of: Longs,
    example: Longs,
    first: Longs,
    seen: Longs,
    context_at: Longs,
) -> Ints:
    """[W, 2] the first reference answer in each window's tokens."""
    span = np.zeros((len(examples), 2), np.int64)  # [E, 2] in tokens of the context
    answerable = np.zeros(len(examples), np.bool_)
    for index, item in enumerate(examples):
        if item.answers:
            answer = item.answers[0]
            answerable[index] = True
            offsets = contexts.offsets[contexts.text(int(text_of[index]))]
            span[index] = tokens_of(offsets, answer.start, answer.start + len(answer.text))
    lost = answerable & (span[:, 0] > span[:, 1])
    inside = answerable[example] & (span[example, 0] >= first) & (span[example, 1] < first + seen)
    gold = np.where(inside[:, None], span[example] - first[:, None] + context_at[:, None], 0)
    gold[lost[example]] = LOST
    return gold.astype(np.int32)


def tokens_of(offsets: Ints, start: int, end: int) -> tuple[int, int]:
    """First and last token of the characters ``start:end``: the first token that ends after the start and the last that
    begins before the end. The first is greater than the last when no token lies there.

    >>> tokens_of(np.array([[0, 3], [4, 7], [7, 8]], np.int32), 4, 8)
    (1, 2)
    """
    first = int(np.searchsorted(offsets[:, 1], start, side="right"))
    last = int(np.searchsorted(offsets[:, 0], end, side="left")) - 1
    return first, last


def _warn_if_foreign(texts: Sequence[str], tokens: Tokens, tokenizer: Tokenizer) -> None:
    """Warns when the vocabulary does not know the script of some text: it falls apart into unknown or single letters.

    Single letters of a script that the vocabulary was made for are no sign: many words of Chinese or Korean are one.
    """
    width = tokens.offsets[:, 1] - tokens.offsets[:, 0]
    odd = (width <= 1) & (tokens.ids != tokenizer.unknown)
    single = np.zeros(len(tokens.ids), np.bool_)
    text = np.repeat(np.arange(len(texts)), np.diff(tokens.starts))
    suspects = np.flatnonzero(np.bincount(text[odd], minlength=len(texts)) > FOREIGN_SHARE * np.diff(tokens.starts))
    for index in suspects.tolist():  # few texts get here; only there is it worth looking at the letters
        where = np.arange(*tokens.starts[[index, index + 1]])[odd[tokens.text(index)]]
        scripts = [script(texts[index][a : a + 1]) for a in tokens.offsets[where, 0]]
        single[where] = [name != "" and name not in tokenizer.scripts for name in scripts]
    bad = np.bincount(text[single | (tokens.ids == tokenizer.unknown)], minlength=len(texts))
    foreign = np.flatnonzero(bad > FOREIGN_SHARE * np.diff(tokens.starts))
    if len(foreign):
        warnings.warn(
            f"{len(foreign)} of {len(texts)} texts are mostly outside the encoder's vocabulary (more than a third unknown or "
            f"single letters), the first begins {texts[foreign[0]][:40]!r}: answers there will be poor; choose an encoder "
            "of that language with encoder.model",
            LaminaWarning,
            stacklevel=3,
        )


def _fingerprint(examples: Sequence[Example], tokenizer: Tokenizer, options: WindowOptions) -> str:
    digest = hashlib.sha256(f"{tokenizer.fingerprint} {options.model_dump_json()}".encode())
    context = None
    for example in examples:
        answer = f"{example.answers[0].start}+{len(example.answers[0].text)}" if example.answers else "null"
        digest.update(f"\0{example.id}\0{example.question}\0{answer}".encode())
        if example.context != context:  # neighbours mostly share one text
            context = example.context
            digest.update(f"\0{context}".encode())
    return digest.hexdigest()
