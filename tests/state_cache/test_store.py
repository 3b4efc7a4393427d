"""The store returns the states that were computed, even after damage to its files."""

from __future__ import annotations

import errno
import json
import multiprocessing
import resource
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.encoder.blocks import Encoder
from lamina.encoder.presets import PRESETS
from lamina.errors import LaminaError
from lamina.state_cache import store as module
from lamina.state_cache.dataset import stored_batch
from lamina.state_cache.extract import extractor, fingerprint
from lamina.state_cache.maintenance import clear_store, list_stores, verify_store
from lamina.state_cache.options import Dtype
from lamina.state_cache.store import Contents, Store, StoreError, open_store
from lamina.utils.arrays import Longs
from lamina.utils.locks import Lock
from lamina.utils.progress import Progress
from tests.tiny import Heard, corpus, windows

SHAPE = replace(PRESETS["tiny"], layers=2, hidden=16, embedding=16, intermediate=32)
WINDOWS = windows(corpus(4))


def encoder() -> Encoder:
    torch.manual_seed(0)
    return Encoder(SHAPE).eval()


def contents(dtype: Dtype = "float32", layers: tuple[int, ...] = (0, 2), **more: Any) -> Contents:
    return replace(Contents("w", WINDOWS.fingerprint, layers, 16, "tokens", dtype), **more)


def opened(folder: Path, what: Contents, progress: Progress | None = None) -> Store:
    starts = np.arange(len(WINDOWS) + 1) if what.positions == "cls" else WINDOWS.starts
    return open_store(what, starts, extractor(encoder(), WINDOWS, what), folder=folder, progress=progress)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARD_BYTES", 10_000)


def shard_paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.bin"))


def live(rows: list[int], layers: tuple[int, ...]) -> tuple[list[torch.Tensor], torch.Tensor]:
    batch = stored_batch(WINDOWS, rows, None)
    made = encoder()
    with torch.no_grad():
        stack = made(made.embed(batch.ids, batch.type_ids), batch.mask, keep=layers)
    return list(stack.states), batch.mask


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float16", 2e-3), ("int8", 0.03)])
@pytest.mark.parametrize("layers", [(2,), (0, 1, 2)])
def test_the_store_holds_the_states_of_the_encoder(
    tmp_path: Path, dtype: Dtype, tolerance: float, layers: tuple[int, ...]
) -> None:
    store = opened(tmp_path, contents(dtype, layers))
    rows = [17, 3, 0, len(WINDOWS) - 1, 8]
    wanted, mask = live(rows, layers)
    stack = store.read(rows, mask)
    assert stack.layers == layers
    for found, expected in zip(stack.states, wanted, strict=True):
        torch.testing.assert_close(found[mask], expected[mask], atol=tolerance, rtol=0)
        assert not found[~mask].any(), "padding is zero"


