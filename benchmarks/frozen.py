"""Measure training with frozen layers: from a store, with the live encoder, and full fine-tuning by `transformers`.

Our sides, live and cached, have the same recipe and questions. Rates are those of an epoch after the first, when all states are
stored. "two epochs" adds the time for storing. "bytes" is the size of the store over that of BERTVision's layout: the same
layers in float16, every window padded to 384. `transformers` trains all weights, as in train_throughput.py: with the defaults
of the run_qa example and with its best flags.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from common import faster, parser, print_table, read_examples, take_turns, use_threads
from lamina.data.splits import sample
from lamina.state_cache.maintenance import list_stores
from ours import Ours
from run_qa import BATCH, LENGTH
from train_throughput import LARGER_BATCH, their_sides, their_turn

HIDDEN = 384
LP = {"type": "learned", "separate": False, "init": "random"}
RECIPES: dict[str, dict[str, Any]] = {
    "last-1": {"tune": {"layers": 1}},
    "last-2": {"tune": {"layers": 2}},
    "compression-386": {"tune": {"layers": 0}, "mixer": {"type": "compression", "size": 386}},
    "LP-head": {"tune": {"layers": 0}, "mixer": LP},
}
BEST = [f"best-flags, {size} at once" for size in (BATCH, LARGER_BATCH)]


def main() -> None:
    options = parser(__doc__ or "", questions=5000, data=["squad2-train-31k"], repeats=3)
    options.add_argument("--seconds", type=float, default=20, help="minimum time of a turn (default %(default)s)")
    options.add_argument("--only", nargs="*", choices=[*RECIPES, "transformers"], default=[*RECIPES, "transformers"])
    given = options.parse_args()
    use_threads(given.threads)
    examples = sample(read_examples(given.data, given.questions), given.questions, seed=0)
    print(f"{len(examples)} questions, {given.threads} threads, turns of {given.seconds:g} s or a little more")
    with tempfile.TemporaryDirectory() as folder:
        ratios = []
        for name in (name for name in RECIPES if name in given.only):
            os.environ["LAMINA_CACHE"] = f"{folder}/{name}"  # each recipe has its own store
            ratios += against_live(name, examples, given)
        if "transformers" in given.only:
            ratios += against_transformers(examples, given)
        ratios += stored_bytes(examples)
    print("\n".join(ratios))


def stored_bytes(examples: Any) -> list[str]:
    """Return the ratios of the store's size to that of padded float16 states."""
    ratios = []
    for dtype in ("float16", "int8"):
        side = Ours(examples, cache={"use": "always", "dtype": dtype}, tune={"layers": 1})
        taken = min(store.bytes for store in list_stores() if store.dtype == dtype and store.layers == (5,))
        ratios.append(f"ratio bytes-{dtype}: {taken / (len(side.windows) * LENGTH * HIDDEN * 2):.2f}")
    return ratios


def against_live(name: str, examples: Any, given: Any) -> list[str]:
    live, cached = (Ours(examples, cache={"use": use}, **RECIPES[name]) for use in ("never", "always"))
    sides = {f"{name}, live": turn(live, given.seconds), f"{name}, cached": turn(cached, given.seconds)}
    rates = take_turns(sides, given.repeats)
    print_table(rates, "real tokens a second")
    slow, fast = (len(live.windows.ids) / median(values) for values in rates.values())  # seconds of an epoch
    print(
        f"{name}: an epoch live {slow:.1f} s, cached {fast:.1f} s, storing {cached.store_seconds:.1f} s; "
        f"{100 * median(cached.computing):.0f}% of a cached epoch is computation"
    )
    return [f"ratio {name}: {slow / fast:.2f}", f"ratio {name}-two-epochs: {2 * slow / (cached.store_seconds + 2 * fast):.2f}"]


def against_transformers(examples: Any, given: Any) -> list[str]:
    ours = Ours(examples, cache={"use": "always"}, tune={"layers": 2})
    theirs = their_sides(examples)
    names = ["run_qa-default", *BEST]
    rates = take_turns(
        {"last 2, cached": turn(ours, given.seconds)}
        | {name: partial(their_turn, theirs[name], given.seconds) for name in names},
        given.repeats,
    )
    print_table(rates, "real tokens a second")
    ratio = median(rates["last 2, cached"])
    return [
        f"ratio last-2-best-flags: {ratio / median(rates[faster(rates, *BEST)]):.2f}",
        f"ratio last-2-run_qa-default: {ratio / median(rates['run_qa-default']):.2f}",
    ]


def turn(side: Ours, at_least: float) -> Callable[[int], float]:
    return lambda number: side.run(number, lambda _, seconds: seconds >= at_least)


if __name__ == "__main__":
    main()
