"""Call one function for many items: in this process, in several processes, or as tasks of Ray.

An item whose process was killed is tried again. So the function must not mind that it was interrupted: it writes its results
atomically. Ray (the extra `ray`) is imported only when it is used.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from typing import Any, Generic, Literal, TypeVar

from lamina.errors import LaminaError
from lamina.utils.extras import needs
from lamina.utils.processor import processors

EngineName = Literal["local", "ray"]
TRIES = 4  # how often an item is begun: its process may be killed that often
OBJECTS = 100 * 2**20  # bytes of memory for the objects of a cluster that is started here: only paths and counts go through it

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Lost:
    """The result of an item whose process was killed each time, or could not be started."""

    reason: str


@dataclass(frozen=True)
class Workers:
    """Which processes call the function, and how many at once.

    Attributes:
        engine: "local" for processes of this machine, "ray" for tasks of Ray.
        count: The most calls at once; None for one for each processor of the machine, or of the cluster.
        threads: The processors of each call.
        address: The address of a Ray cluster, "auto" for the one of this machine; None starts one for this call.
    """

    engine: EngineName = "local"
    count: int | None = None
    threads: int = 1
    address: str | None = None

    def spread(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[Item, Result | Lost]]:
        """Yield each item with the result of the function, as soon as it is known.

        An error of the function is raised here. The function and the items must be picklable, unless one local call runs
        at a time: then they stay in this process.
        """
        if self.engine == "ray":
            return _on_ray(function, items, self)
        count = self.count or max(1, processors() // self.threads)
        waiting = list(items)
        if min(count, len(waiting)) < 2:
            return ((item, function(item)) for item in waiting)
        return _in_processes(function, waiting, min(count, len(waiting)))


def _in_processes(
    function: Callable[[Item], Result], items: Sequence[Item], count: int
) -> Iterator[tuple[Item, Result | Lost]]:
    """Yield the items with their results. Items that were running when a process was killed are then tried alone."""
    left, begun = dict(enumerate(items)), [0] * len(items)
    while left:
        at_once = 1 if all(begun[number] for number in left) else count
        pool = ProcessPoolExecutor(at_once, get_context("spawn"), _end_with, (os.getpid(),))
        try:
            futures = {pool.submit(function, item): number for number, item in left.items()}
            for future in as_completed(futures):
                try:
                    result = future.result()
                except BrokenProcessPool:  # a process was killed, and the pool ended with it
                    continue
                yield left.pop(futures[future]), result
        finally:
            pool.shutdown(cancel_futures=True)
        for number in list(left)[:at_once]:  # a pool begins its items in this order
            item = left.pop(number)
            begun[number] += 1
            if begun[number] < TRIES:
                left[number] = item
            else:
                yield item, Lost(f"a process was killed {TRIES} times")


def _end_with(parent: int) -> None:
    """End this process when its parent has ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# Ray


@contextmanager
def connected(address: str | None, count: int | None = None) -> Iterator[Any]:
    """Connect to a Ray cluster and yield the module `ray`.

    Args:
        address: As for `Workers`. A connection that exists already is used, and stays.
        count: The processors of a cluster that is started here; None for all.

    Raises:
        LaminaError: Ray is not installed, or there is no cluster at the address.
    """
    with needs("--engine ray", "ray", extra="ray"):
        import ray
    if ray.is_initialized():
        yield ray
        return
    own: dict[str, Any] = {"num_cpus": count or processors(), "object_store_memory": OBJECTS, "include_dashboard": False}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster that is started here reports nothing
    try:
        ray.init(**({"address": address} if address else own), logging_level=logging.ERROR, log_to_driver=False)
    except Exception as error:  # Ray raises many types, also plain Exception
        reason = " ".join(str(error).split())[:200]
        where = f"--address {address}" if address else "--engine ray"
        fix = "name the address of a running cluster" if address else "try again when the machine is less busy"
        raise LaminaError(f"{where}: Ray cannot be reached ({reason}). Fix: {fix}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _on_ray(
    function: Callable[[Item], Result], items: Iterable[Item], workers: Workers
) -> Iterator[tuple[Item, Result | Lost]]:
    count = None if workers.count is None else workers.count * workers.threads
    with connected(workers.address, count) as ray:
        call = ray.remote(num_cpus=workers.threads, max_retries=TRIES - 1)(_call)
        kept = ray.put(_Kept(function))
        waiting, running = iter(items), dict[Any, Item]()
        while True:
            most = workers.count or 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))  # a task waits for each that runs
            running |= {call.remote(kept, item): item for item in islice(waiting, max(0, most - len(running)))}
            if not running:
                return
            for ended in ray.wait(list(running))[0]:
                item = running.pop(ended)
                try:
                    yield item, ray.get(ended)
                except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError, ray.exceptions.NodeDiedError):
                    yield item, Lost(f"a worker was killed {TRIES} times")


@dataclass(frozen=True)
class _Kept(Generic[Item, Result]):
    """A function in the object store, which each task reads from there."""

    function: Callable[[Item], Result]


def _call(kept: _Kept[Item, Result], item: Item) -> Result:
    return kept.function(item)
