"""What context-aware heads cost: inference against the plain span head, a head-only step against full fine-tuning.

Inference is the default encoder over windows to logits, with the plain span head and with context-aware ones; "inference-16"
is the time with 16 filters over the time with the plain head (wanted: at most 1.25 for 16). "step-16" is the time that a
token takes in a step of head-only training, from the store, over that of live full fine-tuning with the plain head (wanted:
at most 0.15 for 16).

    python benchmarks/cacnn.py
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

from common import Rates, parser, print_table, read_examples, take_turns, use_threads
from lamina.assemble import build_model
from lamina.data.examples import Example
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import Windows, make_windows
from lamina.encoder import load as encoders
from lamina.inference import span_logits
from lamina.model import Model
from lamina.recipe import Recipe, parse_recipe
from ours import Ours
from run_qa import LENGTH, OVERLAP

PLAIN, SIMPLIFIED = "plain", "simplified"
WARM_UP = 32  # questions


def main() -> None:
    options = parser(__doc__ or "", questions=1000, data=["squad2-dev-cs224n"], repeats=5)
    options.add_argument("--seconds", type=float, default=15, help="of a turn of training, at least (default %(default)s)")
    options.add_argument("--filters", type=int, nargs="+", default=[4, 16, 64], help="how many filters (default 4 16 64)")
    given = options.parse_args()
    use_threads(given.threads)
    examples = read_examples(given.data, given.questions)[: given.questions]
    heads: dict[str, dict[str, Any]] = {str(count): {"type": "cacnn", "filters": count} for count in given.filters}
    heads[SIMPLIFIED] = {"type": "cacnn", "form": "simplified"}
    print(f"{len(examples)} questions, {given.threads} threads")
    ratios = inference(heads, examples, given.repeats)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LAMINA_CACHE"] = folder
        ratios += steps(heads, examples, given)
    print("\n".join(ratios))


def inference(heads: dict[str, dict[str, Any]], examples: Sequence[Example], repeats: int) -> list[str]:
    recipes = {name: recipe_of(head) for name, head in ({PLAIN: {"type": "span"}} | heads).items()}
    source = encoders.find(recipes[PLAIN].encoder)
    tokenizer, options = Tokenizer(source.tokenizer), recipes[PLAIN].window
    few, windows = (make_windows(part, tokenizer, options) for part in (examples[:WARM_UP], examples))
    encoder = encoders.load(source)  # one for all: what they share is in the same place in memory
    models = {name: build_model(recipe, encoder).eval() for name, recipe in recipes.items()}
    for model in models.values():
        span_logits(model, few)
    rates = take_turns({name: partial(tokens_a_second, model, windows) for name, model in models.items()}, repeats)
    print_table(rates, "inference, tokens a second")
    return [f"ratio inference-{name}: {times_as_long(rates, name):.2f}" for name in heads]


def recipe_of(head: dict[str, Any]) -> Recipe:
    return parse_recipe({"data": {"train": ""}, "window": {"length": LENGTH, "overlap": OVERLAP}, "head": head})


def tokens_a_second(model: Model, windows: Windows, _: int) -> float:
    began = time.perf_counter()
    span_logits(model, windows)
    return len(windows.ids) / (time.perf_counter() - began)


def steps(heads: dict[str, dict[str, Any]], examples: Sequence[Example], given: Any) -> list[str]:
    sides = {PLAIN: turn(Ours(examples, cache={"use": "never"}), given.seconds)}
    for name, head in heads.items():
        sides[name] = turn(Ours(examples, cache={"use": "always"}, tune={"layers": 0}, head=head), given.seconds)
    rates = take_turns(sides, given.repeats)
    print_table(rates, "steps (plain: live, all of it), tokens a second")
    return [f"ratio step-{name}: {times_as_long(rates, name):.2f}" for name in heads]


def turn(side: Ours, at_least: float) -> Callable[[int], float]:
    return lambda number: side.run(number, lambda _, seconds: seconds >= at_least)


def times_as_long(rates: Rates, name: str) -> float:
    """Than the plain side."""
    return median(rates[PLAIN]) / median(rates[name])


if __name__ == "__main__":
    main()
