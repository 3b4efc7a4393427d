from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.data.batches import make_batch
from lamina.data.padding import pack
from tests.tiny import corpus, windows


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 50), max_size=60),
    st.integers(1, 200),
    st.one_of(st.none(), st.integers(1, 7)),
)
def test_pack_covers_everything_in_order_within_its_budgets(lengths: list[int], tokens: int, rows: int | None) -> None:
    runs = pack(np.array(lengths, np.int64), tokens, rows)
    assert [i for run in runs for i in run.tolist()] == list(range(len(lengths)))
    for run in runs:
        padded = max(lengths[i] for i in run) * len(run)
        assert padded <= tokens or len(run) == 1
        assert rows is None or len(run) <= rows


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 200), st.integers(1, 7))
def test_pack_starts_a_run_only_if_the_item_does_not_fit(lengths: list[int], tokens: int, rows: int) -> None:
    runs = pack(np.array(lengths, np.int64), tokens, rows)
    for run, following in pairwise(runs):
        grown = [*run.tolist(), int(following[0])]
        assert len(grown) > rows or max(lengths[i] for i in grown) * len(grown) > tokens


def test_batch_has_the_windows_padded_on_the_right() -> None:
    made = dataclasses.replace(windows(corpus(3)), pad=77)
    rows = [9, 0, 4, 4]
    batch = make_batch(made, rows)
    width = max(int(made.lengths[row]) for row in rows)
    assert batch.ids.shape == (4, width)
    assert len({int(made.lengths[row]) for row in rows}) > 1, "the batch needs padding"
    for i, row in enumerate(rows):
        own = slice(int(made.starts[row]), int(made.starts[row + 1]))
        gap = width - int(made.lengths[row])
        assert batch.ids[i].tolist() == made.ids[own].tolist() + [77] * gap
        assert batch.type_ids[i].tolist() == made.type_ids[own].tolist() + [0] * gap
        assert batch.mask[i].tolist() == [True] * int(made.lengths[row]) + [False] * gap
        assert batch.context[i].tolist() == made.context[own].tolist() + [False] * gap
        assert batch.gold[i].tolist() == made.gold[row].tolist()
    assert batch.windows == (9, 0, 4, 4)
    assert (batch.ids.dtype, batch.mask.dtype, batch.gold.dtype) == (torch.int64, torch.bool, torch.int64)


def test_batch_on_another_device_is_the_same() -> None:
    batch = make_batch(windows(corpus(1)), np.array([0, 1]))
    moved = batch.to(torch.device("meta"))
    assert moved.windows == batch.windows
    for field in ("ids", "type_ids", "mask", "context", "gold"):
        assert getattr(moved, field).is_meta
        assert getattr(moved, field).shape == getattr(batch, field).shape


@pytest.mark.parametrize("tokens", [1, 5])
def test_an_item_longer_than_the_budget_is_a_run_of_its_own(tokens: int) -> None:
    assert [run.tolist() for run in pack(np.array([9, 1, 9]), tokens)] == [[0], [1], [2]]
