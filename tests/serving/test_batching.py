"""The queue forms batches across requests, in turn, and drops what nobody waits for."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.serving.batching import Batcher, ClosedError, FullError
from lamina.serving.metrics import Metrics
from lamina.utils.progress import Progress


@dataclass(eq=False)
class Doubles:
    """A lane that doubles numbers. It waits for `gate` first, and records its batches."""

    gate: threading.Event = field(default_factory=threading.Event)
    batches: list[list[Any]] = field(default_factory=list)
    dropped: bool = False

    def run(self, items: Sequence[Any], progress: Progress) -> Sequence[Any]:
        self.batches.append(list(items))
        self.gate.wait(10)
        if "bad" in items:
            raise ValueError("bad")
        try:
            progress.advance(1)
        except Exception:
            self.dropped = True
            raise
        return [2 * item for item in items]


def opened() -> Doubles:
    lane = Doubles()
    lane.gate.set()
    return lane


def batcher(budget: int = 100, waiting: int = 50, company: float = 0.01) -> Batcher:
    return Batcher(budget, waiting, company, Metrics())


@given(st.lists(st.lists(st.integers(), max_size=6), max_size=8), st.integers(1, 12))
@settings(max_examples=40)
def test_every_job_gets_its_own_results(jobs: list[list[int]], budget: int) -> None:
    async def check() -> None:
        queue, lane = batcher(budget, company=0.0), opened()
        found = await asyncio.gather(*(queue.submit(lane, job, [3] * len(job), 30) for job in jobs))
        assert found == [[2 * item for item in job] for job in jobs]
        assert all(len(batch) <= max(1, budget // 3) for batch in lane.batches)
        await queue.close()

    asyncio.run(check())


def test_jobs_that_wait_are_computed_together_in_turn() -> None:
    async def check() -> None:
        queue, lane = batcher(budget=6), Doubles()
        first = asyncio.create_task(queue.submit(lane, [0], [1], 30))
        while not lane.batches:
            await asyncio.sleep(0.001)
        large = asyncio.create_task(queue.submit(lane, [1, 2, 3, 4, 5, 6], [1] * 6, 30))
        small = asyncio.create_task(queue.submit(lane, [10], [1], 30))
        await asyncio.sleep(0.01)
        lane.gate.set()
        await asyncio.gather(first, large, small)
        assert lane.batches == [[0], [1, 2, 3, 4, 5, 10], [6]]
        await queue.close()

    asyncio.run(check())


def test_two_batches_are_computed_at_once() -> None:
    async def check() -> None:
        queue, lane = Batcher(2, 50, 0.01, Metrics(), at_once=2), Doubles()
        jobs = [asyncio.create_task(queue.submit(lane, [n, n], [1, 1], 30)) for n in range(3)]
        until = time.monotonic() + 30
        while len(lane.batches) < 2:
            assert time.monotonic() < until
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        assert len(lane.batches) == 2, "the third batch waits for one of them"
        lane.gate.set()
        assert await asyncio.gather(*jobs) == [[2 * n, 2 * n] for n in range(3)]
        await queue.close()

    asyncio.run(check())


def test_lanes_are_not_mixed() -> None:
    async def check() -> None:
        queue, one, two = batcher(), opened(), opened()
        await asyncio.gather(*(queue.submit(lane, [n], [1], 30) for n in range(4) for lane in (one, two)))
        assert sum(map(len, one.batches)) == sum(map(len, two.batches)) == 4
        await queue.close()

    asyncio.run(check())


def test_a_large_job_does_not_starve_other_lanes() -> None:
    async def check() -> None:
        queue, large, small = batcher(budget=2), Doubles(), Doubles()
        order = list[Doubles]()
        for lane in (large, small):
            _record(lane, order)
        jobs = [asyncio.create_task(queue.submit(large, list(range(20)), [1] * 20, 30))]
        while not large.batches:
            await asyncio.sleep(0.001)
        jobs += [asyncio.create_task(queue.submit(small, [1] * 4, [1] * 4, 30)) for _ in range(2)]
        await asyncio.sleep(0.01)
        large.gate.set()
        small.gate.set()
        await asyncio.gather(*jobs)
        assert order[:8] == [large, small, large, small, large, small, large, small], "lanes take turns"
        assert order[8:] == [large] * 6
        await queue.close()

    asyncio.run(check())


def test_jobs_of_a_lane_take_turns_if_a_batch_is_too_small_for_all() -> None:
    async def check() -> None:
        queue, lane, other = batcher(budget=2), Doubles(), opened()
        order = list[Doubles]()
        for one in (lane, other):
            _record(one, order)
        first = asyncio.create_task(queue.submit(lane, [0], [1], 30))
        while not lane.batches:
            await asyncio.sleep(0.001)
        jobs = [asyncio.create_task(queue.submit(lane, [n] * 4, [2] * 4, 30)) for n in (1, 2, 3)]
        await asyncio.sleep(0.01)
        jobs.append(asyncio.create_task(queue.submit(other, [4], [1], 30)))
        await asyncio.sleep(0.01)
        lane.gate.set()
        await asyncio.gather(first, *jobs)
        assert lane.batches == [[0], *([[1], [2], [3]] * 4)]
        assert order.index(other) <= 4, "the other lane waits for one batch of each job before it"
        await queue.close()

    asyncio.run(check())


def _record(lane: Doubles, order: list[Doubles]) -> None:
    """Append the lane to a list before each of its batches."""
    run = lane.run

    def recorded(items: Sequence[Any], progress: Progress) -> Sequence[Any]:
        order.append(lane)
        return run(items, progress)

    lane.run = recorded  # type: ignore[method-assign]


def test_a_bad_job_does_not_harm_the_others() -> None:
    async def check() -> None:
        queue, lane = batcher(), Doubles()
        first = asyncio.create_task(queue.submit(lane, [0], [1], 30))
        while not lane.batches:
            await asyncio.sleep(0.001)
        jobs = [asyncio.create_task(queue.submit(lane, [item], [1], 30)) for item in (1, "bad", 2)]
        await asyncio.sleep(0.01)
        lane.gate.set()
        found = await asyncio.gather(first, *jobs, return_exceptions=True)
        assert found[:2] == [[0], [2]] and isinstance(found[2], ValueError) and found[3] == [4]
        await queue.close()

    asyncio.run(check())


def test_a_full_queue_refuses_and_says_when_to_try_again() -> None:
    async def check() -> None:
        queue, lane = batcher(waiting=2), Doubles()
        jobs = [asyncio.create_task(queue.submit(lane, [n], [10**9], 30)) for n in range(2)]
        await asyncio.sleep(0.01)
        with pytest.raises(FullError) as refused:
            await queue.submit(lane, [3], [1], 30)
        assert 1 <= refused.value.seconds <= 60
        lane.gate.set()
        assert await asyncio.gather(*jobs) == [[0], [2]]
        await queue.close()

    asyncio.run(check())


def test_work_is_dropped_when_its_time_is_over() -> None:
    async def check() -> None:
        queue, lane = batcher(), Doubles()
        with pytest.raises(TimeoutError):
            await queue.submit(lane, [1, 2], [60, 60], 0.05)
        assert queue.open == 0
        lane.gate.set()
        assert await queue.submit(lane, [5], [1], 30) == [10]
        assert lane.dropped
        assert [2] not in lane.batches, "the second item was not computed"
        await queue.close()

    asyncio.run(check())


def test_a_lone_job_does_not_wait_for_company() -> None:
    async def check() -> None:
        queue, lane = batcher(company=5.0), opened()
        began = time.monotonic()
        for _ in range(3):
            await queue.submit(lane, [1], [1], 30)
        assert time.monotonic() - began < 5.0, "one client alone never waits for the 5 seconds"
        await queue.close()

    asyncio.run(check())


def test_after_company_the_queue_waits_for_as_many_again() -> None:
    async def check() -> None:
        queue, lane = batcher(company=5.0), Doubles()
        first = asyncio.create_task(queue.submit(lane, [0], [1], 30))
        while not lane.batches:
            await asyncio.sleep(0.001)
        pair = [asyncio.create_task(queue.submit(lane, [n], [1], 30)) for n in (1, 2)]
        await asyncio.sleep(0.01)
        lane.gate.set()
        await asyncio.gather(first, *pair)
        third = asyncio.create_task(queue.submit(lane, [3], [1], 30))
        await asyncio.sleep(0.05)
        assert lane.batches[-1] == [1, 2]
        await asyncio.gather(third, queue.submit(lane, [4], [1], 30))
        assert lane.batches[-1] == [3, 4]
        await queue.close()

    asyncio.run(check())


def test_closing_finishes_what_was_accepted() -> None:
    async def check() -> None:
        queue, lane = batcher(), Doubles()
        job = asyncio.create_task(queue.submit(lane, [1], [1], 30))
        await asyncio.sleep(0.01)
        closing = asyncio.create_task(queue.close())
        await asyncio.sleep(0.01)
        with pytest.raises(ClosedError):
            await queue.submit(lane, [2], [1], 30)
        lane.gate.set()
        assert await job == [2]
        await closing

    asyncio.run(check())
