"""The code that fine-tuning and pretraining share around their forward and backward passes.

`StepLoop` iterates over the remaining steps: it times them, records them, saves checkpoints and handles signals to stop.
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

from lamina.training.processes import ALONE, Group
from lamina.training.recording import Recording
from lamina.utils.memory import return_memory
from lamina.utils.progress import Progress
from lamina.utils.signals import Stopped, leave_closed_terminal, stops_handled

S = TypeVar("S")
PlannedStep = tuple[int, Callable[[], S]]  # its epoch, and the function that makes its micro-batches

RETURN_SECONDS = 30.0  # between two returns of freed memory; each costs the next step up to half a second


class StepLoop(Generic[S]):
    """``with StepLoop(...) as loop``: iterate over (epoch, micro-batches) and call `finish` once a step.

    It starts at ``recorder.state.step`` and ends early if ``recorder.state.stopped`` is set. It saves a checkpoint every
    `minutes` and at the end, and returns freed memory to the system. After Ctrl-C, SIGTERM or SIGHUP it finishes the step,
    saves a checkpoint and raises `Stopped`, which is a KeyboardInterrupt. All processes of a group stop after the same step.
    """

    def __init__(
        self,
        label: str,
        steps: Sequence[PlannedStep[S]],
        recorder: Recording,
        progress: Progress,
        *,
        minutes: float,
        group: Group = ALONE,
    ) -> None:
        self._label, self._steps, self._minutes = label, steps, minutes
        self._recorder, self._progress, self._group = recorder, progress, group
        self._open = ExitStack()
        self._began = 0.0
        self._returned_at = time.monotonic()

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
            del step
            if time.monotonic() - self._returned_at > RETURN_SECONDS:
                return_memory()
                self._returned_at = time.monotonic()
            asked = next((one for one in self._group.gathered(self._interrupted()) if one is not None), None)
            ended = state.stopped or state.step == len(self._steps)
            if asked is not None or ended or time.monotonic() - saved_at > 60 * self._minutes:
                self._recorder.save()
                saved_at = time.monotonic()
            if asked is not None:
                self._group.gathered(None)  # the first process has saved the checkpoint
                raise Stopped(asked)

    def finish(self, epoch: int, loss: float, entry: Mapping[str, object]) -> None:
        """Count the step and record it; the progress line shows its loss."""
        state = self._recorder.state
        state.step += 1
        state.costs.train_seconds += time.monotonic() - self._began
        self._recorder.record({"step": state.step, "epoch": epoch, **entry})
        self._progress.advance(1, f"loss {loss:.3f}, {state.costs.tokens / state.costs.train_seconds:.0f} tokens/s")


@contextmanager
def _interruptible() -> Iterator[Callable[[], int | None]]:
    """Yield a function that returns the number of the signal that asked to stop, or None; a second Ctrl-C stops at once."""
    asked: int | None = None

    def ask(number: int, frame: object) -> None:
        nonlocal asked
        leave_closed_terminal()
        if asked is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked = asked or number

    with stops_handled(ask):
        yield lambda: asked


def update_weights(optimizer: torch.optim.Optimizer, share: float, peak: float) -> None:
    """Take an optimiser step at `share` of the highest learning rate, then clear the gradients.

    A parameter group can have its own highest rate under the key ``peak``; `peak` is the default.
    """
    for group in optimizer.param_groups:
        group["lr"] = share * group.get("peak", peak)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def seed_of(*numbers: int) -> int:
    """Return one seed for (seed, epoch, step, micro-batch).

    Evaluation does not change it, and a resumed run needs no generator state.
    """
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def autocast(device: torch.device, precision: torch.dtype) -> AbstractContextManager[object]:
    return nullcontext() if precision == torch.float32 else torch.autocast(device.type, precision)


def epochs_of(of_steps: Sequence[int]) -> float:
    """Return the number of epochs, from the epoch of each step. The last counts by its share of the others' mean length.

    Each epoch packs its windows anew, so lengths differ by a few steps. A last epoch that is longer still counts as one.

    >>> epochs_of([0, 0, 1, 1, 2]), epochs_of([0, 0, 1, 1, 1]), epochs_of([])
    (2.5, 2.0, 0.0)
    """
    if not of_steps:
        return 0.0
    *whole, last = Counter(of_steps).values()
    return len(whole) + min(1.0, last * len(whole) / sum(whole)) if whole else 1.0
