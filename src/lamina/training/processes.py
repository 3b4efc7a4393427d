"""The processes that train one model together, such as those that `torchrun` starts.

Each process computes some micro-batches of every step. Then all of them add their gradients, and take the same step. Only the
first process writes the run folder. The code of a training asks a `Group`; `ALONE` is the group of a single process.

A sum has one order: each process adds a slice of the gradient in the order of the processes, then all slices are shared. So
the sum has the same bits in every process and in every repetition.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from lamina.config.recipe import Recipe
from lamina.errors import LaminaError, LaminaWarning
from lamina.model import Model
from lamina.utils.signals import exit_code

T = TypeVar("T")

PATIENCE: Final = timedelta(days=30)  # others wait while one evaluates; a process that ends closes its connections at once
STARTED: Final = frozenset(("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))  # variables that torchrun sets
_JOINS = itertools.count()  # all processes join equally often


class Group(Protocol):
    """The processes of one training. All of them call each method, in the same order."""

    number: int  # of this process, from 0
    size: int

    @property
    def first(self) -> bool:
        """Whether this process writes the run folder and shows the progress."""
        ...

    def device(self, chosen: torch.device) -> torch.device:
        """Return the device of this process: the GPUs of a machine are shared out."""
        ...

    def once(self, work: Callable[[], T]) -> T:
        """Call `work` in the first process only, and return its result in every process."""
        ...

    def in_turn(self, work: Callable[[], T]) -> T:
        """Call `work` in one process of each machine, then in the others, which find on the disk what it stored."""
        ...

    def gathered(self, value: T) -> list[T]:
        """Return the values of all processes, in the order of the processes."""
        ...

    def add_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Set the gradient of each parameter to its sum over all processes; None if no process has one."""
        ...


class OneProcess:
    """The group of a single process."""

    number = 0
    size = 1
    first = True

    def device(self, chosen: torch.device) -> torch.device:
        return chosen

    def once(self, work: Callable[[], T]) -> T:
        return work()

    def in_turn(self, work: Callable[[], T]) -> T:
        return work()

    def gathered(self, value: T) -> list[T]:
        return [value]

    def add_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Do nothing: the gradients are whole."""


ALONE: Final[Group] = OneProcess()


class Processes:
    """The group of the processes of `torch.distributed`."""

    def __init__(self) -> None:
        self.number, self.size = dist.get_rank(), dist.get_world_size()
        self._place = int(os.environ.get("LOCAL_RANK", self.number))  # on its machine
        self._here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # processes of its machine

    @property
    def first(self) -> bool:
        return self.number == 0

    def device(self, chosen: torch.device) -> torch.device:
        if chosen.type != "cuda" or chosen.index is not None:
            return chosen
        if self._here > (found := torch.cuda.device_count()):
            what = f"this machine has {found} GPUs, but {self._here} processes train on it"
            raise LaminaError(f'processes: {what}. Fix: start one process for each GPU, or set train.device = "cpu"')
        return torch.device("cuda", self._place)

    def once(self, work: Callable[[], T]) -> T:
        found = self._with_all_threads(work) if self.first else None
        result: Any = self.gathered(found)[0]
        return result  # type: ignore[no-any-return]

    def in_turn(self, work: Callable[[], T]) -> T:
        if self._place == 0:
            result = self._with_all_threads(work)
            self.gathered(None)
            return result
        self.gathered(None)
        return work()

    def gathered(self, value: T) -> list[T]:
        values: list[Any] = [None] * self.size
        with _complete():
            dist.all_gather_object(values, value)
        return values

    def add_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]
        used = gradients[0].new_tensor([one.grad is not None for one in parameters])
        total = self._sum(torch.cat([*(one.flatten() for one in gradients), used]))
        parts = total.split([*(one.numel() for one in gradients), len(used)])
        for parameter, part, number in zip(parameters, parts, parts[-1].tolist(), strict=False):
            parameter.grad = part.view_as(parameter) if number else None

    def _sum(self, values: Tensor) -> Tensor:
        """Return the sum of all processes' values, [n], added in the order of the processes."""
        width = -(-len(values) // self.size)
        own = torch.cat([values, values.new_zeros(self.size * width - len(values))])
        theirs = torch.empty_like(own)  # [size * width] a slice of this width from each process
        with _complete():
            dist.all_to_all_single(theirs, own)
            total, *others = theirs.split(width)
            for other in others:
                total += other
            dist.all_gather(list(own.split(width)), total)
        return own[: len(values)]

    def _with_all_threads(self, work: Callable[[], T]) -> T:
        """Call `work` with the threads of all processes of this machine, which wait meanwhile."""
        threads = torch.get_num_threads()
        torch.set_num_threads(threads * self._here)
        try:
            return work()
        finally:
            torch.set_num_threads(threads)


@contextmanager
def joined() -> Iterator[Group]:
    """Yield the group of this process: `ALONE`, or that of the processes which `torchrun` has started.

    If several processes fail, only the first of them raises its error. The others end with its exit code. So one line tells
    what happened.
    """
    if not os.environ.keys() >= STARTED or os.environ["WORLD_SIZE"] == "1":
        yield ALONE
    elif dist.is_initialized():
        yield Processes()
    else:
        store, number, size = next(iter(rendezvous("env://")))
        store = PrefixStore(f"lamina/{next(_JOINS)}", store)  # torchrun's store keeps what earlier trainings wrote
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=store, rank=number, world_size=size, timeout=PATIENCE)
        try:
            with warnings.catch_warnings():
                if number:
                    warnings.simplefilter("ignore", LaminaWarning)  # the first process warns
                yield Processes()
        except (LaminaError, KeyboardInterrupt) as error:
            if not _fails_first(store):
                raise SystemExit(2 if isinstance(error, LaminaError) else exit_code(error)) from None
            raise
        finally:
            dist.destroy_process_group()


