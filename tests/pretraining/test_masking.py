"""Masks: how many tokens, which ones, their replacements, and the same masks for equal (seed, epoch)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lamina.data.tokenizer import NO_WORD
from lamina.pretraining.masking import (
    EVALUATION,
    MaskedBatch,
    MaskOptions,
    Replacements,
    choose_masked,
    make_masked_batch,
    noise,
)
from lamina.pretraining.sequences import TokenSequences, make_sequences
from lamina.utils.arrays import Longs
from tests.tiny import corpus, tokenizer

ORDINARY = np.arange(5, 105)
REPLACEMENTS = Replacements(mask=4, ordinary=ORDINARY)
DEFAULTS = MaskOptions()
FIRST, LAST = 2, 3  # special tokens around a sequence


@st.composite
def sequences(draw: st.DrawFn, most: int = 12) -> TokenSequences:
    """Draw sequences of words of one to four tokens between special tokens; some words are special or unknown."""
    ids: list[int] = []
    words: list[int] = []
    starts = [0]
    for _ in range(draw(st.integers(1, most))):
        ids.append(FIRST)
        words.append(NO_WORD)
        for _ in range(draw(st.integers(0, 15))):
            size = draw(st.integers(1, 4))
            token = draw(st.sampled_from([1, 4, 50]))  # unknown, a mask in the text, any other
            ids += [token if token < 5 else draw(st.integers(5, 104)) for _ in range(size)]
            words += [len(words)] * size
        ids.append(LAST)
        words.append(NO_WORD)
        starts.append(len(ids))
    return TokenSequences(
        np.array(starts),
        np.array(ids, np.int32),
        np.zeros(len(ids), np.int32),
        np.array(words, np.int32),
        -np.ones(len(starts) - 1, np.int64),
        0,
    )


def batch_of(
    data: TokenSequences, options: MaskOptions = DEFAULTS, *, seed: int = 0, epoch: int = 0, only: Longs | None = None
) -> MaskedBatch:
    chosen = np.arange(len(data)) if only is None else only
    return make_masked_batch(data, chosen, REPLACEMENTS, options, seed, epoch)


def hidden(data: TokenSequences, batch: MaskedBatch) -> npt.NDArray[np.bool_]:
    """Return which tokens of the data are masked."""
    flat = np.zeros(batch.mask.numel(), np.bool_)
    flat[batch.places.numpy()] = True
    real: npt.NDArray[np.bool_] = flat[batch.mask.numpy().ravel()]
    return real


@given(sequences(), st.floats(0.01, 0.9), st.integers(0, 5), st.integers(0, 5))
def test_share_of_the_tokens_is_masked_and_at_least_one(data: TokenSequences, share: float, seed: int, epoch: int) -> None:
    found = hidden(data, batch_of(data, MaskOptions(share=share), seed=seed, epoch=epoch))
    for row in range(len(data)):
        part = slice(data.starts[row], data.starts[row + 1])
        ordinary = int(np.isin(data.ids[part], ORDINARY).sum())
        assert found[part].sum() == (max(1, np.floor(share * ordinary + 0.5)) if ordinary else 0)


@given(sequences(), st.booleans(), st.sampled_from(["80/10/10", "all"]))
def test_special_tokens_and_padding_are_not_masked(data: TokenSequences, whole_words: bool, replace: str) -> None:
    options = MaskOptions.model_validate({"share": 0.5, "whole_words": whole_words, "replace": replace})
    batch = batch_of(data, options)
    assert np.isin(batch.targets.numpy(), ORDINARY).all()
    assert batch.mask.flatten()[batch.places].all()
    untouched = torch.ones(batch.ids.numel(), dtype=torch.bool)
    untouched[batch.places] = False
    original = np.zeros(batch.mask.shape, np.int64)
    original[batch.mask.numpy()] = data.ids
    assert torch.equal(batch.ids.flatten()[untouched], torch.from_numpy(original).flatten()[untouched])
    assert torch.equal(torch.from_numpy(original).flatten()[batch.places], batch.targets)


@given(sequences(), st.floats(0.05, 0.6), st.integers(0, 3))
def test_whole_words_are_masked(data: TokenSequences, share: float, epoch: int) -> None:
    found = hidden(data, batch_of(data, MaskOptions(share=share, whole_words=True), epoch=epoch))
    for word in set(data.words.tolist()) - {NO_WORD}:
        assert len(set(found[data.words == word].tolist())) == 1
    for row in range(len(data)):
        part = slice(data.starts[row], data.starts[row + 1])
        ordinary = np.isin(data.ids[part], ORDINARY)
        if ordinary.any():
            assert found[part].any()
            assert found[part].sum() <= max(4, share * ordinary.sum() + 2.5), "at most half a word too many, or the first word"


@given(sequences(), st.integers(0, 3), st.integers(0, 3))
def test_mask_of_a_sequence_does_not_depend_on_its_batch(data: TokenSequences, seed: int, epoch: int) -> None:
    together = hidden(data, batch_of(data, seed=seed, epoch=epoch))
    shown = batch_of(data, seed=seed, epoch=epoch).ids.numpy()[batch_of(data).mask.numpy()]
    for row in range(len(data)):
        alone = batch_of(data, seed=seed, epoch=epoch, only=np.array([row]))
        part = slice(data.starts[row], data.starts[row + 1])
        assert np.array_equal(alone.ids.numpy().ravel(), shown[part])
        assert np.array_equal(np.flatnonzero(together[part]), alone.places.numpy())


def real_sequences() -> TokenSequences:
    return make_sequences([e.context for e in corpus(60)[::5]], [], tokenizer(), length=32, packed="join")


def test_masks_differ_between_epochs_and_seeds() -> None:
    data, words = real_sequences(), Replacements.of(tokenizer())
    every = np.arange(len(data))
    masks = [
        make_masked_batch(data, every, words, MaskOptions(), *key).places.tolist()
        for key in ((0, 0), (0, 1), (1, 0), (0, EVALUATION))
    ]
    assert all(a != b for i, a in enumerate(masks) for b in masks[:i])
    assert make_masked_batch(data, every, words, MaskOptions(), 0, 1).places.tolist() == masks[1]


def test_every_token_is_masked_equally_often_over_many_epochs() -> None:
    length, epochs = 100, 2000
    row, ordinary = np.zeros(length, np.int64), np.ones(length, np.bool_)
    counts = sum(choose_masked(row, ordinary, None, noise(7, e, 0, np.arange(length)), 0.15).astype(int) for e in range(epochs))
    assert isinstance(counts, np.ndarray)
    assert counts.sum() == 15 * epochs
    assert abs(counts - 300).max() < 5 * np.sqrt(epochs * 0.15 * 0.85)


def test_masked_tokens_are_replaced_80_10_10() -> None:
    data = real_sequences()
    words = Replacements.of(tokenizer())
    kinds = np.zeros(3)
    drawn: set[int] = set()
    for epoch in range(200):
        batch = make_masked_batch(data, np.arange(len(data)), words, MaskOptions(), 0, epoch)
        shown = batch.ids.flatten()[batch.places]
        masked, kept = shown == words.mask, shown == batch.targets
        kinds += [int(masked.sum()), int((~masked & ~kept).sum()), int(kept.sum())]
        drawn |= set(shown[~masked & ~kept].tolist())
    assert kinds.sum() > 5000
    assert kinds / kinds.sum() == pytest.approx([0.8, 0.1, 0.1], abs=0.015)
    assert drawn <= set(words.ordinary.tolist())
    assert not {tokenizer().id_of(name) for name in ("[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]")} & drawn


def test_replace_all_masks_every_chosen_token() -> None:
    data, words = real_sequences(), Replacements.of(tokenizer())
    batch = make_masked_batch(data, np.arange(len(data)), words, MaskOptions(replace="all"), 0, 0)
    assert (batch.ids.flatten()[batch.places] == words.mask).all()
    assert len(batch.targets) > 0


def test_noise_is_uniform_and_can_start_at_any_position() -> None:
    values = noise(3, 2, 1, np.arange(100_000))
    assert np.array_equal(noise(3, 2, 1, np.array([70_000, 5])), values[[70_000, 5]])
    assert np.histogram(values, 10, (0, 1))[0] == pytest.approx(10_000, abs=500)
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(values, noise(3, 2, 2, np.arange(100_000)))[0, 1]) < 0.02
