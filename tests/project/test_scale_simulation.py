"""The simulation of many workers obeys what is known of it without a simulation."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from tests.checkout import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from scale_simulation import Setting, simulate

EVEN = Setting(
    questions=6000, shard=100, seconds=0.1, load=5, dispatch=0, spread=0, slow_share=0, lost_after=0
)  # 60 shards of 10 s


@pytest.mark.parametrize(("workers", "seconds"), [(1, 605), (2, 305), (7, 95), (60, 15), (100, 15)])
def test_even_shards_take_what_arithmetic_says(workers: int, seconds: float) -> None:
    found = simulate(EVEN, workers)
    assert found.seconds == pytest.approx(seconds) and found.busy == pytest.approx(600) and found.lost == 0


def test_the_driver_limits_many_workers() -> None:
    """One shard in 2 s: the last is handed out after 120 s, and takes 10 s."""
    assert simulate(replace(EVEN, dispatch=2, load=0), 60).seconds == pytest.approx(130)


def test_slow_workers_cost_time() -> None:
    assert simulate(replace(EVEN, slow_share=1, slow_factor=3), 2).seconds == pytest.approx(905)


def test_lost_workers_waste_time_and_lose_no_shard() -> None:
    calm, rough = (simulate(replace(EVEN, lost_after=after, back_after=1), 4) for after in (0, 60))
    assert rough.lost > 0 and rough.wasted > 0
    assert rough.busy == pytest.approx(calm.busy), "each shard counts once"
    assert rough.seconds > calm.seconds
