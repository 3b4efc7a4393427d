"""Provides what every training loop needs around its forward and backward passes. Fine-tuning and pretraining share it.

`StepLoop` goes through the steps that are left: it times them, records them, saves checkpoints and handles Ctrl-C.
The functions below it set the random seed, the precision and the learning rate of a step.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import TracebackType
from typing import Generic, TypeVar

import numpy as np
import torch

from lamina.training.recording import Recording
from lamina.utils.progress import Progress

S = TypeVar("S")
PlannedStep = tuple[int, Callable[[], S]]  # its epoch, and what makes its micro-batches


class StepLoop(Generic[S]):
    """``with StepLoop(...) as loop``: iterate over (epoch, micro-batches) and call `finish` once a step.

    It starts at ``recorder.state.step`` and ends early when something sets ``recorder.state.stopped``. It saves a checkpoint
    every `minutes` and at the end. Ctrl-C lets the step finish, saves and raises KeyboardInterrupt.
    """

    def __init__(
        self, label: str, steps: Sequence[PlannedStep[S]], recorder: Recording, progress: Progress, *, minutes: float
    ) -> None:
        self._label, self._steps, self._minutes = label, steps, minutes
        self._recorder, self._progress = recorder, progress
        self._open = ExitStack()
        self._began = 0.0

    def __enter__(self) -> StepLoop[S]:
        self._progress.start(self._label, len(self._steps), self._recorder.state.step)
        self._interrupted = self._open.enter_context(_interruptible())
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._open.close()

    def __iter__(self) -> Iterator[tuple[int, S]]:
        state = self._recorder.state
        saved_at = time.monotonic()
        while state.step < len(self._steps) and not state.stopped:
            epoch, make_step = self._steps[state.step]
            self._began = time.monotonic()
            step = make_step()
            state.costs.read_seconds += time.monotonic() - self._began
            yield epoch, step
            asked = self._interrupted()
            ended = state.stopped or state.step == len(self._steps)
            if asked or ended or time.monotonic() - saved_at > 60 * self._minutes:
                self._recorder.save()
                saved_at = time.monotonic()
            if asked:
                raise KeyboardInterrupt

    def finish(self, epoch: int, loss: float, entry: Mapping[str, object]) -> None:
        """Count the step and record it; the progress line shows its loss."""
        state = self._recorder.state
        state.step += 1
        state.costs.train_seconds += time.monotonic() - self._began
        self._recorder.record({"step": state.step, "epoch": epoch, **entry})
        self._progress.advance(1, f"loss {loss:.3f}, {state.costs.tokens / state.costs.train_seconds:.0f} tokens/s")


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether Ctrl-C was pressed; a second Ctrl-C stops at once."""
    asked = False

    def ask(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    try:
        previous = signal.signal(signal.SIGINT, ask)
    except ValueError:  # not the main thread: another part of the program handles Ctrl-C
        yield lambda: False
        return
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, previous)


def update_weights(optimizer: torch.optim.Optimizer, share: float, peak: float) -> None:
    """Take an optimiser step at `share` of the highest learning rate, then clear the gradients.

    A parameter group has its own highest rate under the key ``peak``; `peak` is that of the others.
    """
    for group in optimizer.param_groups:
        group["lr"] = share * group.get("peak", peak)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def seed_of(*numbers: int) -> int:
    """Return one seed for (seed, epoch, step, micro-batch): evaluation cannot change it, resuming needs no generator state."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def autocast(device: torch.device, precision: torch.dtype) -> AbstractContextManager[object]:
    return nullcontext() if precision == torch.float32 else torch.autocast(device.type, precision)


def epochs_of(of_steps: Sequence[int]) -> float:
    """Return how many epochs the steps make up, from the epoch of each; the last counts by its share of the others' length.

    Epochs differ by a few steps, because each packs its windows anew: a whole last one must not count as more than one.

    >>> epochs_of([0, 0, 1, 1, 2]), epochs_of([0, 0, 1, 1, 1])
    (2.5, 2.0)
    """
    *whole, last = Counter(of_steps).values()
    return len(whole) + min(1.0, last * len(whole) / sum(whole)) if whole else 1.0
