"""Texts -> tokens, with `tokenizers` directly, as flat arrays.

Two traps are handled here once: a tokenizer.json may ship its own truncation and padding (both are switched off), and
special tokens and type ids differ between families (they are read off an encoded probe pair, not assumed).
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tokenizers

from lamina.errors import LaminaError

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

KNOWN_SCRIPT = 1000  # entries: MiniLM has 488 of Chinese, which is some letters, and no other script but its own has more


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of many texts: text t owns ``starts[t]:starts[t + 1]``."""

    starts: Longs  # [texts + 1]
    ids: Ints  # [tokens]
    offsets: Ints  # [tokens, 2] characters of the text

    def text(self, index: int) -> slice:
        return slice(int(self.starts[index]), int(self.starts[index + 1]))


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the two sequences of a pair lie: ``before, first, between, second, after``, with the type ids of each part."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    types: tuple[int, int, int, int, int]  # of before, first, between, second, after

    @property
    def specials(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)


class Tokenizer:
    """A tokenizer.json that yields flat arrays and knows how its model joins a pair."""

    def __init__(self, path: Path) -> None:
        try:
            definition = path.read_bytes()
            self._tokenizer = tokenizers.Tokenizer.from_str(definition.decode())
        except Exception as error:  # the library raises bare Exception
            raise LaminaError(f"{path}: not a tokenizer.json that can be read ({error})") from error
        self.path = path
        self.fingerprint = hashlib.sha256(definition).hexdigest()
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.layout = self._probe()
        self.vocabulary = self._tokenizer.get_vocab_size(with_added_tokens=True)
        self.pad = next((i for t in ("[PAD]", "<pad>") if (i := self._tokenizer.token_to_id(t)) is not None), 0)
        self.unknown = next((i for t in ("[UNK]", "<unk>") if (i := self._tokenizer.token_to_id(t)) is not None), -1)

    def encode(self, texts: Sequence[str]) -> Tokens:
        """Tokenises all texts on all cores, without special tokens."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        starts = np.zeros(len(encodings) + 1, np.int64)
        np.cumsum([len(encoding) for encoding in encodings], out=starts[1:])
        total = int(starts[-1])
        ids = np.fromiter(chain.from_iterable(e.ids for e in encodings), np.int32, count=total)
        flat = chain.from_iterable(chain.from_iterable(e.offsets for e in encodings))
        offsets = np.fromiter(flat, np.int32, count=2 * total).reshape(total, 2)
        return Tokens(starts, ids, offsets)

    @cached_property
    def scripts(self) -> frozenset[str]:
        """The scripts that the vocabulary was made for: those of which it has more than stray letters."""
        entries = (set(map(script, entry)) for entry in self._tokenizer.get_vocab(with_added_tokens=False))
        counts = Counter(chain.from_iterable(entries))
        return frozenset(name for name, count in counts.items() if name and count >= KNOWN_SCRIPT)

    def _probe(self) -> Layout:
        pair = self._tokenizer.encode("a", "a")
        first = [i for i, s in enumerate(pair.sequence_ids) if s == 0]
        second = [i for i, s in enumerate(pair.sequence_ids) if s == 1]
        if not first or not second or first[0] == 0:
            raise LaminaError(
                f"{self.path}: the tokenizer joins a pair without a classifier token in front; Lamina needs a BERT-like "
                "post-processor such as [CLS] A [SEP] B [SEP]"
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


def script(letter: str) -> str:
    """The script of a letter, as the first word of its Unicode name; "" for all that is not a letter.

    >>> [script(letter) for letter in "aй한京7"]
    ['LATIN', 'CYRILLIC', 'HANGUL', 'CJK', '']
    """
    return unicodedata.name(letter, "").partition(" ")[0] if letter.isalpha() else ""
