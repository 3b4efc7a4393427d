"""Make the token sequences of pretraining as flat arrays, without padding.

``join`` fills sequences with texts and a separator between them; a text that does not fit continues in the next sequence.
There is little padding, but the tokens of one text attend to those of another. ``none`` gives every text its own sequence,
and a long text several. With next-sentence prediction, a text of several sentences becomes pairs of segments instead. The
second segment follows the first in its text, or is from another text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from lamina.data.tokenizer import NO_WORD, Layout, Tokenizer, Tokens
from lamina.errors import LaminaError
from lamina.pretraining.texts import TextPair, split_sentences
from lamina.utils.arrays import Ints, Longs

NEXT, RANDOM, ALONE = 0, 1, -1  # the label of the second segment, as in transformers; ALONE: there is none

Packed = Literal["join", "none"]


@dataclass(frozen=True, slots=True)
class TokenSequences:
    """Token sequences in flat arrays. Sequence s has the tokens ``starts[s]:starts[s + 1]``."""

    starts: Longs  # [sequences + 1]
    ids: Ints  # [tokens]
    type_ids: Ints  # [tokens]
    words: Ints  # [tokens] adjacent equal numbers are one word; NO_WORD for none
    following: npt.NDArray[np.int64]  # [sequences] NEXT, RANDOM or ALONE
    pad: int

    def __len__(self) -> int:
        return len(self.following)

    @property
    def lengths(self) -> Longs:
        return np.diff(self.starts)

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for array in (self.starts, self.ids, self.type_ids, self.following):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive tokens of a text, without special tokens."""

    ids: Ints
    words: Ints


SegmentPair = tuple[Segment, Segment | None, int]  # the first and second segment of a sequence, and the second's label


def make_sequences(
    texts: Sequence[str],
    pairs: Sequence[TextPair],
    tokenizer: Tokenizer,
    *,
    length: int,
    packed: Packed,
    nsp: bool = False,
    seed: int = 0,
) -> TokenSequences:
    """Return the sequences of texts and labelled pairs, each at most `length` tokens long."""
    segment_pairs: list[SegmentPair] = []
    if nsp:
        split = [(text, split_sentences(text)) for text in texts]
        segment_pairs += _neighbours([inner for _, inner in split if len(inner) > 1], tokenizer, length, seed)
        texts = [text for text, inner in split if len(inner) == 1]
    if pairs:
        segment_pairs += _labelled(pairs, tokenizer, length)
    if texts:
        tokens = tokenizer.encode(texts, words=True)
        segment_pairs += (_joined if packed == "join" else _alone)(tokens, tokenizer.layout, length)
    if not segment_pairs:
        raise LaminaError("texts: have no tokens, so there is nothing to train on. Fix: name texts that are not empty")
    return _assemble(segment_pairs, tokenizer.layout, tokenizer.pad)


def _joined(tokens: Tokens, layout: Layout, length: int) -> Iterator[SegmentPair]:
    """Join all texts, then cut them into full sequences."""
    ends = np.unique(tokens.starts)[1:-1]  # of texts that have tokens
    separator = layout.after[-1]
    ids = np.insert(tokens.ids, ends, separator)
    words = np.insert(_words(tokens), ends, NO_WORD)
    yield from ((piece, None, ALONE) for piece in _pieces(Segment(ids, words), _room(layout, length)))


def _alone(tokens: Tokens, layout: Layout, length: int) -> Iterator[SegmentPair]:
    for segment in _segments_of(tokens):
        yield from ((piece, None, ALONE) for piece in _pieces(segment, _room(layout, length)))


