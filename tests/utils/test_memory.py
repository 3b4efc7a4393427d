"""Memory stays bounded over batches of many shapes. Each case runs in a process of its own: kernels are never counted twice."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from lamina.utils.memory import CAPACITIES

MANY_SHAPES = """
import torch
from lamina.utils.memory import limit_kernels, return_memory
limit_kernels()
torch.set_num_threads(1)

def resident():
    return_memory()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6

weight = torch.randn(1536, 384).bfloat16().requires_grad_()
def train(rows):
    x = torch.randn(rows, 384).bfloat16().requires_grad_()
    torch.nn.functional.linear(x, weight).sum().backward()
    weight.grad = None

for rows in range(200, 230):
    train(rows)
before = resident()
for rows in range(230, 380):
    train(rows)
print(resident() - before)
"""

GAPS = """
import time
import torch
from lamina.training import step_loop
from lamina.training.checkpoint import State
from lamina.utils.progress import Silent

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6

class Recorder:
    state = State()
    def record(self, entry): pass
    def save(self): pass

step_loop.RETURN_SECONDS = {seconds}
kept = []
def blocks():  # small blocks that stay, between larger ones that are freed
    freed = []
    for _ in range(2000):
        freed.append(torch.ones(25_000))
        kept.append(torch.ones(100))
    return ()

before = resident()
steps = [(0, blocks), (0, lambda: ())]
with step_loop.StepLoop("training", steps, Recorder(), Silent(), minutes=10.0) as loop:
    for epoch, _ in loop:
        loop.finish(epoch, 0.0, {{}})
print(resident() - before)
"""

linux = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs /proc and glibc")


def growth(script: str, **variables: str) -> float:
    """Return the number that a script prints."""
    clean = {name: value for name, value in os.environ.items() if name not in CAPACITIES and not name.startswith("MALLOC_")}
    done = subprocess.run([sys.executable, "-c", script], env=clean | variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@linux
def test_kernels_of_many_shapes_are_not_all_kept() -> None:
    assert growth(MANY_SHAPES) < 90


@linux
def test_training_returns_freed_memory() -> None:
    assert growth(GAPS.format(seconds=0.0)) < 100  # of 200 MB


def test_the_number_of_kernels_can_be_chosen() -> None:
    name = CAPACITIES[0]
    script = f"import os; from lamina.utils.memory import limit_kernels; limit_kernels(); print(os.environ['{name}'])"
    assert growth(script, **{name: "500"}) == 500