def _fails_first(store: Any) -> bool:
    """Return whether no other process has called this before."""
    try:
        return int(store.add("failed", 1)) == 1
    except RuntimeError:  # the process that keeps the store has ended
        return True


@contextmanager
def _complete() -> Iterator[None]:
    """Raise LaminaError if another process ends while this one waits for it."""
    try:
        yield
    except RuntimeError as error:
        what = "another process of this training has ended"
        raise LaminaError(f"processes: {what}. Fix: see its message, then run the command again, with --resume") from error


def merged(group: Group, own: Mapping[int, T]) -> dict[int, T]:
    """Return the values of the micro-batches of all processes, by the number of the micro-batch."""
    together = {number: value for values in group.gathered(dict(own)) for number, value in values.items()}
    return dict(sorted(together.items()))


def check_same(group: Group, facts: Mapping[str, object]) -> None:
    """Raise LaminaError if the processes have different facts, such as the checksum of their training texts."""
    first, *others = group.gathered(dict(facts))
    for number, theirs in enumerate(others, 1):
        for what, value in first.items():
            if theirs[what] != value:
                raise LaminaError(
                    f"processes: {what} of process {number} differs from that of process 0. "
                    "Fix: give all machines the same files and versions, and a run folder that they share"
                )


def check_divisible(group: Group, recipe: Recipe, model: Model) -> None:
    """Raise LaminaError if several processes cannot train this recipe with the result of one process."""
    if group.size == 1:
        return
    smart = [task.terms.smart for task in recipe.tasks.values() if task.terms.smart is not None]
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm1d)]
    for found, where, what, fix in (
        (recipe.train.minutes, "train.minutes", "measures the speed of one process only", "set train.epochs"),
        (any(one.weight and one.bregman for one in smart), "terms.smart.bregman", "does not work", "set it to 0"),
        (norms, "mixer", "has batch norms, whose statistics each process would have alone", "choose another mixer"),
    ):
        if found:
            raise LaminaError(f"{where}: with several processes, it {what}. Fix: {fix}, or train with one process")
