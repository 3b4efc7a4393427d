from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from lamina.config.train_options import TrainOptions
from lamina.data.batches import make_batch
from lamina.data.padding import pack
from lamina.data.windows import Windows
from lamina.errors import LaminaError
from lamina.model import Model
from lamina.model.weights import Weights, copy_weights
from lamina.objectives import SpanLoss
from lamina.objectives.loss import Loss
from lamina.tasks.kind import Evaluation
from lamina.training.checkpoint import State
from lamina.training.loop import Evaluations, Optimisation, Step, fit
from lamina.utils.arrays import Longs
from lamina.utils.progress import Silent
from tests.tiny import corpus, model, windows

WINDOWS = windows(corpus(4))
ROWS = [(i // 5, np.arange(4 * i, 4 * i + 4) % len(WINDOWS)) for i in range(10)]  # ten steps of two epochs


def step(made: Windows, rows: Longs, tokens: int = 10**6) -> Step:
    return tuple(("main", make_batch(made, rows[run])) for run in pack(made.lengths[rows], tokens))


class InMemory:
    """A recorder without files."""

    def __init__(self, log: list[dict[str, Any]], saved: list[int]) -> None:
        self.state = State()
        self._log, self._saved = log, saved

    def record(self, entry: Mapping[str, object]) -> None:
        self._log.append(dict(entry))

    def save(self) -> None:
        self._saved.append(self.state.step)


class Training:
    """One call of `fit` on a small model, with its results."""

    def __init__(
        self,
        *,
        steps: Sequence[tuple[int, Callable[[], Step]]] | None = None,
        scores: list[float] | None = None,
        evaluate: Callable[[Model], object] = lambda model: None,
        evaluate_at: set[int] | None = None,
        precision: torch.dtype = torch.float32,
        start: Model | None = None,
        saved: list[int] | None = None,
        **options: Any,
    ) -> None:
        self.model = start or model(dropout=0.2)
        self.options = TrainOptions(**{"lr": 1e-2, "keep": "last"} | options)
        self.log: list[dict[str, Any]] = []
        self.saved: list[int] = []
        self.seen: list[Weights] = []  # the weights at each evaluation
        left = iter(scores or [0.0] * 100)

        def evaluated(model: Model) -> Evaluation:
            assert not model.training
            evaluate(model)
            self.seen.append(copy_weights(model))
            score = next(left)
            return Evaluation(score, {"score": score})

        recorder = InMemory(self.log, self.saved if saved is None else saved)
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=1.0)
        self.state = fit(
            Optimisation(self.model, {"main": Loss([SpanLoss()])}, optimizer, self.options, precision),
            steps or [(epoch, partial(step, WINDOWS, rows)) for epoch, rows in ROWS],
            Evaluations(evaluated, at=evaluate_at or set()),
            recorder,
            Silent(),
        )

    @property
    def weights(self) -> Weights:
        return copy_weights(self.model)

    @property
    def steps(self) -> list[dict[str, Any]]:
        return [entry for entry in self.log if "loss" in entry]


def same(one: Weights, other: Weights) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def plain() -> Training:
    return Training()


def test_loss_falls_and_every_step_is_recorded() -> None:
    steps = [(0, partial(step, WINDOWS, np.arange(8)))] * 30
    training = Training(steps=steps, start=model(), warmup=0.0)
    losses = [entry["loss"] for entry in training.steps]
    assert losses[-1] < 0.5 * losses[0]
    assert [entry["step"] for entry in training.log] == list(range(1, 31))
    assert training.state.step == 30
    assert training.saved == [30], "no checkpoint is due before the end"
    assert not training.model.training


def test_equal_seeds_give_equal_bits_and_other_seeds_do_not(plain: Training) -> None:
    torch.manual_seed(99)  # earlier draws must not matter
    again = Training()
    assert again.log == plain.log
    assert same(again.weights, plain.weights)
    other = Training(seed=1)  # only the dropout differs
    assert not same(other.weights, plain.weights)


def test_evaluation_does_not_change_training(plain: Training) -> None:
    evaluated = Training(evaluate=lambda model: torch.randn(1000), evaluate_at={2, 3, 7, 10})
    assert len(evaluated.seen) == 4
    assert evaluated.steps == plain.log
    assert same(evaluated.weights, plain.weights)


def test_micro_batches_give_the_same_result() -> None:
    whole, cut = (
        Training(start=model(), steps=[(epoch, partial(step, WINDOWS, rows, tokens)) for epoch, rows in ROWS])
        for tokens in (10**6, 1)
    )
    for one, other in zip(whole.steps, cut.steps, strict=True):
        assert other["loss"] == pytest.approx(one["loss"], rel=1e-4)
        assert other["norm"] == pytest.approx(one["norm"], rel=1e-3)
    assert cut.state.costs.tokens == whole.state.costs.tokens == cut.state.costs.padded_tokens
    assert whole.state.costs.padded_tokens > whole.state.costs.tokens


def test_learning_rate_follows_the_schedule() -> None:
    wanted = [0.25, 0.75, *(0.9375 - 0.125 * i for i in range(8))]
    rates = [entry["lr"] for entry in Training(warmup=0.2, lr=1e-3).steps]
    assert rates == pytest.approx([1e-3 * rate for rate in wanted])


def test_exponential_schedule_falls_between_epochs() -> None:
    rates = [entry["lr"] for entry in Training(schedule="exponential", decay=0.5, warmup=0.0, lr=1e-3).steps]
    assert rates == pytest.approx([1e-3] * 5 + [5e-4] * 5)


def test_longer_last_epoch_counts_as_one() -> None:
    steps = [(epoch, partial(step, WINDOWS, np.arange(2))) for epoch in (0, 0, 0, 0, 1, 1, 1, 1, 1)]
    rates = [entry["lr"] for entry in Training(steps=steps, schedule="exponential", decay=0.5, warmup=0.0, lr=1e-3).steps]
    assert rates == pytest.approx([1e-3] * 4 + [5e-4] * 5)


def test_gradients_are_clipped() -> None:
    """Use plain gradient descent: a step's length is the rate times the norm of the clipped gradient."""
    tiny = model()
    before = copy_weights(tiny)
    log: list[dict[str, Any]] = []
    options, optimizer = TrainOptions(lr=0.5, warmup=0.0, clip=0.01), torch.optim.SGD(tiny.parameters(), lr=1.0)
    fit(
        Optimisation(tiny, {"main": Loss([SpanLoss()])}, optimizer, options, torch.float32),
        [(0, partial(step, WINDOWS, np.arange(8)))],
        Evaluations(lambda model: Evaluation(0, {}), at=set()),
        InMemory(log, []),
        Silent(),
    )
    after = copy_weights(tiny)
    way = sum(float((after[name] - before[name]).square().sum()) for name in before) ** 0.5
    assert log[0]["norm"] > 0.1, "the recorded norm is the one before clipping"
    assert way == pytest.approx(0.01 * log[0]["lr"], rel=1e-3)


def test_loss_that_is_not_finite_raises_with_step_and_windows() -> None:
    broken = model()
    two = partial(step, WINDOWS, np.array([7, 3]))

    def break_it() -> Step:
        with torch.no_grad():
            broken.get_parameter("tasks.main.head.bias").fill_(float("nan"))
        return two()

    problem = re.escape("step 2: the loss is nan in windows 7, 3. Fix: lower train.lr")
    with pytest.raises(LaminaError, match=f"{problem}.*; then delete the run folder, and train again"):
        Training(steps=[(0, two), (0, break_it), (0, two)], start=broken)


def test_gradient_that_is_not_finite_raises_before_the_update() -> None:
    tiny = model()
    weight = tiny.get_parameter("tasks.main.head.weight")
    weight.register_hook(lambda gradient: gradient * float("inf"))
    before = copy_weights(tiny)
    with pytest.raises(LaminaError, match=r"step 1: the norm of the gradient is \w+ in windows 0, 1, 2, 3"):
        Training(start=tiny)
    assert same(copy_weights(tiny), before)


def test_patience_stops_after_evaluations_without_a_gain() -> None:
    training = Training(scores=[5, 7, 7, 6, 9, 9, 9], evaluate_at=set(range(1, 11)), patience=2, keep="best")
    assert training.state.step == 4, "an equal score is no gain"
    assert training.state.stopped
    assert training.saved[-1] == 4
    assert (training.state.best_step, training.state.best_score) == (2, 7)
    assert same(training.weights, training.seen[1])


def test_fit_keeps_the_best_or_the_last_weights() -> None:
    scores = [1.0, 4.0, 2.0, 4.0, 3.0]
    at = {2, 4, 6, 8, 10}
    best = Training(scores=scores, evaluate_at=at, keep="best")
    assert same(best.weights, best.seen[1])
    assert not same(best.weights, best.seen[-1])
    last = Training(scores=scores, evaluate_at=at, keep="last")
    assert same(last.weights, last.seen[-1])
    assert last.state.best == {}, "best weights are not stored"
    assert last.state.best_step == 4


def test_fit_without_evaluation_keeps_the_last_weights() -> None:
    assert same(Training(keep="best").weights, Training(keep="last").weights)


def test_checkpoint_minutes_0_saves_after_every_step() -> None:
    assert Training(checkpoint_minutes=0).saved == list(range(1, 11))


def test_bfloat16_is_close_to_float32(plain: Training) -> None:
    half = Training(precision=torch.bfloat16)
    assert half.steps[0]["loss"] != plain.steps[0]["loss"]
    assert half.steps[0]["loss"] == pytest.approx(plain.steps[0]["loss"], rel=0.02)
    assert all(weight.dtype == torch.float32 for weight in half.weights.values())


# Ctrl-C


def test_ctrl_c_finishes_the_step_and_saves() -> None:
    saved: list[int] = []
    handler = signal.getsignal(signal.SIGINT)

    def steps() -> Iterator[tuple[int, Callable[[], Step]]]:
        for number, (epoch, rows) in enumerate(ROWS):
            yield epoch, partial(interrupting if number == 3 else step, WINDOWS, rows)

    def interrupting(made: Windows, rows: Longs) -> Step:
        os.kill(os.getpid(), signal.SIGINT)
        return step(made, rows)

    with pytest.raises(KeyboardInterrupt):
        Training(steps=list(steps()), saved=saved)
    assert saved == [4]
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_second_ctrl_c_stops_at_once() -> None:
    saved: list[int] = []

    def impatient(made: Windows, rows: Longs) -> Step:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the second Ctrl-C was ignored")

    with pytest.raises(KeyboardInterrupt):
        Training(steps=[(0, partial(impatient, WINDOWS, ROWS[0][1]))], saved=saved)
    assert saved == []


def test_other_threads_do_not_handle_signals() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(Training).result().state.step == 10
