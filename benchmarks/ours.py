"""Our side of the training benchmarks: `lamina.training.loop.fit` as in `lamina train`, without evaluations and files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from lamina.config.build import build_losses, build_model, make_optimizer
from lamina.config.parse import parse_recipe
from lamina.config.train_options import choose_precision
from lamina.data.examples import Example
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import make_windows
from lamina.encoder import load as encoders
from lamina.encoder.blocks import EncoderConfig
from lamina.model import Model
from lamina.state_cache.dataset import Dataset
from lamina.tasks.kind import Evaluation
from lamina.training.checkpoint import State
from lamina.training.datasets import TrainingData
from lamina.training.loop import Evaluations, Optimisation, fit
from lamina.training.steps import make_plan, make_step
from lamina.training.store_policy import with_stores
from lamina.utils.arrays import Longs
from lamina.utils.progress import Silent
from run_qa import LENGTH, OVERLAP

Done = Callable[[int, float], bool]  # (steps, seconds) -> whether to stop


class Ours:
    """A recipe on some examples. With `cache.use = "always"`, the constructor stores the states of its frozen layers."""

    def __init__(self, examples: Sequence[Example], **tables: dict[str, Any]) -> None:
        train = {"device": "cpu"} | tables.pop("train", {})
        values = {"data": {"train": ""}, "window": {"length": LENGTH, "overlap": OVERLAP}, "train": train}
        self.recipe = parse_recipe({**values, **tables})
        source = encoders.find(self.recipe.encoder)
        self.windows = make_windows(examples, Tokenizer(source.tokenizer), self.recipe.window)
        self.model = build_model(self.recipe, encoders.load(source))
        began = time.perf_counter()
        self.dataset: Dataset[Example] = Dataset(examples, self.windows)
        if self.recipe.cache.use == "always":
            data = TrainingData(source, Tokenizer(source.tokenizer), train={"main": self.dataset}, holdout={}, dev={})
            self.dataset = with_stores(self.recipe, self.model, data, Silent()).train["main"]
            assert self.dataset.store is not None, "a store is needed to measure it"
        self.store_seconds = time.perf_counter() - began
        self.flops: list[float] = []  # useful FLOPs per second of full fine-tuning, of each run
        self.computing: list[float] = []  # the share of the time that does not go into batches

    def run(self, seed: int, done: Done) -> float:
        """Return the real tokens per second of steps in an order drawn by `seed`, until `done` or the default epochs end."""
        options = self.recipe.train.model_copy(update={"seed": seed})
        datasets = {"main": self.dataset}
        plan = make_plan(options, datasets, self.model, build_losses(self.recipe), datasets)
        precision = choose_precision(options.precision, next(self.model.parameters()).device)
        optimizer = make_optimizer(self.model, options)
        stopwatch = Stopwatch(done)
        state = fit(
            Optimisation(self.model, build_losses(self.recipe), optimizer, options, precision),
            [(epoch, partial(make_step, datasets, turn, options.memory_tokens)) for epoch, turn in plan],
            Evaluations(no_evaluation, at=set()),
            stopwatch,
            Silent(),
        )
        seconds = stopwatch.seconds
        trained = np.concatenate([draw.items for _, turn in plan[: state.step] for draw in turn])
        self.flops.append(useful_flops(self.model.encoder.config, self.windows.lengths[trained]) / seconds)
        self.computing.append(1 - state.costs.read_seconds / state.costs.train_seconds)
        return state.costs.tokens / seconds


class Stopwatch:
    """A recorder that writes nothing, measures the time to the last step, and stops the run when `done` returns True."""

    def __init__(self, done: Done) -> None:
        self.state = State()
        self.seconds = 0.0
        self._done = done
        self._began = time.perf_counter()

    def record(self, entry: Mapping[str, object]) -> None:
        self.seconds = time.perf_counter() - self._began
        self.state.stopped = self._done(self.state.step, self.seconds)

    def save(self) -> None: ...


def no_evaluation(_: Model) -> Evaluation:
    raise AssertionError("nothing is evaluated here")


def useful_flops(config: EncoderConfig, lengths: Longs) -> float:
    """Return the FLOPs of a forward and a backward computation for windows of these lengths, without padding.

    A backward computation counts as two forward ones.
    """
    weights = config.layers * (4 * config.hidden**2 + 2 * config.hidden * config.intermediate)
    attention = 4 * lengths * config.hidden * config.layers  # per token: scores and weighted sum over its window
    return float((3 * lengths * (2 * weights + attention)).sum())
