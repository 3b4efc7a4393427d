"""Build the start of a pretraining run: the model with its heads, the tokenizer and the token sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from lamina.data.tokenizer import Tokenizer
from lamina.encoder import load as encoders
from lamina.encoder.blocks import Encoder, EncoderConfig
from lamina.encoder.load import load_tokenizer
from lamina.errors import LaminaError
from lamina.pretraining.corpus import Corpus
from lamina.pretraining.folder import HeadOrigin, Origin, PretrainingFolder
from lamina.pretraining.masking import EVALUATION, Replacements, make_masked_batch
from lamina.pretraining.model import PretrainedModel, check_nsp, load_head, start_as_wide, start_near_identity
from lamina.pretraining.pretrain_recipe import PretrainRecipe
from lamina.pretraining.sequences import NEXT, RANDOM, TokenSequences, make_sequences
from lamina.pretraining.texts import TextPair
from lamina.pretraining.vocabulary import train_vocabulary
from lamina.utils.files import write_atomically
from lamina.utils.progress import Progress

SAMPLE = 32  # sequences whose states a new head is fitted to

HEADS: dict[HeadOrigin, str] = {
    "loaded": "the head for masked tokens is loaded from the checkpoint",
    "near identity": "the checkpoint has no head for masked tokens: a new one starts near the identity",
    "random": "all weights start at random",
}


@dataclass(frozen=True)
class PretrainingData:
    """The token sequences to train on, the held-out ones if any, and the tokens that replace masked ones."""

    training: TokenSequences
    held_out: TokenSequences | None
    replacements: Replacements


@dataclass(frozen=True)
class PretrainingSetup:
    """The start of a pretraining run. `head_first` is the share of the steps that train only a new head."""

    origin: Origin
    tokenizer: Tokenizer
    model: PretrainedModel
    data: PretrainingData
    head_first: float


class _Start(NamedTuple):
    model: PretrainedModel
    tokenizer: Tokenizer
    origin: Origin


def set_up(recipe: PretrainRecipe, corpus: Corpus, folder: PretrainingFolder, progress: Progress) -> PretrainingSetup:
    """Return the model before its first step, and the sequences. A new vocabulary is written to the folder."""
    torch.manual_seed(recipe.train.seed)  # for random initial weights
    start = _checkpoint(recipe) if recipe.shape is None else _random_weights(recipe, corpus, folder, progress)
    model, tokenizer, origin = start
    named = origin["encoder"] or "a new encoder"
    progress.say(f"{named}, {tokenizer.vocabulary} vocabulary entries; {HEADS[origin['head']]}")
    data = _make_data(recipe, corpus, tokenizer)
    if origin["head"] != "near identity":
        return PretrainingSetup(origin, tokenizer, model, data, head_first=0.0)
    some = np.linspace(0, len(data.training) - 1, min(len(data.training), SAMPLE)).astype(np.int64)
    batch = make_masked_batch(data.training, some, data.replacements, recipe.mask, recipe.train.seed, EVALUATION)
    start_near_identity(model, batch)
    return PretrainingSetup(origin, tokenizer, model, data, recipe.head_first)


def _checkpoint(recipe: PretrainRecipe) -> _Start:
    """Load the recipe's encoder, with its own head for masked tokens if it has one."""
    source = encoders.find(recipe.encoder or encoders.EncoderOptions())
    check_encoder(source.config, recipe)
    tokenizer = load_tokenizer(source)
    model = PretrainedModel(encoders.load(source), nsp=recipe.nsp is not None)
    head: HeadOrigin = "loaded" if load_head(model, source) else "near identity" if source.weights else "random"
    return _Start(model, tokenizer, {"encoder": source.name, "sha256": encoders.digest(source), "head": head})


def _random_weights(recipe: PretrainRecipe, corpus: Corpus, folder: PretrainingFolder, progress: Progress) -> _Start:
    """Build an encoder of the recipe's shape, with a new vocabulary."""
    if not folder.tokenizer.exists():
        vocabulary = recipe.vocabulary_or_default
        progress.say(f"making a vocabulary of {vocabulary.size} entries")
        texts = [*corpus.texts, *(text for pair in corpus.pairs for text in pair[:2])]
        write_atomically(folder.tokenizer, train_vocabulary(texts, vocabulary).encode())
    tokenizer = Tokenizer(folder.tokenizer)
    config = recipe.shape_for(tokenizer.vocabulary)
    check_encoder(config, recipe)
    model = PretrainedModel(Encoder(config), nsp=recipe.nsp is not None)
    start_as_wide(model)
    return _Start(model, tokenizer, {"encoder": None, "sha256": None, "head": "random"})


def check_encoder(config: EncoderConfig, recipe: PretrainRecipe) -> None:
    """Raise LaminaError if the encoder does not fit the recipe."""
    if recipe.length > config.max_length:
        raise LaminaError(
            f"length: is {recipe.length}, but the encoder has {config.max_length} positions. "
            f"Fix: set length to at most {config.max_length}"
        )
    if recipe.nsp is not None:
        check_nsp(config)


def _make_data(recipe: PretrainRecipe, corpus: Corpus, tokenizer: Tokenizer) -> PretrainingData:
    training = _sequences(corpus.texts, corpus.pairs, tokenizer, recipe)
    held_out = _sequences(corpus.held_out, corpus.held_out_pairs, tokenizer, recipe)
    assert training is not None
    if (training.following == NEXT).any() and not (training.following == RANDOM).any():
        raise LaminaError("nsp: random pairs need at least two texts of several sentences. Fix: add texts")
    return PretrainingData(training, held_out, Replacements.of(tokenizer))


def _sequences(texts: list[str], pairs: list[TextPair], tokenizer: Tokenizer, recipe: PretrainRecipe) -> TokenSequences | None:
    if not texts and not pairs:
        return None
    nsp, seed = recipe.nsp is not None, recipe.train.seed
    return make_sequences(texts, pairs, tokenizer, length=recipe.length, packed=recipe.packed, nsp=nsp, seed=seed)
