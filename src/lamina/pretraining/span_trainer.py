"""Pretrain an encoder and a span head on questions made from texts (`objective = "spans"`).

The questions are fine-tuned on like any others, and the folder is also that of a run. So `encoder.model` and `head.start`
take it, and `lamina ask` answers with it. Each epoch has new questions; another process makes those of the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import torch

from lamina.config.data_options import DataOptions
from lamina.config.recipe import Recipe, TaskOptions
from lamina.config.train_options import TrainOptions
from lamina.data.examples import Example
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import WindowOptions, make_windows
from lamina.encoder import load as encoders
from lamina.errors import LaminaError
from lamina.pretraining.corpus import Corpus
from lamina.pretraining.folder import PretrainingFolder
from lamina.pretraining.masking import EVALUATION, mask_token
from lamina.pretraining.pretrain_recipe import PretrainRecipe
from lamina.pretraining.setup import check_encoder
from lamina.pretraining.span_questions import make_questions
from lamina.state_cache.dataset import AugmentedDataset, Dataset, EpochCache
from lamina.training.datasets import TrainingData
from lamina.training.trainer import train_on
from lamina.utils.progress import Progress
from lamina.utils.run_folder import Run

SOURCE: Final = "questions that lamina pretrain makes"  # `data.train` of the run; nothing can read it again
LONGEST_QUESTION: Final = 96  # tokens; a question has at most 40 words


def pretrain_spans(
    recipe: PretrainRecipe, corpus: Corpus, folder: PretrainingFolder, device: torch.device, progress: Progress
) -> dict[str, float]:
    """Train on questions and write the run. Return the costs."""
    run = Run(folder.path)
    if not run.finished:  # a killed process may have finished the run alone
        fine_tuning = span_recipe(recipe)
        source = encoders.find(fine_tuning.encoder)
        check_encoder(source.config, recipe)
        progress.say("making the questions of every epoch once, to count its steps")
        data = read_questions(recipe, corpus, source)
        examples, held_out = data.train["main"].examples, data.holdout["main"].examples
        unanswerable = sum(not example.answers for example in examples)
        progress.say(f"{len(examples)} questions in the first epoch, {unanswerable} unanswerable; {len(held_out)} held out")
        folder.begin(recipe.model_dump(mode="json"))
        train_on(data, fine_tuning, run, device, progress)
    return run.read_info()["costs"]


def span_recipe(recipe: PretrainRecipe) -> Recipe:
    """Return the recipe of the run: the span head on the last layer, all weights trained, the last ones kept."""
    return Recipe(
        tasks={"main": TaskOptions(data=DataOptions(train=SOURCE))},
        window=WindowOptions(length=recipe.length, query=min(LONGEST_QUESTION, recipe.length // 3)),
        encoder=recipe.encoder or encoders.EncoderOptions(),
        train=TrainOptions(keep="last", **recipe.train.model_dump(exclude={"head_lr"})),
    )


def read_questions(recipe: PretrainRecipe, corpus: Corpus, source: encoders.Source) -> TrainingData:
    """Return the questions to train on, new ones in each epoch, and the held-out questions, always the same."""
    tokenizer = encoders.load_tokenizer(source)
    epochs = EpochCache(partial(epoch_dataset, corpus.texts, recipe, tokenizer))
    first = epochs.dataset(0)
    if not first.examples:
        raise LaminaError(
            "texts: no question can be made from these texts: a question needs a paragraph of several sentences whose "
            "names or words recur. Fix: name more or longer texts"
        )
    held_out = epoch_dataset(corpus.held_out, recipe, tokenizer, EVALUATION)
    return TrainingData(
        source,
        tokenizer,
        train={"main": AugmentedDataset(first.examples, first.windows, epochs=epochs)},
        holdout={"main": held_out},
        dev={"main": Dataset([], make_windows([], tokenizer, span_recipe(recipe).window))},
    )


def epoch_dataset(texts: Sequence[str], recipe: PretrainRecipe, tokenizer: Tokenizer, epoch: int) -> Dataset[Example]:
    """Return the questions of one epoch with their windows."""
    options = recipe.spans
    mask = mask_token(tokenizer) if options.blank == "mask" or "recurring" in options.kinds else ""
    questions = make_questions(texts, options, mask, seed=recipe.train.seed, epoch=epoch)
    return Dataset(questions, make_windows(questions, tokenizer, span_recipe(recipe).window))
