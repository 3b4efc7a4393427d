from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from lamina.utils.parallel import side_by_side


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_results_come_in_order(threads: int) -> None:
    assert list(side_by_side(lambda number: number * number, range(50))) == [number * number for number in range(50)]
    assert list(side_by_side(str, [])) == []


def test_workers_share_torchs_threads_and_restore_their_number(threads: int) -> None:
    seen = list(side_by_side(lambda _: (threading.get_ident(), torch.get_num_threads()), range(threads)))
    assert {count for _, count in seen} == {1}
    assert (threading.get_ident() in dict(seen)) == (threads == 1)
    assert list(side_by_side(lambda _: torch.get_num_threads(), "x")) == [threads]  # a single item gets all threads
    assert torch.get_num_threads() == threads


def test_the_workers_run_at_the_same_time() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    meeting = threading.Barrier(2, timeout=30)
    try:
        assert sorted(side_by_side(lambda _: meeting.wait(), range(2))) == [0, 1]
    finally:
        torch.set_num_threads(before)


def test_an_error_reaches_the_caller(threads: int) -> None:
    with pytest.raises(ZeroDivisionError):
        list(side_by_side(lambda number: 1 // number, [1, 0, 2]))
    assert torch.get_num_threads() == threads