def _neighbours(texts: Sequence[Sequence[str]], tokenizer: Tokenizer, length: int, seed: int) -> Iterator[SegmentPair]:
    """Pair the segments of each text. About half of the pairs have a second segment of another text, if there is one."""
    if not texts:
        return
    random = np.random.default_rng([seed, 4])
    room = (length - tokenizer.layout.specials) // 2
    tokens = list(_segments_of(tokenizer.encode([sentence for text in texts for sentence in text], words=True)))
    ends = np.cumsum([len(text) for text in texts])
    segments = [_grouped(tokens[end - len(text) : end], room) for text, end in zip(texts, ends, strict=True)]
    segments = [own for own in segments if own]  # a text may have no tokens
    for number, own in enumerate(segments):
        place = 0
        while place + 1 < len(own):
            if random.random() < 0.5 or len(segments) == 1:
                yield own[place], own[place + 1], NEXT
                place += 2
            else:
                other = segments[(number + 1 + random.integers(len(segments) - 1)) % len(segments)]
                yield own[place], other[random.integers(len(other))], RANDOM
                place += 1
        if place < len(own):
            yield own[place], None, ALONE


def _grouped(sentences: Sequence[Segment], room: int) -> list[Segment]:
    """Group a text's sentences into segments of at most `room` tokens. A text of two or more sentences has two or more."""
    aim = min(room, -(-sum(len(sentence.ids) for sentence in sentences) // 2))
    gathered: list[list[Segment]] = []
    size = aim
    for sentence in sentences:
        for piece in _pieces(sentence, room):
            if size + len(piece.ids) > aim:
                gathered.append([])
                size = 0
            gathered[-1].append(piece)
            size += len(piece.ids)
    return [_concatenated(some) for some in gathered]


def _labelled(pairs: Sequence[TextPair], tokenizer: Tokenizer, length: int) -> Iterator[SegmentPair]:
    """Make segments of a table's pairs. If a pair is too long, the end of its longer text is cut off."""
    room = length - tokenizer.layout.specials
    tokens = list(_segments_of(tokenizer.encode([text for pair in pairs for text in pair[:2]], words=True)))
    for number, (_, _, follows) in enumerate(pairs):
        first, second = tokens[2 * number], tokens[2 * number + 1]
        a, b = len(first.ids), len(second.ids)
        if a + b > room:
            a = min(a, max(room // 2, room - b))
            b = min(b, room - a)
        yield _cut(first, 0, a), _cut(second, 0, b), NEXT if follows else RANDOM


def _assemble(segment_pairs: Sequence[SegmentPair], layout: Layout, pad: int) -> TokenSequences:
    """Put the segments between the special tokens of the layout."""
    ids, types, words, lengths = [], [], [], []
    before, between, after = (np.array(tokens, np.int32) for tokens in (layout.before, layout.between, layout.after))
    for first, second, _ in segment_pairs:
        pieces = [before, first.ids, after] if second is None else [before, first.ids, between, second.ids, after]
        kinds = layout.types[:3] if second is None else layout.types
        ids += pieces
        types += [np.full(len(piece), kind, np.int32) for piece, kind in zip(pieces, kinds, strict=True)]
        words += [_no_words(before), first.words]
        words += [_no_words(after)] if second is None else [_no_words(between), second.words, _no_words(after)]
        lengths.append(sum(map(len, pieces)))
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    following = np.array([kind for _, _, kind in segment_pairs], np.int64)
    return TokenSequences(starts, np.concatenate(ids), np.concatenate(types), np.concatenate(words), following, pad)


def _room(layout: Layout, length: int) -> int:
    """Return how many tokens of a text fit into a sequence of one segment."""
    return length - len(layout.before) - len(layout.after)


def _words(tokens: Tokens) -> Ints:
    assert tokens.words is not None
    return tokens.words


def _segments_of(tokens: Tokens) -> Iterator[Segment]:
    """Yield the tokens of every text, also of texts without tokens."""
    words = _words(tokens)
    for number in range(len(tokens.starts) - 1):
        of_text = tokens.text(number)
        yield Segment(tokens.ids[of_text], words[of_text])


def _pieces(segment: Segment, room: int) -> Iterator[Segment]:
    for first in range(0, len(segment.ids), room):
        yield _cut(segment, first, first + room)


def _cut(segment: Segment, first: int, last: int) -> Segment:
    return Segment(segment.ids[first:last], segment.words[first:last])


def _concatenated(some: Sequence[Segment]) -> Segment:
    return Segment(np.concatenate([segment.ids for segment in some]), np.concatenate([segment.words for segment in some]))


def _no_words(ids: Ints) -> Ints:
    return np.full(len(ids), NO_WORD, np.int32)
