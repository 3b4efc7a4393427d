"""Measure the cost of mixers and context-aware heads relative to the plain model: the last layer with a span head.

- "inference-dot": the time from windows to logits with that mixer over the plain model's time. Targets: dot at most 1.04,
  learned 1.03, 16 context-aware filters 1.25.
- "step-dot": the same for a step of live full fine-tuning. Targets: dot at most 1.08, learned 1.05.
- "cached-step-cacnn-16": the time per token of training only the head from the store, over that of the plain model's live full
  fine-tuning. Target: at most 0.15.

Many short turns measure differences of a few per cent. A figure is the median of the ratios of the rounds.

    python benchmarks/mixers_and_heads.py
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
from lamina.config.build import build_model
from lamina.config.parse import parse_recipe
from lamina.config.recipe import Recipe
from lamina.data.examples import Example
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import Windows, make_windows
from lamina.encoder import load as encoders
from lamina.model import Model
from lamina.model.inference import span_logits
from ours import Ours
from run_qa import LENGTH, OVERLAP

PLAIN = "plain"
WARM_UP = 32  # questions
MIXERS = "average", "learned", "dot", "multiplicative", "encoder"

Tables = dict[str, dict[str, Any]]  # of a recipe


def main() -> None:
    options = parser(__doc__ or "", questions=300, data=["squad2-dev-cs224n"], repeats=9)
    options.add_argument("--seconds", type=float, default=5, help="minimum time of a turn of training (default %(default)s)")
    options.add_argument("--mixers", nargs="*", default=MIXERS, help=f"mixers to measure (default {' '.join(MIXERS)})")
    options.add_argument("--filters", type=int, nargs="*", default=[4, 16, 64], help="numbers of filters (default 4 16 64)")
    given = options.parse_args()
    use_threads(given.threads)
    examples = read_examples(given.data, given.questions)[: given.questions]
    mixers: dict[str, Tables] = {name: {"mixer": {"type": name}} for name in given.mixers}
    heads: dict[str, Tables] = {f"cacnn-{count}": {"head": {"type": "cacnn", "filters": count}} for count in given.filters}
    if heads:
        heads["cacnn-simplified"] = {"head": {"type": "cacnn", "form": "simplified"}}
    print(f"{len(examples)} questions, {given.threads} threads")
    ratios = inference(mixers | heads, examples, given.repeats)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LAMINA_CACHE"] = folder
        ratios += steps(mixers, heads, examples, given)
    print("\n".join(ratios))


def inference(variants: dict[str, Tables], examples: Sequence[Example], repeats: int) -> list[str]:
    plain: dict[str, Tables] = {PLAIN: {}}
    recipes = {name: recipe_of(tables) for name, tables in (plain | variants).items()}
    source = encoders.find(recipes[PLAIN].encoder)
    tokenizer, options = Tokenizer(source.tokenizer), recipes[PLAIN].window
    few, windows = (make_windows(part, tokenizer, options) for part in (examples[:WARM_UP], examples))
    encoder = encoders.load(source)  # one for all, so that the shared weights have the same place in memory
    models = {name: build_model(recipe, encoder).eval() for name, recipe in recipes.items()}
    for model in models.values():
        span_logits(model, few)
    rates = take_turns({name: partial(tokens_a_second, model, windows) for name, model in models.items()}, repeats)
    print_table(rates, "inference, tokens a second")
    return [f"ratio inference-{name}: {times_as_long(rates, name):.3f}" for name in variants]


def recipe_of(tables: Tables) -> Recipe:
    return parse_recipe({"data": {"train": ""}, "window": {"length": LENGTH, "overlap": OVERLAP}} | tables)


def tokens_a_second(model: Model, windows: Windows, _: int) -> float:
    began = time.perf_counter()
    span_logits(model, windows)
    return len(windows.ids) / (time.perf_counter() - began)


def steps(mixers: dict[str, Tables], heads: dict[str, Tables], examples: Sequence[Example], given: Any) -> list[str]:
    sides = {PLAIN: Ours(examples, cache={"use": "never"})}
    sides |= {f"step-{name}": Ours(examples, cache={"use": "never"}, **tables) for name, tables in mixers.items()}
    stored: Tables = {"cache": {"use": "always"}, "tune": {"layers": 0}}
    sides |= {f"cached-step-{name}": Ours(examples, **stored, **tables) for name, tables in heads.items()}
    rates = take_turns({name: turn(side, given.seconds) for name, side in sides.items()}, given.repeats)
    print_table(rates, "steps, tokens a second")
    return [f"ratio {name}: {times_as_long(rates, name):.3f}" for name in sides if name != PLAIN]


def turn(side: Ours, at_least: float) -> Callable[[int], float]:
    return lambda number: side.run(number, lambda _, seconds: seconds >= at_least)


def times_as_long(rates: Rates, name: str) -> float:
    """Return the median ratio of a side's time to the plain side's."""
    return median(plain / other for plain, other in zip(rates[PLAIN], rates[name], strict=True))


if __name__ == "__main__":
    main()
