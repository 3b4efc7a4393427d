"""Run whole batches in parallel on a CPU, one thread each, instead of splitting every operation among all threads.

Torch splits an operation into one piece per thread and waits for the slowest piece, about a hundred times a batch. Batches
with one thread each do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Yield `function(item)` for each item in order, computed by as many workers as torch has threads.

    The workers share torch's threads. Set torch modes that belong to a thread (inference mode, autocast) inside `function`.
    While the workers run, new threads elsewhere start with a worker's number of threads, because torch keeps one default.
    """
    threads = torch.get_num_threads()
    workers = min(threads, len(items))
    if workers < 2:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(workers, "lamina", torch.set_num_threads, (threads // workers,))
    try:
        yield from pool.map(function, items)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # workers also change the default of new threads


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread within the block."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
