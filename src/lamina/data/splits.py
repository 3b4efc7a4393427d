"""Choose subsets and splits of examples by a seed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar

import numpy as np

from lamina.data.examples import Example, Sentence
from lamina.data.labels import labels_in
from lamina.errors import LaminaError

T = TypeVar("T")
Choose = Literal["answerable_first", "first", "sampled"]

FEWEST_HELD_OUT = 10  # examples, unless that is more than a third of them


def sample(items: Sequence[T], count: int | None, seed: int) -> list[T]:
    """Return `count` random items in their old order, or all if `count` is None."""
    if count is None or count >= len(items):
        return list(items)
    chosen = np.random.default_rng([seed, 1]).permutation(len(items))[:count]
    return [items[i] for i in np.sort(chosen)]


def every(items: Sequence[T], n: int) -> tuple[list[T], list[T]]:
    """Return the items in two lists: the rest, and those whose position is a multiple of `n`.

    >>> every("abcdefg", 3)
    (['b', 'c', 'e', 'f'], ['a', 'd', 'g'])
    """
    return [item for position, item in enumerate(items) if position % n], list(items[::n])


def per_class(sentences: Sequence[Sentence], count: int | None, seed: int) -> list[Sentence]:
    """Return at most `count` random sentences of each label, in their old order, or all if `count` is None.

    A larger `count` gives the same sentences and more.
    """
    if count is None:
        return list(sentences)
    seen: Counter[str | None] = Counter()
    chosen = []
    for index in np.random.default_rng([seed, 3]).permutation(len(sentences)).tolist():
        label = sentences[index].label
        if seen[label] < count:
            seen[label] += 1
            chosen.append(index)
    return [sentences[i] for i in sorted(chosen)]


def questions_of(examples: Iterable[Example]) -> dict[str, list[Example]]:
    """Return the examples of each question by its id, in the order of their first contexts."""
    found: dict[str, list[Example]] = {}
    for example in examples:
        found.setdefault(example.group, []).append(example)
    return found


def sample_questions(examples: Sequence[Example], count: int | None, seed: int) -> list[Example]:
    """Return `count` random questions with all of their contexts, in their old order, or all if `count` is None."""
    chosen = set(sample(list(questions_of(examples)), count, seed))
    return [example for example in examples if example.group in chosen]


def first_questions(examples: Sequence[Example], count: int | None) -> list[Example]:
    """Return the first `count` questions with all of their contexts, or all if `count` is None."""
    chosen = set(list(questions_of(examples))[:count])
    return [example for example in examples if example.group in chosen]


def choose_contexts(examples: Sequence[Example], count: int | None, how: Choose, seed: int) -> list[Example]:
    """Return at most `count` contexts of each question, in their old order, or all if `count` is None.

    ``answerable_first`` takes contexts with an answer before the others, each in their order. ``first`` takes the first ones.
    ``sampled`` draws them by the seed; the draw of a question does not depend on the other questions.
    """
    if count is None:
        return list(examples)
    chosen: set[str] = set()
    for group, contexts in questions_of(examples).items():
        if how == "answerable_first":
            ranked = sorted(contexts, key=lambda example: not example.answers)
        elif how == "first":
            ranked = contexts
        else:
            draw = np.random.default_rng([seed, 5, *group.encode(errors="replace")])
            ranked = [contexts[place] for place in draw.permutation(len(contexts))]
        chosen.update(example.id for example in ranked[:count])
    return [example for example in examples if example.id in chosen]


def holdout_share(share: float, count: int) -> float:
    """Return the share of `count` examples to hold out: `share`, but enough for 10 examples, and then at most a third.

    A threshold that is fitted on one or two examples would be chance. A share of 0 stays 0.

    >>> holdout_share(0.05, 1000), holdout_share(0.05, 100), round(holdout_share(0.05, 24), 3), holdout_share(0.0, 24)
    (0.05, 0.1, 0.333, 0.0)
    """
    if share == 0 or share * count >= FEWEST_HELD_OUT:
        return share
    return max(share, min(FEWEST_HELD_OUT / count, 1 / 3))


def hold_out_articles(examples: Sequence[Example], share: float, seed: int) -> tuple[list[Example], list[Example]]:
    """Return (kept, held out): whole articles are held out until they are about `share` of the questions.

    Articles come in a random order. An article that would exceed the share is skipped. If every article would, the smallest
    is held out. A question with several contexts belongs to the article of the first one: all of its contexts are held out,
    or none.
    """
    if share == 0:
        return list(examples), []
    home: dict[str, str] = {}  # question -> article
    for example in examples:
        home.setdefault(example.group, example.article)
    sizes = Counter(home[example.group] for example in examples)
    if len(sizes) == 1:
        raise LaminaError("data.holdout: all questions are of one article, so none can be held out. Fix: set data.holdout = 0")
    articles = list(sizes)
    held: set[str] = set()
    left = share * len(examples)
    for index in np.random.default_rng([seed, 2]).permutation(len(articles)):
        if sizes[articles[index]] <= left:
            held.add(articles[index])
            left -= sizes[articles[index]]
    held = held or {min(articles, key=sizes.__getitem__)}
    return [e for e in examples if home[e.group] not in held], [e for e in examples if home[e.group] in held]


def without_unseen(kept: Sequence[Example], held_out: Sequence[Example]) -> list[Example]:
    """Return the kept examples without unanswerable contexts that answer a held-out question.

    A question with several contexts has contexts of other articles. Otherwise the model would train on the texts that answer
    held-out questions, and always as texts without an answer. Questions with one context stay.
    """
    unseen = {example.context for example in held_out if example.answers}
    several = {group for group, contexts in questions_of(kept).items() if len(contexts) > 1}
    return [e for e in kept if e.answers or e.group not in several or e.context not in unseen]


def hold_out_sentences(sentences: Sequence[Sentence], share: float, seed: int) -> tuple[list[Sentence], list[Sentence]]:
    """Return (kept, held out): about `share` of the rows and of each class, drawn by the seed.

    Rows that share a text, directly or through other rows, form a group and stay together. Groups come in a random order. The
    first round takes groups that fit into the remaining share of each of their classes. The second round takes groups that
    fit into the remaining share of all rows. If every group is too big, the smallest is held out. Scores are not classes.
    """
    if share == 0:
        return list(sentences), []
    groups = _sharing_texts(sentences)
    if len(groups) < 2:
        raise LaminaError("data.holdout: all rows share their texts, so none can be held out. Fix: set data.holdout = 0")
    scores = labels_in(sentence.label for sentence in sentences if sentence.label is not None).are_scores
    strata = [Counter(None if scores else sentences[member].label for member in group) for group in groups]
    left = {label: int(share * count) for label, count in sum(strata, Counter()).items()}
    order = np.random.default_rng([seed, 4]).permutation(len(groups)).tolist()
    held: set[int] = set()
    for index in order:
        if all(count <= left[label] for label, count in strata[index].items()):
            held.add(index)
            for label, count in strata[index].items():
                left[label] -= count
    room = share * len(sentences) - sum(len(groups[index]) for index in held)
    for index in order:
        if index not in held and len(groups[index]) <= room:
            held.add(index)
            room -= len(groups[index])
    if not held:
        held = {min(range(len(groups)), key=lambda index: len(groups[index]))}
    out = {member for index in held for member in groups[index]}
    return [s for n, s in enumerate(sentences) if n not in out], [s for n, s in enumerate(sentences) if n in out]


def _sharing_texts(sentences: Sequence[Sentence]) -> list[list[int]]:
    """Return groups of indices. Sentences with an equal text, without case and extra spaces, are in one group."""
    leader = list(range(len(sentences)))

    def lead(member: int) -> int:
        while leader[member] != member:
            leader[member] = member = leader[leader[member]]
        return member

    seen: dict[str, int] = {}
    for number, sentence in enumerate(sentences):
        for text in filter(None, (sentence.first, sentence.second)):
            other = seen.setdefault(" ".join(text.casefold().split()), number)
            leader[lead(number)] = lead(other)
    groups: dict[int, list[int]] = defaultdict(list)
    for number in range(len(sentences)):
        groups[lead(number)].append(number)
    return list(groups.values())
