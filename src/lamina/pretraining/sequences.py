"""TokenSequences: the windows of pretraining as flat arrays, without padding, and batches of them.

``join`` fills rows with whole texts, a separator between them; a text that is longer goes on in the next row. There is
hardly any padding, but texts of one row see each other. ``none`` gives every text a row of its own, a longer one several.
With next-sentence prediction a text of several sentences becomes pairs instead: two stretches that follow each other, or
one and a stretch of another text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from lamina.data.tokenizer import NO_WORD, Ints, Layout, Longs, Tokenizer, Tokens
from lamina.errors import LaminaError
from lamina.pretraining.texts import Pair, split_sentences

NEXT, RANDOM, ALONE = 0, 1, -1  # what a row's second part is: as transformers numbers them; a row of one part has none

Packed = Literal["join", "none"]


@dataclass(frozen=True, slots=True)
class TokenSequences:
    """Row r owns tokens ``starts[r]:starts[r + 1]``."""

    starts: Longs  # [rows + 1]
    ids: Ints  # [tokens]
    type_ids: Ints  # [tokens]
    words: Ints  # [tokens] equal numbers side by side are one word; NO_WORD for none
    following: npt.NDArray[np.int64]  # [rows] NEXT, RANDOM or ALONE
    pad: int

    def __len__(self) -> int:
        return len(self.following)

    @property
    def lengths(self) -> Longs:
        return np.diff(self.starts)

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for part in (self.starts, self.ids, self.type_ids, self.following):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some tokens of a row, without special ones."""

    ids: Ints
    words: Ints


Parts = tuple[Stretch, Stretch | None, int]  # of a row: its first and second part, and what the second is


def make_sequences(
    texts: Sequence[str],
    pairs: Sequence[Pair],
    tokenizer: Tokenizer,
    *,
    length: int,
    packed: Packed,
    nsp: bool = False,
    seed: int = 0,
) -> TokenSequences:
    """The rows of texts and labelled pairs, each at most `length` tokens long."""
    parts: list[Parts] = []
    if nsp:
        split = [(text, split_sentences(text)) for text in texts]
        parts += _neighbours([inner for _, inner in split if len(inner) > 1], tokenizer, length, seed)
        texts = [text for text, inner in split if len(inner) == 1]
    if pairs:
        parts += _labelled(pairs, tokenizer, length)
    if texts:
        tokens = tokenizer.encode(texts, words=True)
        parts += (_joined if packed == "join" else _alone)(tokens, tokenizer.layout, length)
    if not parts:
        raise LaminaError("the texts have no tokens: there is nothing to train on")
    return _assemble(parts, tokenizer.layout, tokenizer.pad)


def _joined(tokens: Tokens, layout: Layout, length: int) -> Iterator[Parts]:
    """All texts in one stream, cut anew wherever a row is full."""
    ends = np.unique(tokens.starts)[1:-1]  # of texts that have tokens
    separator = layout.after[-1]
    ids = np.insert(tokens.ids, ends, separator)
    words = np.insert(_words(tokens), ends, NO_WORD)
    yield from ((piece, None, ALONE) for piece in _pieces(Stretch(ids, words), _room(layout, length)))


def _alone(tokens: Tokens, layout: Layout, length: int) -> Iterator[Parts]:
    for stretch in _stretches(tokens):
        yield from ((piece, None, ALONE) for piece in _pieces(stretch, _room(layout, length)))


def _neighbours(texts: Sequence[Sequence[str]], tokenizer: Tokenizer, length: int, seed: int) -> Iterator[Parts]:
    """Pairs of stretches of each text's sentences; every other one, by chance, with a stretch of another text instead, where
    there is another."""
    if not texts:
        return
    random = np.random.default_rng([seed, 4])
    room = (length - tokenizer.layout.specials) // 2
    tokens = list(_stretches(tokenizer.encode([sentence for text in texts for sentence in text], words=True)))
    ends = np.cumsum([len(text) for text in texts])
    stretches = [_stretched(tokens[end - len(text) : end], room) for text, end in zip(texts, ends, strict=True)]
    stretches = [own for own in stretches if own]  # a text may have no tokens
    for number, own in enumerate(stretches):
        place = 0
        while place + 1 < len(own):
            if random.random() < 0.5 or len(stretches) == 1:
                yield own[place], own[place + 1], NEXT
                place += 2
            else:
                other = stretches[(number + 1 + random.integers(len(stretches) - 1)) % len(stretches)]
                yield own[place], other[random.integers(len(other))], RANDOM
                place += 1
        if place < len(own):
            yield own[place], None, ALONE


