"""Shards and batches on a real Ray cluster of one node, whose workers are killed."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lamina.reader.distributed import Answerer
from tests import tiny
from tests.clusters import cluster
from tests.command import lamina as command
from tests.golden import TRAINED
from tests.reader.test_distributed import Row, rows, table_of, write_shards

# Warnings are those of Ray: files that it does not close, and old names that it uses itself.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.filterwarnings("ignore")]

WAIT = 300.0


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    with cluster(2) as started:
        yield started.ray


@pytest.fixture(scope="module")
def asked() -> list[Row]:
    """400 questions."""
    return [{**row, "id": f"{copy}-{row['id']}"} for copy in range(10) for row in rows(tiny.corpus(8))]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, asked: list[Row]) -> Path:
    """The answers of one process, and the shards beside them."""
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder / "in", asked, size=20)
    words = ("predict", TRAINED, "--data", folder / "in", "--out", folder / "out", "--workers", 1)
    assert command(*words).code == 0
    return folder


def test_a_killed_worker_loses_nothing_and_doubles_nothing(ray: Any, tmp_path: Path, asked: list[Row], alone: Path) -> None:
    killed: list[int] = []
    ended = threading.Event()

    def kill() -> None:
        """Kill a worker that answers, once the first shards are there."""
        until = time.monotonic() + WAIT
        while len(list(tmp_path.glob("part-*.parquet"))) < 2 and not ended.is_set() and time.monotonic() < until:
            time.sleep(0.005)
        while not (killed or ended.is_set()) and time.monotonic() < until:
            for process in (int(one.name) for one in Path("/proc").glob("[0-9]*")):
                with suppress(OSError):  # it has just ended
                    if not killed and _answers(process) and _is_ours(ray, process):
                        os.kill(process, signal.SIGKILL)
                        killed.append(process)

    killer = threading.Thread(target=kill)
    killer.start()
    result = command("predict", TRAINED, "--data", alone / "in", "--engine", "ray", "--out", tmp_path, "--json")
    ended.set()
    killer.join()
    assert result.code == 0, result.err
    assert killed, "no worker was busy"
    assert json.loads(result.out)["questions"] == len(asked)
    assert table_of(tmp_path) == table_of(alone / "out")
    files = [(folder / "part-03.parquet").read_bytes() for folder in (tmp_path, alone / "out")]
    assert files[0] == files[1]
    again = command("predict", TRAINED, "--data", alone / "in", "--engine", "ray", "--out", tmp_path, "--json")
    assert json.loads(again.out)["kept"] == 20


def _answers(process: int) -> bool:
    """Return whether a process runs a task that answers: Ray names a worker by its task."""
    return Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"ray::_call")


def _is_ours(ray: Any, process: int) -> bool:
    """Return whether a process is a worker of this test's cluster: its session is in its open files."""
    session = str(Path(ray._private.worker._global_node.get_session_dir_path()))
    links = Path(f"/proc/{process}/fd").iterdir()
    return any(session in str(link.readlink()) for link in links)


def test_ray_data_gives_the_same_rows(ray: Any, asked: list[Row], alone: Path) -> None:
    data = pytest.importorskip("ray.data")
    data.DataContext.get_current().enable_progress_bars = False
    batches = data.from_items(asked[:60], override_num_blocks=3).map_batches(Answerer(TRAINED), batch_size=16)
    found = sorted(batches.take_all(), key=lambda row: str(row["id"]))
    expected = sorted(table_of(alone / "out")[:60], key=lambda row: str(row["id"]))
    assert found == expected
