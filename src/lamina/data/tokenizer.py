"""Texts -> tokens as flat arrays, by the package `tokenizers`.

A tokenizer.json may have its own truncation and padding: both are switched off. Special tokens and type ids differ between
families: they are read from an encoded pair.

Some Korean vocabularies have whole syllables only. In a decomposed text (NFD, as in file names of macOS), every word is then
unknown to them. Such a tokenizer composes texts first. Offsets are still those of the text as it is.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import tokenizers

from lamina.errors import LaminaError
from lamina.utils.arrays import Ints, Longs

NO_WORD = -1
BLOCK = 1 << 19  # characters of one text that are tokenised at once
AT_ONCE = 1 << 22  # characters of all texts that are tokenised at once; the package needs hundreds of bytes a token
KOREAN_WORDS = ("한국", "사람")  # in every vocabulary for Korean, as words or in pieces
KNOWN_SCRIPT = 1000  # entries of a script that a vocabulary covers; MiniLM has 488 Chinese letters, which are too few

_BOUNDARIES = tuple(map(re.compile, (r"(?<=\S) (?=\S)", r"(?<=\S)\s", r"(?<=[。！？.!?])(?=[\s\S])")))


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of many texts: text t owns ``starts[t]:starts[t + 1]``."""

    starts: Longs  # [texts + 1]
    ids: Ints  # [tokens]
    offsets: Ints  # [tokens, 2] characters of the text
    words: Ints | None = None  # [tokens] the index of the token's word over all texts, or NO_WORD; None unless requested

    def text(self, index: int) -> slice:
        """Return the tokens of one text as a slice."""
        return slice(int(self.starts[index]), int(self.starts[index + 1]))


