"""Fables: a synthetic encyclopaedia in SQuAD 2.0 form, generated from a seed, for the quickstart and for tests.

Its rivers, guilds and battles do not exist, so no model can answer from memory. A third of the questions have no answer in
their paragraph. The splits share relations, but neither templates nor names.

The generator and its tables belong here. `names`, `values`, `schema` and `kinds` are the tables. `engine`, `compose` and
`questions` generate articles. `statements`, `opinions` and `sentences` generate labelled sentences. Nothing here reads files.
"""

from __future__ import annotations

import random
from typing import Final

from lamina.data.fables import compose, questions
from lamina.data.fables.kinds import KINDS
from lamina.data.fables.names import Split
from lamina.data.fables.values import FreshValues
from lamina.data.squad_format import SquadArticle, SquadCorpus

VERSION: Final = "fables-1"
ARTICLES: Final[dict[Split, int]] = {"train": 320, "dev": 50}


def make(split: Split, *, articles: int | None = None, seed: int = 0) -> SquadCorpus:
    """Return the corpus as a SQuAD 2.0 object. A larger corpus starts with the articles of a smaller one."""
    if split not in ARTICLES:
        raise ValueError(f'split is {split!r}: choose "train" or "dev"')
    titles: set[str] = set()
    return {
        "version": VERSION,
        "data": [_article(split, number, seed, titles) for number in range(_number(split, articles))],
    }


def _number(split: Split, articles: int | None) -> int:
    if articles is None:
        return ARTICLES[split]
    if articles < 0:
        raise ValueError(f"articles = {articles}: choose 0 or more")
    return articles


def _article(split: Split, number: int, seed: int, titles: set[str]) -> SquadArticle:
    rng = random.Random(f"fables/{split}/{seed}/{number}")
    kind = KINDS[_kind_index(split, number, seed)]
    source = FreshValues(rng, split)
    main = compose.entity(kind, source)
    title = _distinct(_title(main.naming.name), titles)
    texts = [compose.paragraph(main, source, opening=place == 0, long=_long(number, place)) for place in range(2)]
    sizes = [min(len(text.facts), rng.choice((3, 3, 4))) for text in texts]
    unanswerable = _half_of(sum(sizes), rng)
    shares = [unanswerable // 2, unanswerable - unanswerable // 2]
    return {
        "title": title,
        "paragraphs": [
            {
                "context": text.context,
                "qas": questions.draw(text, answerable=size, unanswerable=share, prefix=f"fables-{split}-{number:04d}-{place}"),
            }
            for place, (text, size, share) in enumerate(zip(texts, sizes, shares, strict=True))
        ],
    }


def _long(number: int, place: int) -> bool:
    """Return whether a paragraph needs several windows, which is one in 64."""
    return place == 1 and number % 32 == 7


def _kind_index(split: Split, number: int, seed: int) -> int:
    """Return the kind of an article. Each run of ``len(KINDS)`` articles has every kind once, in a random order."""
    run, place = divmod(number, len(KINDS))
    return random.Random(f"fables/{split}/{seed}/kinds/{run}").sample(range(len(KINDS)), len(KINDS))[place]


def _half_of(total: int, rng: random.Random) -> int:
    """Return half of a number, rounded up or down at random: one unanswerable question for two answerable ones."""
    return total // 2 + (total % 2 and rng.randint(0, 1))


def _title(name: str) -> str:
    bare = name.removeprefix("the ")
    return bare[0].upper() + bare[1:]


def _distinct(name: str, titles: set[str]) -> str:
    """Return the name, with a number in brackets if another article has it already."""
    title, number = name, 1
    while title in titles:
        number += 1
        title = f"{name} ({number})"
    titles.add(title)
    return title
