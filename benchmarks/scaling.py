"""Measure how answering grows with workers, and what Ray costs, with one thread a worker and the reader in the package.

- two-workers: questions a second of two processes against one
- ray: questions a second of one worker of Ray, with tasks of 100 questions, against one process; 1 minus it is the overhead

It also prints the constants of docs/scale.md: empty tasks of Ray a second, and the seconds until a worker has loaded the model.

    python benchmarks/scaling.py
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing import get_context
from multiprocessing.connection import Connection

from common import Rates, find_data, parser, print_ratio, print_table, read_examples, take_turns
from lamina.data.examples import Example
from lamina.reader.distributed import Answerer
from lamina.utils.spreading import Workers, connected

WARM_UP = 8  # questions
TASK = 100  # questions of a task of Ray; a shard has more
EMPTY = 200  # tasks that do nothing


def main() -> None:
    arguments = parser(__doc__ or "", questions=200, data=["squad2-dev-cs224n"], repeats=3).parse_args()
    find_data()
    examples = read_examples(arguments.data, arguments.questions)[: arguments.questions]
    with ExitStack() as stack:
        began = time.perf_counter()
        workers = [stack.enter_context(Worker()) for _ in range(2)]
        for worker in workers:
            worker.send(examples[:WARM_UP])
        for worker in workers:
            worker.receive()
        loaded = time.perf_counter() - began
        stack.enter_context(connected(None, 1))
        began = time.perf_counter()
        on_ray(examples[:WARM_UP])
        first_task = time.perf_counter() - began
        sides = {
            "workers-1": lambda number: rate(workers[:1], examples),
            "workers-2": lambda number: rate(workers, examples),
            "ray-1": lambda number: on_ray(examples),
        }
        rates: Rates = take_turns(sides, arguments.repeats)
        rates["empty-tasks"] = [empty_tasks() for _ in range(arguments.repeats)]
    print_table(rates, "questions or tasks a second")
    print(f"two workers ready after {loaded:.1f} s, the first task of Ray after {first_task:.1f} s")
    print_ratio("two-workers", rates, "workers-2", "workers-1")
    print_ratio("ray", rates, "ray-1", "workers-1")


class Worker:
    """A process that answers the questions that it is sent."""

    def __enter__(self) -> Worker:
        context = get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=work, args=(other,), daemon=True)
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()

    def send(self, examples: Sequence[Example]) -> None:
        self._pipe.send(list(examples))

    def receive(self) -> int:
        """Wait for the answers and return their number."""
        return int(self._pipe.recv())


def work(pipe: Connection) -> None:
    while True:
        pipe.send(len(Answerer().answers(pipe.recv())["id"]))


def rate(workers: Sequence[Worker], examples: Sequence[Example]) -> float:
    """Return the questions a second of workers that share the questions in turns."""
    began = time.perf_counter()
    for number, worker in enumerate(workers):
        worker.send(examples[number :: len(workers)])
    answered = sum(worker.receive() for worker in workers)
    return answered / (time.perf_counter() - began)


def answered(examples: Sequence[Example]) -> int:
    """Return the number of answers; a task of Ray."""
    return len(Answerer().answers(examples)["id"])


def on_ray(examples: Sequence[Example]) -> float:
    tasks = [tuple(examples[start : start + TASK]) for start in range(0, len(examples), TASK)]
    began = time.perf_counter()
    for _, found in Workers("ray", 1).spread(answered, tasks):
        assert isinstance(found, int), found
    return len(examples) / (time.perf_counter() - began)


def empty_tasks() -> float:
    """Return the tasks a second that do nothing."""
    began = time.perf_counter()
    for _ in Workers("ray").spread(nothing, range(EMPTY)):
        pass
    return EMPTY / (time.perf_counter() - began)


def nothing(number: int) -> None:
    """Do nothing."""


if __name__ == "__main__":
    main()
