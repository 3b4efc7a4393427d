"""Simulate how long a corpus takes with many workers, with slow machines and lost ones: the model behind docs/scale.md.

A driver hands out shards, one after the other, each to the next free worker. The time of a shard is that of its questions,
times a factor of the shard (lognormal) and one of its worker: some are slow. A worker is lost after an exponential time.
Its shard begins again on the next free worker, and the worker is back after a while.

    python scripts/scale_simulation.py --questions 1e9 --shard 1000 --seconds 0.05 --workers 1 2 100 1000 10000
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """What is simulated. Times are in seconds."""

    questions: float = 1e9
    shard: int = 1000  # questions
    seconds: float = 0.05  # of a question on a usual worker
    load: float = 15.0  # until a worker has loaded the model
    dispatch: float = 0.001  # of the driver for each shard: it hands out one at a time
    spread: float = 0.1  # deviation of the logarithm of a shard's time
    slow_share: float = 0.02  # of the workers
    slow_factor: float = 3.0
    lost_after: float = 7 * 24 * 3600.0  # mean time until a worker is lost; 0 for never
    back_after: float = 300.0  # until a lost worker is back
    seed: int = 0


@dataclass(frozen=True)
class Outcome:
    """What a simulation gives: its time, the time of all work that counts, that of lost work, and the lost workers."""

    seconds: float
    busy: float
    wasted: float
    lost: int

    def efficiency(self, setting: Setting, workers: int) -> float:
        """Return the time of the work on one usual worker over the time that all workers were paid for."""
        return setting.questions * setting.seconds / (workers * self.seconds)


def simulate(setting: Setting, workers: int) -> Outcome:
    """Return how long some workers take."""
    random_ = random.Random(setting.seed)
    left = max(1, round(setting.questions / setting.shard))
    factors = [setting.slow_factor if random_.random() < setting.slow_share else 1.0 for _ in range(workers)]
    ends = [_life(setting, random_) for _ in range(workers)]  # when each worker is lost
    free = [(setting.load, worker) for worker in range(workers)]
    heapq.heapify(free)
    driver, last, busy, wasted, lost = 0.0, 0.0, 0.0, 0.0, 0
    returning: list[float] = []  # when the shards of lost workers can be handed out again
    while left or returning:
        now, worker = heapq.heappop(free)
        while returning and returning[0] <= now:
            heapq.heappop(returning)
            left += 1
        if not left:  # only shards that will be lost are left: wait for them
            heapq.heappush(free, (returning[0], worker))
            continue
        driver = max(driver, now) + setting.dispatch
        took = setting.shard * setting.seconds * factors[worker] * math.exp(random_.gauss(0, setting.spread))
        left -= 1
        if driver + took < ends[worker]:
            last, busy = max(last, driver + took), busy + took
            heapq.heappush(free, (driver + took, worker))
            continue
        moment = max(driver, ends[worker])
        wasted, lost = wasted + moment - driver, lost + 1
        heapq.heappush(returning, moment)
        back = moment + setting.back_after
        ends[worker] = back + _life(setting, random_)
        heapq.heappush(free, (back + setting.load, worker))
    return Outcome(last, busy, wasted, lost)


def _life(setting: Setting, random_: random.Random) -> float:
    return random_.expovariate(1 / setting.lost_after) if setting.lost_after else math.inf


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, default in vars(Setting()).items():
        options.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default, help="default %(default)s")
    options.add_argument("--workers", type=int, nargs="+", default=[1, 2, 10, 100, 1000, 10_000], help="numbers of workers")
    given = vars(options.parse_args())
    counts = given.pop("workers")
    setting = Setting(**given)
    print(f"{'workers':>8}  {'hours':>12}  {'efficiency':>10}  {'lost':>8}  {'wasted hours':>12}")
    for workers in counts:
        found = simulate(setting, workers)
        share = found.efficiency(setting, workers)
        print(f"{workers:8,}  {found.seconds / 3600:12,.2f}  {share:10.3f}  {found.lost:8,}  {found.wasted / 3600:12,.1f}")


if __name__ == "__main__":
    main()
