"""Shared parts of the benchmarks: the data, the threads, rounds in which the sides alternate, and printing.

A side's rate is its median over the rounds. The sides alternate, so a disturbance of the machine affects all of them equally,
and the median excludes the worst of it.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

import torch

from lamina.data.examples import Example
from lamina.data.sources import load_examples

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"  # beside the repository, during development
PEAK_SHAPE = (4096, 1536, 1536)  # rows, inner size and columns of the products that measure the peak

Side = Callable[[int], float]  # the round's number -> the side's rate in it
Rates = dict[str, list[float]]  # of each side, one per round


def parser(
    about: str, *, questions: int, data: Sequence[str], repeats: int, what: str = "questions"
) -> argparse.ArgumentParser:
    """Return a parser with the options of all benchmarks. `what` names the items of the data."""
    options = argparse.ArgumentParser(description=about.partition("\n")[0])
    options.add_argument(f"--{what}", type=int, default=questions, help=f"number of {what} (default %(default)s)")
    options.add_argument("--threads", type=int, default=2, help="threads of torch and of the tokenizers (default 2)")
    options.add_argument(
        "--data",
        nargs="+",
        default=list(data),
        metavar="FILE",
        help=f"files, or names in $LAMINA_DATA, read in this order until there are enough (default {' '.join(data)})",
    )
    options.add_argument("--repeats", type=int, default=repeats, help="number of rounds (default %(default)s)")
    return options


def use_threads(count: int) -> None:
    """Set the threads of torch and the tokenizers. Call it before tokenising: the tokenizers start their threads once."""
    torch.set_num_threads(count)
    os.environ["RAYON_NUM_THREADS"] = str(count)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"


def read_examples(names: Sequence[str], at_least: int | None = None) -> list[Example]:
    """Return the examples of the named data; stop reading once there are `at_least` of them."""
    find_data()
    found: list[Example] = []
    for name in names:
        if at_least is None or len(found) < at_least:
            found += load_examples(name)
    return found


def find_data() -> None:
    """Look up names of data beside the repository, unless $LAMINA_DATA is set."""
    if "LAMINA_DATA" not in os.environ and SHARED_DATA.is_dir():
        os.environ["LAMINA_DATA"] = str(SHARED_DATA)


def take_turns(sides: Mapping[str, Side], repeats: int, *, between: Callable[[], object] = lambda: None) -> Rates:
    """Run the sides in turns (A B C, A B C, ...) and return their rates. `between` is called before each turn."""
    rates: Rates = {name: [] for name in sides}
    for number in range(repeats):
        for name, side in sides.items():
            between()
            rates[name].append(side(number))
            print(f"round {number + 1} of {repeats}, {name}: {rates[name][-1]:,.1f}", file=sys.stderr, flush=True)
    return rates


def peak_flops(tries: int = 3) -> float:
    """Return the FLOPs per second of the fastest of a few large float32 matrix products, with torch's current threads."""
    rows, inner, columns = PEAK_SHAPE
    a, b, out = torch.rand(rows, inner), torch.rand(inner, columns), torch.empty(rows, columns)
    fastest = math.inf
    for _ in range(tries):
        began = time.perf_counter()
        torch.mm(a, b, out=out)
        fastest = min(fastest, time.perf_counter() - began)
    return 2 * math.prod(PEAK_SHAPE) / fastest


def faster(rates: Rates, *names: str) -> str:
    """Return the side with the highest rate."""
    return max(names, key=lambda name: median(rates[name]))


def print_table(rates: Rates, unit: str) -> None:
    width = max(map(len, [unit, *rates]))
    print(f"{unit:{width}}  {'median':>10}  {'lowest':>10}  {'highest':>10}")
    for name, values in rates.items():
        print(f"{name:{width}}  {median(values):10,.1f}  {min(values):10,.1f}  {max(values):10,.1f}")


def print_ratio(name: str, rates: Rates, ours: str, theirs: str) -> None:
    print(f"ratio {name}: {median(rates[ours]) / median(rates[theirs]):.2f}")