def _stretched(sentences: Sequence[Stretch], room: int) -> list[Stretch]:
    """A text's sentences gathered into stretches of at most `room` tokens: two at least, for a text of two sentences."""
    aim = min(room, -(-sum(len(sentence.ids) for sentence in sentences) // 2))
    gathered: list[list[Stretch]] = []
    size = aim
    for sentence in sentences:
        for piece in _pieces(sentence, room):
            if size + len(piece.ids) > aim:
                gathered.append([])
                size = 0
            gathered[-1].append(piece)
            size += len(piece.ids)
    return [_together(some) for some in gathered]


def _labelled(pairs: Sequence[Pair], tokenizer: Tokenizer, length: int) -> Iterator[Parts]:
    """The pairs of a table; the longer part of one that is too long loses its end."""
    room = length - tokenizer.layout.specials
    tokens = list(_stretches(tokenizer.encode([text for pair in pairs for text in pair[:2]], words=True)))
    for number, (_, _, follows) in enumerate(pairs):
        first, second = tokens[2 * number], tokens[2 * number + 1]
        a, b = len(first.ids), len(second.ids)
        if a + b > room:
            a = min(a, max(room // 2, room - b))
            b = min(b, room - a)
        yield _cut(first, 0, a), _cut(second, 0, b), NEXT if follows else RANDOM


def _assemble(parts: Sequence[Parts], layout: Layout, pad: int) -> TokenSequences:
    """The parts between the special tokens of the layout."""
    ids, types, words, lengths = [], [], [], []
    before, between, after = (np.array(part, np.int32) for part in (layout.before, layout.between, layout.after))
    for first, second, _ in parts:
        pieces = [before, first.ids, after] if second is None else [before, first.ids, between, second.ids, after]
        kinds = layout.types[:3] if second is None else layout.types
        ids += pieces
        types += [np.full(len(piece), kind, np.int32) for piece, kind in zip(pieces, kinds, strict=True)]
        words += [_no_words(before), first.words]
        words += [_no_words(after)] if second is None else [_no_words(between), second.words, _no_words(after)]
        lengths.append(sum(map(len, pieces)))
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    following = np.array([kind for _, _, kind in parts], np.int64)
    return TokenSequences(starts, np.concatenate(ids), np.concatenate(types), np.concatenate(words), following, pad)


def _room(layout: Layout, length: int) -> int:
    """Tokens of a row that has one part."""
    return length - len(layout.before) - len(layout.after)


def _words(tokens: Tokens) -> Ints:
    assert tokens.words is not None
    return tokens.words


def _stretches(tokens: Tokens) -> Iterator[Stretch]:
    """The tokens of every text, those without any left as they are."""
    words = _words(tokens)
    for number in range(len(tokens.starts) - 1):
        part = tokens.text(number)
        yield Stretch(tokens.ids[part], words[part])


def _pieces(stretch: Stretch, room: int) -> Iterator[Stretch]:
    for first in range(0, len(stretch.ids), room):
        yield _cut(stretch, first, first + room)


def _cut(stretch: Stretch, first: int, last: int) -> Stretch:
    return Stretch(stretch.ids[first:last], stretch.words[first:last])


def _together(some: Sequence[Stretch]) -> Stretch:
    return Stretch(np.concatenate([part.ids for part in some]), np.concatenate([part.words for part in some]))


def _no_words(ids: Ints) -> Ints:
    return np.full(len(ids), NO_WORD, np.int32)
