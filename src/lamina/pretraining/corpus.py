"""Read the corpus of a pretraining run: texts and labelled pairs, split into training and held-out."""

from __future__ import annotations

from dataclasses import dataclass

from lamina.errors import LaminaError
from lamina.pretraining.pretrain_recipe import PretrainRecipe
from lamina.pretraining.texts import TextPair, exclude_texts, read_pairs, read_texts, split_texts
from lamina.utils.progress import Progress


@dataclass(frozen=True)
class Corpus:
    """Texts and labelled pairs, each to train on and held out."""

    texts: list[str]
    held_out: list[str]
    pairs: list[TextPair]
    held_out_pairs: list[TextPair]


def read_corpus(recipe: PretrainRecipe, progress: Progress) -> Corpus:
    """Read the recipe's sources and hold out a share of them. No held-out text is among the texts or pairs to train on."""
    texts = exclude_texts(read_texts(recipe.texts), recipe.exclude)
    read = [pair for source in recipe.nsp.pairs for pair in read_pairs(source)] if recipe.nsp else []
    unwanted = set(read_texts(recipe.exclude)) if read else set()
    pairs = [pair for pair in read if unwanted.isdisjoint(pair[:2])]
    if not texts and not pairs:
        raise LaminaError(
            "texts: the sources have no texts besides the excluded ones, so there is nothing to train on. "
            "Fix: name other texts, or leave exclude out"
        )
    seed = recipe.train.seed
    training, held_out = split_texts(texts, recipe.holdout, seed) if texts else ([], [])
    training_pairs, held_out_pairs = split_texts(pairs, recipe.holdout, seed) if pairs else ([], [])
    unseen = {*held_out, *(text for pair in held_out_pairs for text in pair[:2])}
    training = [text for text in training if text not in unseen]
    training_pairs = [pair for pair in training_pairs if unseen.isdisjoint(pair[:2])]
    if not training and not training_pairs:
        raise LaminaError("holdout: every text or pair to train on shares a text with the held-out ones. Fix: set holdout = 0")
    counted = f" and {len(training_pairs)} pairs" if pairs else ""
    progress.say(f"{len(training)} texts{counted} to train on, {len(held_out) + len(held_out_pairs)} held out")
    return Corpus(training, held_out, training_pairs, held_out_pairs)
