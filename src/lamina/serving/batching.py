"""One queue for all requests: items of different requests are computed together, up to a number of tokens.

A request is a job of several items, such as a question with each of its texts. Items of the same lane (a model and a way to
use it) form a batch, in turn from each waiting job: a large job delays small ones by one batch at most. The lane of the job
that has been longest without a batch comes next, so a large job does not hold up other lanes. Two batches may be
computed at once, so that no core waits for the end of a batch. A request waits for company only if others came with the one
before, and 10 ms at most.
A job whose client has gone or whose time is over is dropped, also during its computation.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from lamina.errors import LaminaError
from lamina.serving.metrics import Metrics
from lamina.utils.progress import Progress, Silent

_LONGEST_RETRY: Final = 60  # seconds


class FullError(Exception):
    """Too many requests wait. `seconds` is when to try again."""

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class ClosedError(Exception):
    """The service is shutting down."""


class Lane(Protocol):
    """How items are computed. Equal lanes are computed together."""

    def run(self, items: Sequence[Any], progress: Progress) -> Sequence[Any]:
        """Return one result for each item. Runs in the thread that computes."""
        ...


@dataclass(eq=False)
class _Job:
    lane: Lane
    items: Sequence[Any]
    costs: Sequence[int]
    future: asyncio.Future[list[Any]]
    arrived: float
    turn: int  # of the last batch with one of its items, or of the last batch before it arrived
    taken: int = 0
    left: int = field(init=False)  # tokens that no batch has yet
    results: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.left = sum(self.costs)

    @property
    def waits(self) -> bool:
        return not self.future.done() and self.taken < len(self.items)

    def take(self, turn: int) -> None:
        """Give the next item to the batch of this number."""
        self.left -= self.costs[self.taken]
        self.taken += 1
        self.turn = turn


@dataclass(frozen=True)
class _Part:
    """Items of one job in a batch, with the number of the first."""

    job: _Job
    first: int
    items: Sequence[Any]


class _DroppedError(Exception):
    """No job of a batch is wanted any more."""


class _Watch(Silent):
    """Progress that ends the computation as soon as no job of the batch is wanted."""

    def __init__(self, jobs: Sequence[_Job]) -> None:
        self._jobs = jobs

    def advance(self, amount: int, note: str = "") -> None:
        if all(job.future.done() for job in self._jobs):
            raise _DroppedError


class Batcher:
    """The queue and the threads that compute.

    Args:
        budget: Tokens of a batch. An item with more is a batch of its own.
        waiting: Jobs that may be open at once.
        company: Seconds that a job waits at most for others.
        metrics: Where batches are counted.
        at_once: Batches that are computed at once.
    """

    def __init__(self, budget: int, waiting: int, company: float, metrics: Metrics, at_once: int = 1) -> None:
        self._budget, self._waiting, self._company, self._metrics = budget, waiting, company, metrics
        self._at_once = at_once
        self._open: list[_Job] = []  # in the order of their arrival
        self._arrived = asyncio.Event()
        self._turn = 0  # number of the last batch
        self._crowd = 0  # jobs of the last batch
        self._pace = 2_000.0  # tokens a second of one batch, measured
        self._threads = ThreadPoolExecutor(at_once, "lamina-compute")
        self._task: asyncio.Task[None] | None = None
        self._computing = set[asyncio.Task[None]]()
        self._closed = False

    @property
    def open(self) -> int:
        """The number of jobs that wait or are computed."""
        return len(self._open)

    async def submit(self, lane: Lane, items: Sequence[Any], costs: Sequence[int], seconds: float) -> list[Any]:
        """Return the results of a job, one for each item.

        Args:
            lane: How the items are computed.
            items: What to compute.
            costs: The tokens of each item, about.
            seconds: The time after which the job is dropped.

        Raises:
            FullError: Too many jobs are open.
            ClosedError: The queue was closed.
            TimeoutError: The time is over.
        """
        if self._closed:
            raise ClosedError
        if len(self._open) >= self._waiting:
            raise FullError(self._retry_after())
        if self._task is None:
            self._task = asyncio.create_task(self._serve(), name="lamina-batches")
        if not items:
            return []
        job = _Job(lane, items, costs, asyncio.get_running_loop().create_future(), time.monotonic(), self._turn)
        self._open.append(job)
        self._arrived.set()
        try:
            async with asyncio.timeout(seconds):
                return await job.future
        finally:
            job.future.cancel()
            self._open.remove(job)

    async def close(self) -> None:
        """Finish the open jobs and end the threads. New jobs are refused."""
        self._closed = True
        while self._open:
            await asyncio.sleep(0.01)
        for task in (self._task, *self._computing):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _retry_after(self) -> int:
        left = sum(job.left for job in self._open)
        return min(_LONGEST_RETRY, max(1, math.ceil(left / (self._at_once * self._pace))))

    async def _serve(self) -> None:
        while True:
            if len(self._computing) >= self._at_once:
                await asyncio.wait(self._computing, return_when=asyncio.FIRST_COMPLETED)
                continue
            self._arrived.clear()
            if not any(job.waits for job in self._open):
                await self._arrived.wait()
                await self._wait_for_company()
            if parts := self._take():
                self._crowd = len(parts)
                task = asyncio.create_task(self._compute(parts))
                self._computing.add(task)
                task.add_done_callback(self._computing.discard)

    async def _wait_for_company(self) -> None:
        """Wait until as many jobs wait as were computed last, or 10 ms after the first arrived."""
        waiting = [job for job in self._open if job.waits]
        until = min((job.arrived for job in waiting), default=0.0) + self._company
        while self._crowd > 1 and (rest := until - time.monotonic()) > 0:
            waiting = [job for job in self._open if job.waits]
            if len(waiting) >= self._crowd or sum(job.left for job in waiting) >= self._budget:
                return
            self._arrived.clear()
            try:
                async with asyncio.timeout(rest):
                    await self._arrived.wait()
            except TimeoutError:
                return

    def _take(self) -> list[_Part]:
        """Return the items of the next batch.

        Its lane is that of the job that has been longest without a batch. The jobs of the lane give one item each,
        turn by turn, the one that has been longest without a batch first.
        """
        waiting = sorted((job for job in self._open if job.waits), key=lambda job: (job.turn, job.taken))
        if not waiting:
            return []
        self._turn += 1
        jobs = [job for job in waiting if job.lane == waiting[0].lane]
        first = {job: job.taken for job in jobs}
        tokens = 0
        while any(job.waits for job in jobs):
            for job in (job for job in jobs if job.waits):
                cost = job.costs[job.taken]
                if tokens and tokens + cost > self._budget:
                    return _parts(first)
                job.take(self._turn)
                tokens += cost
        return _parts(first)

    async def _compute(self, parts: list[_Part]) -> None:
        """Compute a batch. If it fails, compute each job alone, so that one job cannot harm another."""
        jobs = [part.job for part in parts]
        items = [item for part in parts for item in part.items]
        tokens = sum(sum(part.job.costs[part.first : part.first + len(part.items)]) for part in parts)
        began = time.monotonic()
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._threads, jobs[0].lane.run, items, _Watch(jobs))
            _hand_out(parts, found)
        except _DroppedError:
            self._metrics.dropped.add(len(jobs))
            return
        except Exception as error:
            if len(parts) > 1:
                for part in parts:
                    await self._compute([part])
            elif not jobs[0].future.done():
                jobs[0].future.set_exception(_own(error))
            return
        seconds = max(1e-3, time.monotonic() - began)
        self._pace = 0.8 * self._pace + 0.2 * tokens / seconds
        self._metrics.batch(len(jobs), tokens, seconds)


def _own(error: Exception) -> Exception:
    """Return an error that a future may hold. A StopIteration would end a coroutine silently."""
    return RuntimeError(repr(error)) if isinstance(error, StopIteration) else error


def _parts(first: dict[_Job, int]) -> list[_Part]:
    return [_Part(job, begin, job.items[begin : job.taken]) for job, begin in first.items() if job.taken > begin]


def _hand_out(parts: Sequence[_Part], found: Sequence[Any]) -> None:
    """Give each job its results; a job with all of them is done."""
    if len(found) != sum(len(part.items) for part in parts):
        raise LaminaError("batch: the number of results is wrong. Fix: report this as a mistake of Lamina")
    position = 0
    for part in parts:
        for number in range(part.first, part.first + len(part.items)):
            part.job.results[number] = found[position]
            position += 1
        if len(part.job.results) == len(part.job.items) and not part.job.future.done():
            part.job.future.set_result([part.job.results[number] for number in range(len(part.job.items))])
