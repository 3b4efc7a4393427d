"""A study on a real Ray cluster of two nodes, one of which is killed."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path

import pytest

import lamina
from lamina.experiments.studies.ray_jobs import OnRay
from lamina.experiments.studies.run_study import study
from tests.clusters import cluster
from tests.command import lamina as command
from tests.experiments.studies.test_run_study import write

# Warnings are those of Ray: files that it does not close, and old names that it uses itself.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.filterwarnings("ignore")]

WAIT = 300.0


def untimed(folder: Path) -> str:
    """Return the table of a study without its seconds."""
    return re.sub(r'"(\w*seconds|minutes)": [\d.e-]+', "", (folder / "table.json").read_text())


def test_a_killed_node_changes_no_table(tmp_path: Path) -> None:
    file = write(tmp_path, epochs="3")
    local = lamina.study(file, size="smoke", out=tmp_path / "local", jobs=2)
    assert local.failed == {} and local.left == 0
    with cluster(1) as nodes:
        lost = nodes.add(1)
        killed = []

        def kill() -> None:
            until = time.monotonic() + WAIT
            while len(list((tmp_path / "ray" / "runs").glob("*/metrics.jsonl"))) < 2 and time.monotonic() < until:
                time.sleep(0.02)
            nodes.kill(lost)
            killed.append(lost)

        killer = threading.Thread(target=kill)
        killer.start()
        table = study(file, size="smoke", out=tmp_path / "ray", cluster=OnRay())
        killer.join()
    assert killed and table.failed == {} and table.left == 0
    assert [(row.variant, row.seed, row.scores) for row in table.rows] == [(r.variant, r.seed, r.scores) for r in local.rows]
    times = [json.loads((tmp_path / name / "times.json").read_text()) for name in ("local", "ray")]
    assert times[0].keys() == times[1].keys() and len(times[1]) == 2, "inference is timed on Ray too"
    assert untimed(tmp_path / "ray") == untimed(tmp_path / "local")


def test_options_of_the_cluster_need_it(tmp_path: Path) -> None:
    for option, value in (("--address", "auto"), ("--memory", "2"), ("--cpus", "2")):
        result = command("study", write(tmp_path), "--size", "smoke", option, value)
        assert result.code == 2 and result.err.startswith(f"lamina: {option}: only --engine ray has it")
