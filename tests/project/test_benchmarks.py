"""Every benchmark runs and prints its figures in its last lines. The speed itself is not tested."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
RATE = re.compile(r"^\S.*?  +([\d,]+\.\d)  +[\d,]+\.\d  +[\d,]+\.\d$", re.MULTILINE)  # the median of a row
FLOPS = re.compile(r"^GFLOP/s: ours (\S+), peak (\S+) ", re.MULTILINE)
EPOCHS = re.compile(r": an epoch live (\S+) s, cached (\S+) s, storing (\S+) s")
FIGURE = re.compile(r"(?:ratio (?P<ratio>\S+)|(?P<share>share of peak)): (?P<value>\d+\.\d\d+)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "options", "names"),
    [
        (
            "train_throughput.py",
            ["--questions", "2", "--seconds", "0"],
            ["run_qa-default", "best-flags", "best-flags-no-attention-dropout", "share of peak"],
        ),
        (
            "frozen.py",
            ["--questions", "6", "--seconds", "0", "--only", "last-2", "LP-head"],
            ["last-2", "last-2-two-epochs", "LP-head", "LP-head-two-epochs", "bytes-float16", "bytes-int8"],
        ),
        (
            "mixers_and_heads.py",
            ["--questions", "4", "--seconds", "0", "--filters", "4", "--mixers", "dot"],
            [
                *("inference-dot", "inference-cacnn-4", "inference-cacnn-simplified"),
                *("step-dot", "cached-step-cacnn-4", "cached-step-cacnn-simplified"),
            ],
        ),
        ("infer_throughput.py", ["--questions", "4"], ["padded-384", "dynamic-sorted"]),
        ("windows.py", ["--questions", "50"], ["windows"]),
        (
            "runtimes.py",
            ["--questions", "4"],
            [f"onnx-{kind}-to-{other}" for kind in ("float32", "int8") for other in ("torch", "transformers")],
        ),
        ("augmenting.py", ["--questions", "12", "--epochs", "2"], ["eda", "unanswerable"]),
        ("study_of_heads.py", ["--questions", "60", "--heads", "2", "--epochs", "0.5"], ["study-of-heads"]),
        (
            "serving.py",
            ["--questions", "4", "--seconds", "1", "--overload", "1"],
            ["clients-32", "one-client", "p99-at-70%", "memory"],
        ),
        pytest.param(
            "scaling.py", ["--questions", "4"], ["two-workers", "ray"], marks=pytest.mark.xdist_group("cluster"), id="scaling"
        ),
        ("mlm_throughput.py", ["--texts", "3", "--seconds", "0"], ["run_mlm-default", "run_mlm-default-at-its-length"]),
    ],
)
def test_benchmark_prints_its_figures_last(script: str, options: list[str], names: list[str], shared: Path) -> None:
    output = run(script, *options, "--threads", "1", "--repeats", "1", data=shared / "data")
    lines = output.splitlines()[-len(names) :]
    figures = [FIGURE.fullmatch(line) for line in lines]
    assert [figure and (figure["ratio"] or figure["share"]) for figure in figures] == names, output
    for figure in filter(None, figures):
        assert follows(figure, output), f"{figure[0]}: not a quotient of the rates above\n{output}"


def follows(figure: re.Match[str], output: str) -> bool:
    """Return whether a figure follows from the printed rates and times, which are rounded to a tenth."""
    value, name = float(figure["value"]), figure["ratio"] or ""
    if name.startswith("bytes-"):
        return 0 < value <= 1  # a store leaves out padding, and int8 takes less than float16
    if name.endswith("-two-epochs"):
        seconds = [tuple(map(float, times)) for times in EPOCHS.findall(output)]
        quotients = [(2 * live, 2 * cached + storing, 0.15) for live, cached, storing in seconds]
    else:
        numbers = [*RATE.findall(output), *(number for pair in FLOPS.findall(output) for number in pair)]
        quotients = [(*pair, 0.05) for pair in permutations([float(number.replace(",", "")) for number in numbers], 2)]
    return any(
        (one - error) / (other + error) - 0.006 <= value <= (one + error) / max(other - error, 1e-9) + 0.006
        for one, other, error in quotients
    )


@pytest.mark.slow
def test_old_pipeline_needs_its_version_of_transformers(shared: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "pipeline.py"), "--old", sys.executable, "--questions", "5", "--threads", "1"]
    environment = os.environ | {"LAMINA_DATA": str(shared / "data")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "must be 4.57.6" in done.stderr and "round 1 of 3, ours" in done.stderr


def run(script: str, *options: str, data: Path) -> str:
    """Return the output of a benchmark, which must exit with 0."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *options],
        env=os.environ | {"LAMINA_DATA": str(data)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
