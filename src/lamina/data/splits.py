"""Choose subsets and splits of examples by a seed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Generic, Literal, TypeVar

import numpy as np

from lamina.data.examples import Example, Sentence
from lamina.data.labels import labels_in
from lamina.errors import LaminaError

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
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

    The share holds for each source. A second round takes articles that fit into the remaining share of all sources, but leaves
    at least half of each source. Articles of different sources that share a text are held out together.
    """
    if share == 0:
        return list(examples), []
    home = _home_articles(examples)
    sizes: dict[str, Counter[str]] = defaultdict(Counter)  # number of examples by article and source
    for example in examples:
        sizes[home[example.group]][example.source] += 1
    if len(sizes) == 1:
        raise LaminaError(
            "data.holdout: all questions are of one article, or share their texts, so none can be held out. "
            "Fix: set data.holdout = 0"
        )
    articles = list(sizes)
    order = [articles[index] for index in np.random.default_rng([seed, 2]).permutation(len(articles))]
    totals = sum(sizes.values(), Counter[str]())
    held = _fitting({article: sizes[article] for article in order}, totals, share)
    held = held or {min(articles, key=lambda article: (not _leaves_half(sizes[article], totals), sizes[article].total()))}
    return [e for e in examples if home[e.group] not in held], [e for e in examples if home[e.group] in held]


def _fitting(sizes: Mapping[str, Counter[str]], totals: Counter[str], share: float) -> set[str]:
    """Return the articles, in their order, that fit into the share of each source, then of all sources together."""
    left = {source: share * count for source, count in totals.items()}
    held: set[str] = set()
    for article, counts in sizes.items():
        if all(count <= left[source] for source, count in counts.items()):
            held.add(article)
            for source, count in counts.items():
                left[source] -= count
    room = sum(left.values())
    taken = sum((sizes[article] for article in held), Counter[str]())
    for article, counts in sizes.items():
        if article not in held and counts.total() <= room and _leaves_half(taken + counts, totals):
            held.add(article)
            taken += counts
            room -= counts.total()
    return held


def _leaves_half(taken: Counter[str], totals: Counter[str]) -> bool:
    """Return whether at least half of each source is not taken."""
    return all(2 * count <= totals[source] for source, count in taken.items())


def _home_articles(examples: Sequence[Example]) -> dict[str, str]:
    """Return the article of each question, that of its first context. Articles that share a text across sources are one.

    A text that answers no question, and is only one of several contexts everywhere, joins nothing. Such contexts come from
    searches and would join most articles; `without_unseen` leaves them out instead.
    """
    home: dict[str, str] = {}
    for example in examples:
        home.setdefault(example.group, example.article)
    if len({example.source for example in examples}) < 2:
        return home
    several = _with_several_contexts(examples)
    same_text: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        same_text[_comparable(example.context)].append(example)
    links = _Links[str]()
    for same in same_text.values():
        if len({e.source for e in same}) > 1 and any(e.answers or e.group not in several for e in same):
            for example in same:
                links.join(home[example.group], home[same[0].group])
    return {group: links.leader(article) for group, article in home.items()}


def without_texts_of(examples: Sequence[Example], held_out: Sequence[Example]) -> list[Example]:
    """Return the examples whose text no held-out example has.

    If the text answers its question, or is its only one, the question is left out with all of its contexts.
    """
    texts = {_comparable(example.context) for example in held_out}
    several = _with_several_contexts(examples)
    shared = [example for example in examples if _comparable(example.context) in texts]
    left_out = {example.group for example in shared if example.answers or example.group not in several}
    ids = {example.id for example in shared}
    return _not_empty([example for example in examples if example.group not in left_out and example.id not in ids])


def without_sentences_of(sentences: Sequence[Sentence], held_out: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences none of whose texts is a text of a held-out sentence."""
    texts = {text for sentence in held_out for text in _texts(sentence)}
    return _not_empty([sentence for sentence in sentences if texts.isdisjoint(_texts(sentence))])


def _texts(sentence: Sentence) -> list[str]:
    return [_comparable(text) for text in (sentence.first, sentence.second) if text is not None]


def _not_empty(left: list[T]) -> list[T]:
    if not left:
        raise LaminaError("data.held_out: holds all texts to train on. Fix: name a set of other texts")
    return left


def without_unseen(kept: Sequence[Example], held_out: Sequence[Example]) -> list[Example]:
    """Return the kept examples without unanswerable contexts that answer a held-out question.

    A question with several contexts has contexts of other articles. Otherwise the model would train on the texts that answer
    held-out questions, and always as texts without an answer. Questions with one context stay. Such contexts are left out too
    if a held-out question of another source has the same text.
    """
    unseen = {example.context for example in held_out if example.answers}
    several = _with_several_contexts(kept)
    sources: dict[str, set[str]] = defaultdict(set)  # of the held-out texts
    if len({example.source for example in held_out} | {example.source for example in kept}) > 1:
        for example in held_out:
            sources[_comparable(example.context)].add(example.source)

    def seen(example: Example) -> bool:
        other = sources and sources.get(_comparable(example.context), set()) - {example.source}
        return example.context in unseen or bool(other)

    return [e for e in kept if e.answers or e.group not in several or not seen(e)]


def _with_several_contexts(examples: Sequence[Example]) -> set[str]:
    """Return the ids of the questions with several contexts."""
    return {group for group, contexts in questions_of(examples).items() if len(contexts) > 1}


def hold_out_sentences(sentences: Sequence[Sentence], share: float, seed: int) -> tuple[list[Sentence], list[Sentence]]:
    """Return (kept, held out): about `share` of the rows and of each class, drawn by the seed.

    Rows that share a text, directly or through other rows, form a group and stay together. Groups come in an order drawn by
    the seed. The first round takes groups that fit into the remaining share of each of their classes. The second round takes
    groups that fit into the remaining share of all rows. If every group is too big, the smallest is held out. Scores are not
    classes: rows with scores are drawn whatever their scores are.
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
    links = _Links[int]()
    seen: dict[str, int] = {}
    for number, sentence in enumerate(sentences):
        for text in filter(None, (sentence.first, sentence.second)):
            links.join(number, seen.setdefault(_comparable(text), number))
    groups: dict[int, list[int]] = defaultdict(list)
    for number in range(len(sentences)):
        groups[links.leader(number)].append(number)
    return list(groups.values())


@lru_cache(maxsize=1024)  # a text has several questions
def _comparable(text: str) -> str:
    """Return a text without case and extra spaces."""
    return " ".join(text.casefold().split())


class _Links(Generic[H]):
    """Joins items into groups. Each group has one leader."""

    def __init__(self) -> None:
        self._above: dict[H, H] = {}

    def leader(self, item: H) -> H:
        """Return the leader of the item's group; an item that was never joined is its own."""
        while (above := self._above.get(item, item)) != item:
            self._above[item] = item = self._above.get(above, above)
        return item

    def join(self, one: H, other: H) -> None:
        """Make the groups of two items one group."""
        self._above[self.leader(one)] = self.leader(other)