def test_a_store_of_the_first_token_only(tmp_path: Path) -> None:
    store = opened(tmp_path, contents(positions="cls"))
    wanted, mask = live([4, 9], (0, 2))
    stack = store.read([4, 9], mask)
    assert stack.mask.shape == (2, 1)
    for found, expected in zip(stack.states, wanted, strict=True):
        torch.testing.assert_close(found, expected[:, :1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("positions", ["tokens", "cls"])
def test_a_store_of_outputs_has_no_layers(tmp_path: Path, positions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outputs of a teacher: two numbers for each token of a window, or for each item."""
    monkeypatch.setattr(module, "OUTPUTS", 200 if positions == "tokens" else 4)
    starts = WINDOWS.starts if positions == "tokens" else np.arange(len(WINDOWS) + 1)
    numbers = torch.rand(int(starts[-1]), 1, 2)

    def extract(rows: Longs) -> torch.Tensor:
        return numbers[starts[rows[0]] : starts[rows[-1] + 1]]

    what = contents(layers=(), hidden=2, positions=positions)
    store = open_store(what, starts, extract, folder=tmp_path)
    assert len(shard_paths(tmp_path)) > 3
    rows = [5, 2, len(WINDOWS) - 1]
    if positions == "cls":
        assert torch.equal(store.outputs(rows, 99), numbers[rows, 0])
    else:
        mask = stored_batch(WINDOWS, rows, None).mask
        found = store.outputs(rows, mask.shape[1])  # [R, T, 2]
        assert torch.equal(found[mask], torch.cat([numbers[starts[row] : starts[row + 1], 0] for row in rows]))
        assert not found[~mask].any(), "padding is zero"
    assert list_stores(tmp_path)[0].layers == () and verify_store(what.key, tmp_path) == []


@settings(max_examples=15)
@given(rows=st.lists(st.integers(0, len(WINDOWS) - 1), min_size=1, max_size=12))
def test_rows_can_be_read_in_any_order(tmp_path_factory: pytest.TempPathFactory, rows: list[int]) -> None:
    store = opened(tmp_path_factory.getbasetemp() / "shared", contents(layers=(1,)))
    wanted, mask = live(rows, (1,))
    torch.testing.assert_close(store.read(rows, mask).states[0][mask], wanted[0][mask], atol=1e-5, rtol=0)


def test_states_are_computed_once(tmp_path: Path) -> None:
    opened(tmp_path, contents())
    before = [path.stat().st_mtime_ns for path in shard_paths(tmp_path)]
    assert len(before) > 3

    def never(rows: object) -> torch.Tensor:
        raise AssertionError("computed again")

    open_store(contents(), WINDOWS.starts, never, folder=tmp_path)
    assert [path.stat().st_mtime_ns for path in shard_paths(tmp_path)] == before


def test_an_interrupted_extraction_continues(tmp_path: Path) -> None:
    whole = opened(tmp_path / "whole", contents("int8"))
    asked: list[int] = []

    def failing(rows: Longs) -> torch.Tensor:
        if len(asked) == 3:
            raise KeyboardInterrupt
        asked.append(int(rows[0]))
        return extractor(encoder(), WINDOWS, contents("int8"))(rows)

    with pytest.raises(KeyboardInterrupt):
        open_store(contents("int8"), WINDOWS.starts, failing, folder=tmp_path / "part")
    written = shard_paths(tmp_path / "part")
    assert len(written) == 3
    before = [path.stat().st_mtime_ns for path in written]
    resumed = opened(tmp_path / "part", contents("int8"))
    assert [path.stat().st_mtime_ns for path in written] == before
    mask = stored_batch(WINDOWS, range(9), None).mask
    for a, b in zip(resumed.read(range(9), mask).states, whole.read(range(9), mask).states, strict=True):
        assert torch.equal(a, b)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (flip, "checksum differs"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "truncated"),
        (lambda path: path.unlink(), "No such file"),
    ],
    ids=["flipped", "truncated", "gone"],
)
def test_a_damaged_shard_is_reported_and_computed_again(tmp_path: Path, harm: Callable[[Path], object], reason: str) -> None:
    wanted = opened(tmp_path, contents("float16"))
    mask = stored_batch(WINDOWS, range(20), None).mask
    before = [state.clone() for state in wanted.read(range(20), mask).states]
    paths = shard_paths(tmp_path)
    times = [path.stat().st_mtime_ns for path in paths]
    harm(paths[1])
    name = paths[1].parent.name
    assert [reason in line for line in verify_store(name, tmp_path)] == [True]
    heard = Heard()
    again = opened(tmp_path, contents("float16"), heard)
    assert [reason in line and str(paths[1]) in line for line in heard.lines] == [True]
    assert [path.stat().st_mtime_ns == time for path, time in zip(paths, times, strict=True)].count(False) == 1
    for found, expected in zip(again.read(range(20), mask).states, before, strict=True):
        assert torch.equal(found, expected)
    assert verify_store(name, tmp_path) == []


def test_a_lost_index_is_computed_again(tmp_path: Path) -> None:
    first = opened(tmp_path, contents("int8"))
    mask = stored_batch(WINDOWS, range(20), None).mask
    before = [state.clone() for state in first.read(range(20), mask).states]
    for lost in (b"", b"{}", b'{"shards": [{"first": 1}]}'):
        next(tmp_path.glob("*/store.json")).write_bytes(lost)
        again = opened(tmp_path, contents("int8"))
        for found, expected in zip(again.read(range(20), mask).states, before, strict=True):
            assert torch.equal(found, expected)


@pytest.mark.parametrize(
    "other",
    [{"weights": "x"}, {"windows": "x"}, {"layers": (1, 2)}, {"dtype": "float16"}, {"positions": "cls"}],
    ids=lambda change: next(iter(change)),
)
def test_different_contents_have_different_stores(other: dict[str, Any]) -> None:
    assert replace(contents(), **other).key != contents().key
    assert replace(contents(), model="name", data="of things").key == contents().key


def test_the_fingerprint_depends_on_the_weights_up_to_the_top_layer() -> None:
    made = encoder()
    before = [fingerprint(made, top) for top in (1, 2)]
    with torch.no_grad():
        made.layers[1].up.bias[3] += 1e-3
    assert fingerprint(made, 1) == before[0]
    assert fingerprint(made, 2) != before[1]
    assert len({*before, fingerprint(made, 0)}) == 3


def _write(folder: Path, start: multiprocessing.synchronize.Event) -> None:
    torch.set_num_threads(1)
    module.SHARD_BYTES = 10_000
    start.wait()
    opened(folder, contents("float16"))


def test_two_processes_share_one_store(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start = context.Event()
    both = [context.Process(target=_write, args=(tmp_path, start)) for _ in range(2)]
    for process in both:
        process.start()
    start.set()
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    assert verify_store(list_stores(tmp_path)[0].name, tmp_path) == []
    wanted, mask = live([5, 6], (0, 2))
    found = opened(tmp_path, contents("float16")).read([5, 6], mask)
    torch.testing.assert_close(found.states[1][mask], wanted[1][mask], atol=2e-3, rtol=0)


def test_a_second_writer_reports_that_it_waits(tmp_path: Path) -> None:
    what = contents()
    (tmp_path / what.key).mkdir()
    lock = Lock(tmp_path / what.key / "write.lock")
    signal.signal(signal.SIGALRM, lambda *_: lock.close())
    signal.alarm(1)
    heard = Heard()
    opened(tmp_path, what, heard)
    assert any("waiting for another process" in line for line in heard.lines)


def test_a_full_disk_is_reported_and_leaves_no_partial_shard(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))  # the largest size of a file, which acts as a full disk
    try:
        with pytest.raises(StoreError, match=r"00000\.bin.*(large|space)"):
            opened(tmp_path, contents())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.glob("*/*") if path.suffix in (".bin", ".tmp")] == []
    assert len(opened(tmp_path, contents()).read([0], torch.ones(1, 70, dtype=torch.bool)).states) == 2


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="file"):
        opened(tmp_path / "file", contents())


def test_stores_are_listed_and_cleared(tmp_path: Path) -> None:
    store = opened(tmp_path, contents("float16", model="minilm", data="squad"))
    opened(tmp_path, contents("int8")).close()
    listed = {item.dtype: item for item in list_stores(tmp_path)}
    assert listed["float16"].model == "minilm"
    assert listed["float16"].share == 1.0
    assert listed["float16"].bytes > contents("float16").bytes(int(WINDOWS.starts[-1]))
    with pytest.raises(LaminaError, match="another process uses the store"):
        clear_store(listed["float16"].name, tmp_path)
    store.close()
    for item in listed.values():
        assert clear_store(item.name[:8], tmp_path) == item.bytes
    assert list_stores(tmp_path) == []
    assert not (tmp_path / listed["int8"].name).exists()
    with pytest.raises(LaminaError, match="there is no store of that name"):
        clear_store("abc", tmp_path)


def test_an_unfinished_or_unreadable_store_is_listed_too(tmp_path: Path) -> None:
    opened(tmp_path, contents()).close()
    index = next(tmp_path.glob("*/store.json"))
    values = json.loads(index.read_text())
    values["shards"][0]["crc32"] = None
    index.write_text(json.dumps(values))
    assert 0 < list_stores(tmp_path)[0].share < 1
    index.write_text("{")
    assert list_stores(tmp_path)[0].share == 0
    assert verify_store(list_stores(tmp_path)[0].name, tmp_path) == [f"{index}: cannot be read"]


def test_the_size_of_a_token() -> None:
    """A token of one layer takes H values: two bytes each, or one byte each and a scale."""
    assert contents("float16", (3,)).bytes(5) == 5 * 32
    assert contents("int8", (2, 3)).bytes(5) == 5 * 2 * 18 + 2 * 16 * 4


def test_a_too_small_disk_is_reported_before_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(StoreError, match=r"only 0\.0 GB are free"):
        opened(tmp_path, contents())
    assert shard_paths(tmp_path) == []


def test_a_disk_that_becomes_full_gets_its_space_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = module._write_shard

    def full(path: Path, parts: Sequence[torch.Tensor]) -> None:
        if path.name == "00002.bin":
            raise LaminaError("no room") from OSError(errno.ENOSPC, "No space left on device")
        write(path, parts)

    monkeypatch.setattr(module, "_write_shard", full)
    with pytest.raises(StoreError, match="no room"):
        opened(tmp_path, contents())
    assert shard_paths(tmp_path) == []
