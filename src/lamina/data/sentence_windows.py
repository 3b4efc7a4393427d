"""Sentences -> windows: one for each text, or one for both texts of a pair.

Each text is tokenised once. Windows are made by index arithmetic over flat arrays, as in `lamina.data.windows`.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence

import numpy as np

from lamina.data.examples import Sentence
from lamina.data.foreign_texts import warn_if_foreign
from lamina.data.labels import Labels
from lamina.data.tokenizer import Layout, Tokenizer
from lamina.data.window_segments import CONTEXT, QUERY, WindowSegments
from lamina.data.windows import Windows, distinct
from lamina.errors import LaminaError, LaminaWarning
from lamina.utils.arrays import Floats, Longs


def make_sentence_windows(
    sentences: Sequence[Sentence], tokenizer: Tokenizer, labels: Labels, *, length: int, sides: int
) -> Windows:
    """Return windows of at most `length` tokens: one a sentence or pair, or with two `sides` one for each text of a pair.

    `context` is True on the tokens of texts, and `offsets` count characters of their own text. Long texts are cut at their
    end. If two texts share a window, the longer is cut first, until both have the same length.
    """
    if sides not in (1, 2):
        raise ValueError(f"sides = {sides}: choose 1 (a window for both texts) or 2 (a window for each)")
    paired = sides == 2 or any(sentence.second is not None for sentence in sentences)
    if paired and (alone := next((s for s in sentences if s.second is None), None)):
        raise LaminaError(f"sentence {alone.id}: has no second text, but the head reads pairs. Fix: name data.columns.second")
    first = [sentence.first for sentence in sentences]
    second = [sentence.second or "" for sentence in sentences] if paired else []
    joined = paired and sides == 1  # both texts in one window

    texts, text_of = distinct([*first, *second])
    tokens = tokenizer.encode(texts)
    warn_if_foreign(texts, tokens, tokenizer)
    text_of = text_of.reshape(2 if paired else 1, -1).T  # [items, texts of an item]
    if not joined:
        text_of = text_of.reshape(-1, 1)  # [W, 1]
    layout = tokenizer.layout if joined else tokenizer.single
    kept = _cut(np.diff(tokens.starts)[text_of], length, layout)  # [W, texts of a window]

    zero = np.zeros(len(kept), np.int64)
    segments = WindowSegments(layout, kept[:, 0], kept[:, 1] if joined else zero)
    starts = np.concatenate([[0], np.cumsum(segments.lengths)])
    window = np.repeat(np.arange(len(kept)), segments.lengths)  # [tokens]
    position = np.arange(starts[-1]) - starts[window]  # [tokens]
    segment = segments.of(window, position)
    ids = segments.special_ids(window, position, segment)
    offsets = np.zeros((len(ids), 2), np.int32)
    begin = (np.full(len(kept), len(layout.before)), segments.context_at)
    for column, number in enumerate((QUERY, CONTEXT) if joined else (QUERY,)):
        here = np.flatnonzero(segment == number)
        owner = window[here]
        token = tokens.starts[text_of[owner, column]] + position[here] - begin[column][owner]
        ids[here], offsets[here] = tokens.ids[token], tokens.offsets[token]
    context = (segment == QUERY) | (segment == CONTEXT)

    return Windows(
        starts=starts,
        ids=ids,
        type_ids=np.array(layout.types, np.int32)[segment],
        context=context,
        offsets=offsets,
        max_context=context.copy(),
        example=(np.arange(len(kept)) // sides).astype(np.int32),
        gold=np.zeros((len(kept), 2), np.int32),
        pad=tokenizer.pad,
        fingerprint=sentences_fingerprint(sentences, tokenizer.fingerprint, labels, length=length, sides=sides),
        sides=sides,
        labels=_numbers(sentences, labels),
    )


def _cut(lengths: Longs, length: int, layout: Layout) -> Longs:
    """Return [W, texts] how many tokens of each text a window of `length` keeps.

    The shorter of two texts keeps up to half of the room, the longer has the rest.
    """
    room = length - layout.specials
    if room < lengths.shape[1]:
        raise LaminaError(f"window.length: {length} is too short, {layout.specials} of them are special tokens. Fix: raise it")
    long = np.flatnonzero(lengths.sum(1) > room)
    if not len(long):
        return lengths
    what = "texts" if lengths.shape[1] == 1 else "pairs"
    warnings.warn(
        f"{len(long)} of {len(lengths)} {what} are longer than window.length = {length} and are cut",
        LaminaWarning,
        stacklevel=3,
    )
    kept = lengths.copy()
    if lengths.shape[1] == 1:
        kept[long] = room
        return kept
    shorter = np.minimum(lengths[long].min(1), room // 2)
    first_is_longer = lengths[long, 0] > lengths[long, 1]
    kept[long, 0] = np.where(first_is_longer, room - shorter, shorter)
    kept[long, 1] = room - kept[long, 0]
    return kept


def _numbers(sentences: Sequence[Sentence], labels: Labels) -> Floats:
    """Return [items] the number of each label, NaN without a label."""
    numbers = np.full(len(sentences), np.nan, np.float32)
    for index, sentence in enumerate(sentences):
        if sentence.label is not None:
            try:
                numbers[index] = labels.number(sentence.label)
            except LaminaError as error:
                raise LaminaError(f"sentence {sentence.id}: {error}") from None
    return numbers


def sentences_fingerprint(sentences: Sequence[Sentence], tokenizer: str, labels: Labels, *, length: int, sides: int) -> str:
    """Return the fingerprint of the windows of sentences without making them; `tokenizer` is the sha256 of its file."""
    digest = hashlib.sha256(f"sentences {tokenizer} {length} {sides} {labels}".encode())
    for sentence in sentences:
        digest.update(repr((sentence.id, sentence.first, sentence.second, sentence.label)).encode())
    return digest.hexdigest()
