"""Cut data into parts to hold out. The texts of one group, such as an article, stay in one part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from lamina.data.examples import Example, Sentence
from lamina.data.splits import hold_out_articles, hold_out_sentences, questions_of, without_unseen
from lamina.errors import LaminaError

FEWEST_GROUPS: Final = 8  # with fewer articles, a part would be one article or none


class Part(NamedTuple):
    """The examples to train on, and those to test on."""

    train: list[Any]
    test: list[Any]


def grouped(examples: Sequence[Example]) -> tuple[list[Example], str]:
    """Return the questions with the group that they are held out by as their article, and the noun of the groups.

    Groups are articles. If there are fewer than 8, or if one has more than half of the questions, groups are contexts. If
    contexts are like that too, groups are single questions.
    """
    first = {group: contexts[0] for group, contexts in questions_of(examples).items()}
    if _are_even(Counter(example.article for example in first.values())):
        return list(examples), "articles"
    sizes = Counter(example.context for example in first.values())
    if _are_even(sizes):
        number = {context: place for place, context in enumerate(sizes, 1)}
        return [replace(e, article=f"{e.article} (text {number[first[e.group].context]})") for e in examples], "texts"
    return [replace(e, article=f"{e.article} (question {e.group})") for e in examples], "questions"


def _are_even(sizes: Counter[str]) -> bool:
    """Return whether there are enough groups, none of them with more than half of the questions."""
    return len(sizes) >= FEWEST_GROUPS and 2 * max(sizes.values()) <= sizes.total()


def parts_of(examples: Sequence[Any], count: int, seed: int) -> list[Part]:
    """Return `count` parts of about equal size, each with all other examples to train on.

    Raises:
        LaminaError: There are fewer groups than parts.
    """
    left, tests = list(examples), list[list[Any]]()
    for more in range(count, 1, -1):
        left, test = _hold_out(left, 1 / more, seed)
        if not left:
            what = f"cannot be cut into {count} parts, because too many examples share an article or a text"
            raise LaminaError(f"data: {what}. Fix: add examples with other texts")
        tests.append(test)
    return [_part(examples, test) for test in (*tests, left)]


def _hold_out(examples: list[Any], share: float, seed: int) -> tuple[list[Any], list[Any]]:
    hold_out: Any = hold_out_sentences if isinstance(examples[0], Sentence) else hold_out_articles
    try:
        kept, held_out = hold_out(examples, share, seed)
    except LaminaError:  # one group is left
        return [], examples
    return kept, held_out


def _part(examples: Sequence[Any], test: list[Any]) -> Part:
    tested = {example.id for example in test}
    train = [example for example in examples if example.id not in tested]
    return Part(train if isinstance(test[0], Sentence) else without_unseen(train, test), test)
