"""Parts of a data set, drawn by a seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from lamina.data.examples import Example
from lamina.errors import LaminaError


def sample(examples: Sequence[Example], count: int | None, seed: int) -> list[Example]:
    """`count` of the examples, in their old order; all of them when `count` is None."""
    if count is None or count >= len(examples):
        return list(examples)
    chosen = np.random.default_rng([seed, 1]).permutation(len(examples))[:count]
    return [examples[i] for i in np.sort(chosen)]


def hold_out(examples: Sequence[Example], share: float, seed: int) -> tuple[list[Example], list[Example]]:
    """(kept, held out): whole articles are held out until they are about `share` of the questions.

    Articles come in an order drawn by the seed; one that would overshoot the share is passed over. When every article
    would, the smallest is held out.
    """
    if share == 0:
        return list(examples), []
    sizes = Counter(example.article for example in examples)
    if len(sizes) == 1:
        raise LaminaError("data.holdout: all questions are of one article, so none can be held out: set data.holdout = 0")
    articles = list(sizes)
    held: set[str] = set()
    left = share * len(examples)
    for index in np.random.default_rng([seed, 2]).permutation(len(articles)):
        if sizes[articles[index]] <= left:
            held.add(articles[index])
            left -= sizes[articles[index]]
    held = held or {min(articles, key=sizes.__getitem__)}
    return [e for e in examples if e.article not in held], [e for e in examples if e.article in held]