@dataclass(frozen=True, slots=True)
class Layout:
    """The special tokens around the two sequences of a pair, and the type ids of all five segments."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    types: tuple[int, int, int, int, int]  # of before, first, between, second, after

    @property
    def specials(self) -> int:
        """The number of special tokens."""
        return len(self.before) + len(self.between) + len(self.after)


class Tokenizer:
    """A tokenizer.json that returns flat arrays. `layout` has the special tokens of a pair, `single` those of one text."""

    def __init__(self, path: Path) -> None:
        try:
            definition = path.read_bytes()
            self._tokenizer = tokenizers.Tokenizer.from_str(definition.decode())
        except Exception as error:  # the library raises bare Exception
            raise LaminaError(
                f"{path}: not a tokenizer.json that can be read ({error}). Fix: save the tokenizer again"
            ) from error
        self.path = path
        self._memory: tuple[tuple[str, ...], bool, Tokens] | None = None
        self.fingerprint = hashlib.sha256(definition).hexdigest()
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.unknown = next((i for t in ("[UNK]", "<unk>") if (i := self.id_of(t)) is not None), -1)
        if self._loses_decomposed_syllables():
            own = self._tokenizer.normalizer
            steps = [tokenizers.normalizers.NFC(), *([] if own is None else [own])]
            self._tokenizer.normalizer = tokenizers.normalizers.Sequence(steps)
        self.layout = self._probe()
        self.single = self._probe_single()
        self._hides_first_space = self._takes_first_space_for_its_own()
        self.vocabulary = self._tokenizer.get_vocab_size(with_added_tokens=True)
        self.pad = next((i for t in ("[PAD]", "<pad>") if (i := self.id_of(t)) is not None), 0)

    @property
    def definition(self) -> str:
        """The text of the tokenizer.json, without truncation and padding."""
        return str(self._tokenizer.to_str(pretty=True))

    def token_of(self, number: int) -> str:
        """Return the token of an id."""
        return str(self._tokenizer.id_to_token(number))

    def id_of(self, token: str) -> int | None:
        """Return the id of a token, or None if the vocabulary does not have it."""
        found: int | None = self._tokenizer.token_to_id(token)
        return found

    def encode(self, texts: Sequence[str], *, words: bool = False, remember: bool = False) -> Tokens:
        """Return the tokens of all texts, without special tokens, computed on all cores.

        Long texts are cut into blocks before a single space, so memory is bounded. No tokenizer of these families reads across
        a single space, so the tokens are those of the whole text. A text without such a space in half a million characters may
        have one token more.

        Args:
            texts: The texts.
            words: Also return the index of each token's word.
            remember: Keep the result, and return it again if the next call has the same texts.
        """
        if self._memory is not None and self._memory[:2] == (tuple(texts), words):
            return self._memory[2]
        tokens = self._encode_blocks(texts, words=words)
        if remember:
            self._memory = (tuple(texts), words, tokens)
        return tokens

    def _encode_blocks(self, texts: Sequence[str], *, words: bool) -> Tokens:
        blocks = [(number, *block) for number, text in enumerate(texts) for block in _blocks(text)]
        arrays = [self._encode(texts, some, words=words) for some in _grouped(blocks)]
        counts, ids, offsets, word = (np.concatenate([array[i] for array in arrays]) for i in range(4))
        starts = np.zeros(len(texts) + 1, np.int64)
        np.add.at(starts, np.array([number + 1 for number, _, _ in blocks], np.int64), counts)
        if words:  # each block numbers its words from 0
            known = word != NO_WORD
            last = np.maximum.reduceat(np.append(word, 0), np.minimum(np.cumsum(counts) - counts, len(word)))
            used = np.where(counts > 0, last + 1, 0)
            before = np.cumsum(used) - used
            word = np.where(known, word + np.repeat(before, counts), NO_WORD).astype(np.int32)
        return Tokens(np.cumsum(starts), ids, offsets, word if words else None)

    def _encode(
        self, texts: Sequence[str], blocks: Sequence[tuple[int, int, int]], *, words: bool
    ) -> tuple[Longs, Ints, Ints, Ints]:
        """Return the number of tokens of each block, and the ids, offsets and words of these tokens.

        A block is (index of the text, first character, end).
        """
        found = self._tokenizer.encode_batch([texts[text][a:b] for text, a, b in blocks], add_special_tokens=False)
        counts = np.array([len(encoding) for encoding in found], np.int64)
        total = int(counts.sum())
        ids = np.fromiter(chain.from_iterable(e.ids for e in found), np.int32, count=total)
        flat = chain.from_iterable(chain.from_iterable(e.offsets for e in found))
        offsets = np.fromiter(flat, np.int32, count=2 * total).reshape(total, 2)
        offsets += np.repeat(np.array([a for _, a, _ in blocks], np.int32), counts)[:, None]
        if self._hides_first_space:
            later = np.array([a > 0 and texts[text][a] == " " for text, a, _ in blocks], bool) & (counts > 0)
            first = (np.cumsum(counts) - counts)[later]
            offsets[first, 0] += 1
            offsets[first, 1] = offsets[first].max(1)  # if the space is a token of its own
        numbers = chain.from_iterable(e.word_ids for e in found) if words else ()
        word = np.fromiter((NO_WORD if n is None else n for n in numbers), np.int32, count=total if words else 0)
        return counts, ids, offsets, word

    @cached_property
    def scripts(self) -> frozenset[str]:
        """The scripts that the vocabulary covers: those with at least KNOWN_SCRIPT entries."""
        entries = (set(map(script, entry)) for entry in self._tokenizer.get_vocab(with_added_tokens=False))
        counts = Counter(chain.from_iterable(entries))
        return frozenset(name for name, count in counts.items() if name and count >= KNOWN_SCRIPT)

    def _takes_first_space_for_its_own(self) -> bool:
        """Return whether the first token of a text includes a space before it in its offsets.

        Byte-level tokenizers exclude the space before a word from its offsets, but not at the start of a text: there they may
        have added it. A block really starts with a space.
        """
        inside, alone = (self._tokenizer.encode(text, add_special_tokens=False).offsets for text in ("a a", " a"))
        return len(inside) > 1 and bool(alone) and inside[1][0] == 2 and alone[0][0] == 0

    def _loses_decomposed_syllables(self) -> bool:
        """Return whether Korean words are known, but unknown when decomposed."""
        unknown, lost = (
            [self.unknown in self._tokenizer.encode(unicodedata.normalize(form, word)).ids for word in KOREAN_WORDS]
            for form in ("NFC", "NFD")
        )
        return not any(unknown) and all(lost)

    def _probe(self) -> Layout:
        """Return the layout of a pair, read from an encoded pair."""
        pair = self._tokenizer.encode("a", "a")
        first = [i for i, s in enumerate(pair.sequence_ids) if s == 0]
        second = [i for i, s in enumerate(pair.sequence_ids) if s == 1]
        if not first or not second or first[0] == 0:
            raise LaminaError(
                f"{self.path}: the tokenizer joins a pair without a classifier token before it. "
                "Fix: choose an encoder with a BERT-like post-processor, such as [CLS] A [SEP] B [SEP]"
            )
        parts = (
            range(first[0]),
            first,
            range(first[-1] + 1, second[0]),
            second,
            range(second[-1] + 1, len(pair.ids)),
        )
        types = tuple(pair.type_ids[part[0]] if len(part) else 0 for part in parts)
        before, _, between, _, after = (tuple(pair.ids[i] for i in part) for part in parts)
        assert len(types) == 5
        return Layout(before, between, after, types)

    def _probe_single(self) -> Layout:
        """Return the layout of one text, as a pair whose second sequence is empty."""
        alone = self._tokenizer.encode("a")
        text = [i for i, s in enumerate(alone.sequence_ids) if s == 0]
        before, after = alone.ids[: text[0]], alone.ids[text[-1] + 1 :]
        kinds = (alone.type_ids[0], alone.type_ids[text[0]], alone.type_ids[-1])
        return Layout(tuple(before), (), tuple(after), (kinds[0], kinds[1], kinds[2], kinds[2], kinds[2]))


def _blocks(text: str, size: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the start and end of the blocks of a text, each of `size` to twice that many characters.

    A block is cut before a space between two words, else before other white space, else after the end of a sentence, else
    anywhere.

    >>> list(_blocks("ab cd  ef gh", size=5)), list(_blocks(""))
    ([(0, 9), (9, 12)], [(0, 0)])
    """
    size = size or BLOCK
    start = 0
    while len(text) - start > 2 * size:
        found = (boundary.search(text, start + size, start + 2 * size + 1) for boundary in _BOUNDARIES)
        cut = next((match.start() for match in found if match), start + 2 * size)
        yield start, cut
        start = cut
    yield start, len(text)


def _grouped(blocks: Sequence[tuple[int, int, int]]) -> Iterator[Sequence[tuple[int, int, int]]]:
    """Yield runs of blocks, each of at most AT_ONCE characters or one block. Without blocks, yield one empty run."""
    first, size = 0, 0
    for index, (_, start, stop) in enumerate(blocks):
        if index > first and size + stop - start > AT_ONCE:
            yield blocks[first:index]
            first, size = index, 0
        size += stop - start
    yield blocks[first:]


def script(letter: str) -> str:
    """Return the script of a letter, the first word of its Unicode name; "" for other characters.

    >>> [script(letter) for letter in "aй한京7"]
    ['LATIN', 'CYRILLIC', 'HANGUL', 'CJK', '']
    """
    return unicodedata.name(letter, "").partition(" ")[0] if letter.isalpha() else ""
