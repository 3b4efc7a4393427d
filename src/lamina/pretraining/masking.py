"""Mask tokens (Devlin et al. 2019): choose the tokens that the model must predict, and replace them in its input.

The choice takes `share` of a sequence's ordinary tokens, at least one. 80% of them become [MASK], 10% become a random token
and 10% stay (``80/10/10``), or all become [MASK] (``all``; paper 002). `whole_words` chooses all tokens of a word together.
Every epoch has a new choice (Liu et al. 2019). Departures:

- The number of chosen tokens is the rounded share, not one random draw for every token: it varies less between steps.
- Special tokens, also [UNK], are neither chosen nor drawn as random tokens.
- Every token has its own random numbers, a hash of (seed, epoch, position in the data). A sequence's mask does not depend
  on its batch, and a resumed run draws the same masks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from lamina.data.hidden_states import moved
from lamina.data.tokenizer import NO_WORD, Tokenizer
from lamina.errors import LaminaError
from lamina.pretraining.sequences import TokenSequences
from lamina.utils.arrays import Bools, Doubles, Ints, Longs
from lamina.utils.options import Options

EVALUATION = -1  # the epoch number that draws the masks of held-out sequences
MASKS = ("[MASK]", "<mask>")
KNOWN_SPECIALS = (  # of all families
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "<pad>",
    "<unk>",
    "<s>",
    "</s>",
    "<mask>",
)


class MaskOptions(Options):
    share: float = Field(default=0.15, gt=0, lt=1)
    """Share of the tokens of a sequence to predict, between 0 and 1."""
    replace: Literal["80/10/10", "all"] = "80/10/10"
    """Replace chosen tokens 80% by [MASK], 10% by a random token, 10% not; or all by [MASK]."""
    whole_words: bool = False
    """Choose all tokens of a word together."""


def mask_token(tokenizer: Tokenizer) -> str:
    """Return the mask token of a vocabulary."""
    for name in MASKS:
        if tokenizer.id_of(name) is not None:
            return name
    raise LaminaError(
        f"{tokenizer.path}: the vocabulary has no mask token ({' or '.join(MASKS)}). "
        "Fix: choose an encoder whose vocabulary has one"
    )


@dataclass(frozen=True)
class Replacements:
    """The tokens of a vocabulary that may be masked, and those that may replace them."""

    mask: int  # the mask token
    ordinary: Longs  # the ids that are not special, sorted

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Replacements:
        mask = tokenizer.id_of(mask_token(tokenizer))
        assert mask is not None
        layout = tokenizer.layout
        specials = {tokenizer.id_of(name) for name in KNOWN_SPECIALS} | {*layout.before, *layout.between, *layout.after}
        everything = np.arange(tokenizer.vocabulary)
        return cls(mask, everything[~np.isin(everything, [number for number in specials if number is not None])])


@dataclass(frozen=True, slots=True)
class MaskedBatch:
    """R sequences of T tokens with M masked tokens, which the model must predict."""

    ids: Tensor  # [R, T] int64, masked
    type_ids: Tensor  # [R, T] int64
    mask: Tensor  # [R, T] bool, True on real tokens
    places: Tensor  # [M] int64, into the flattened sequences
    targets: Tensor  # [M] int64, the original tokens
    following: Tensor  # [R] int64, NEXT, RANDOM or ALONE

    def to(self, device: torch.device) -> MaskedBatch:
        tensors = (self.ids, self.type_ids, self.mask, self.places, self.targets, self.following)
        return MaskedBatch(*(moved(tensor, device) for tensor in tensors))


def make_masked_batch(
    sequences: TokenSequences, chosen: Longs, replacements: Replacements, options: MaskOptions, seed: int, epoch: int
) -> MaskedBatch:
    """Return the sequences `chosen` as a batch, padded to the longest. (seed, epoch) draw the masks."""
    lengths = sequences.lengths[chosen]
    real = np.arange(lengths.max()) < lengths[:, None]  # [R, T]
    place = (sequences.starts[chosen][:, None] + np.arange(lengths.max()))[real]  # of every real token in the data
    ids = sequences.ids[place].astype(np.int64)
    words = sequences.words[place] if options.whole_words else None
    owner = np.repeat(np.arange(len(chosen)), lengths)
    hidden = choose_masked(owner, np.isin(ids, replacements.ordinary), words, noise(seed, epoch, 0, place), options.share)
    shown = _replaced(ids, hidden, replacements, options, noise(seed, epoch, 1, place), noise(seed, epoch, 2, place))
    return MaskedBatch(
        ids=torch.from_numpy(_padded(shown, real, sequences.pad)),
        type_ids=torch.from_numpy(_padded(sequences.type_ids[place], real, 0)),
        mask=torch.from_numpy(real),
        places=torch.from_numpy(np.flatnonzero(real)[hidden]),
        targets=torch.from_numpy(ids[hidden]),
        following=torch.from_numpy(sequences.following[chosen]),
    )


def choose_masked(owner: Longs, ordinary: Bools, words: Ints | None, draws: Doubles, share: float) -> Bools:
    """Return which tokens to mask. `owner` is the sequence of each token; with `words`, whole words are masked.

    Words are chosen in the order of their draws until the sequence's number of masked tokens is reached. The last word is
    chosen if at least half of it is within that number.
    """
    begins = np.ones(len(owner), np.bool_)  # whether a token begins a unit: a token, or a word
    if words is not None:
        joined = (owner[1:] == owner[:-1]) & (words[1:] == words[:-1]) & (words[1:] != NO_WORD)
        begins[1:] = ~(joined & ordinary[1:] & ordinary[:-1])
    unit = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    usable = np.flatnonzero(ordinary[first])  # units
    size = np.bincount(unit)[usable] if len(unit) else usable
    place = owner[first][usable]
    order = np.lexsort((draws[first][usable], place))
    taken_before = np.cumsum(size[order]) - size[order]
    new_owner = np.diff(place[order], prepend=-1) != 0
    taken_before -= np.maximum.accumulate(np.where(new_owner, taken_before, 0)) if len(order) else 0
    wanted = np.floor(share * np.bincount(owner[ordinary], minlength=owner.max(initial=-1) + 1) + 0.5)[place[order]]
    take = new_owner | (taken_before + size[order] / 2 <= wanted)  # at least one in each sequence
    taken = np.zeros(len(first), np.bool_)
    taken[usable[order[take]]] = True
    result: Bools = taken[unit]
    return result


def _replaced(
    ids: Longs, hidden: Bools, replacements: Replacements, options: MaskOptions, kinds: Doubles, tokens: Doubles
) -> Longs:
    """Return the ids with replacements at the masked positions."""
    if options.replace == "all":
        return np.where(hidden, replacements.mask, ids)
    ordinary = replacements.ordinary
    random = ordinary[(tokens * len(ordinary)).astype(np.int64)]
    return np.where(hidden & (kinds < 0.8), replacements.mask, np.where(hidden & (kinds < 0.9), random, ids))


def noise(seed: int, epoch: int, draw: int, places: Longs) -> Doubles:
    """Return a uniform number in [0, 1) for each position. It does not depend on the other positions or their order.

    The generator is SplitMix64 (Steele et al. 2014), which can start at any position.
    """
    start = np.random.SeedSequence((seed, epoch + 1, draw)).generate_state(1, np.uint64)
    z = start + (places.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    uniform: Doubles = (z >> np.uint64(11)) * 2.0**-53
    return uniform


def _padded(values: npt.NDArray[np.integer], real: Bools, pad: int) -> Longs:
    grid = np.full(real.shape, pad, np.int64)
    grid[real] = values
    return grid
