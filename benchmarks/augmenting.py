"""Measure the cost of augmentation: `lamina train` with EDA, with synthetic unanswerable questions, and without both.

Every turn is a whole run of some epochs with the same questions and settings. A rate is real tokens over the time from the
first step to the last. This includes the changes of epoch, while another process makes the new texts. It excludes loading,
planning and evaluation. "start" is the time until the first step.

- plain: the texts unchanged
- eda: words swapped, deleted and repeated, different in each epoch
- unanswerable: half of all questions are unanswerable, with new synthetic ones in each epoch

    python benchmarks/augmenting.py
"""

from __future__ import annotations

import json
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from common import find_data, parser, print_table, take_turns, use_threads
from lamina.config.parse import parse_recipe
from lamina.training.trainer import train
from lamina.utils.progress import Silent

SIDES: dict[str, dict[str, Any]] = {
    "plain": {},
    "eda": {"eda": {"alpha": 0.1}},
    "unanswerable": {"unanswerable": {"share": 0.5, "replace": True}},
}


def main() -> None:
    options = parser(__doc__ or "", questions=400, data=["squad2-train-31k"], repeats=3)
    options.add_argument("--epochs", type=int, default=3, help="epochs of a turn (default %(default)s)")
    given = options.parse_args()
    use_threads(given.threads)
    find_data()
    starts: dict[str, list[float]] = {name: [] for name in SIDES}
    sides = {name: partial(turn, starts[name], augment, given) for name, augment in SIDES.items()}
    rates = take_turns(sides, given.repeats)
    print(f"{given.questions} questions, {given.epochs} epochs, {given.threads} threads")
    print_table(rates, "real tokens a second")
    print("start: " + ", ".join(f"{name} {median(seconds):.1f} s" for name, seconds in starts.items()))
    for name in list(SIDES)[1:]:  # 1.05 means that an epoch takes 5% longer
        print(f"ratio {name}: {median(rates['plain']) / median(rates[name]):.3f}")


class Stopwatch(Silent):
    """The times at which the steps of training were done."""

    def __init__(self) -> None:
        self._steps: list[float] | None = None
        self.times: list[float] = []

    def start(self, label: str, total: int, done: int = 0) -> None:
        self._steps = self.times if label == "training" else []

    def advance(self, amount: int, note: str = "") -> None:
        assert self._steps is not None
        self._steps.append(time.perf_counter())


def turn(starts: list[float], augment: dict[str, Any], given: Any, seed: int) -> float:
    """Return the real tokens per second of one run."""
    data = {"train": given.data[0], "questions": given.questions, "holdout": 0.05}
    settings = {"epochs": given.epochs, "evaluate_every": given.epochs, "seed": seed, "threads": given.threads, "device": "cpu"}
    recipe = parse_recipe({"data": data, "augment": augment, "train": settings | {"checkpoint_minutes": 1000}})
    watch, began = Stopwatch(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run = train(recipe, Path(folder) / "run", progress=watch, dev=False)
        tokens = json.loads(run.info.read_text(encoding="utf-8"))["costs"]["tokens"]
    starts.append(watch.times[0] - began)
    return float(tokens) * (len(watch.times) - 1) / len(watch.times) / (watch.times[-1] - watch.times[0])


if __name__ == "__main__":
    main()
