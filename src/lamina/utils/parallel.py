"""Batches side by side on a CPU: each in a thread of its own, instead of every operation cut among all threads.

Torch cuts an operation into as many pieces as it has threads and waits for the slowest of them, a hundred times a batch.
Batches that run beside each other on one thread each wait for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """As the builtin `map`, on as many workers as torch has threads; these are shared out among the workers.

    Modes of torch that belong to a thread (inference mode, autocast) must be set inside `function`. While the workers
    run, threads of others that meet torch for the first time begin with a worker's number of threads: torch keeps one
    number for all of them.
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
        torch.set_num_threads(threads)  # a worker's number is also what threads made later begin with
