"""Split a SQuAD file into two files with no common article and about equal numbers of questions.

    .venv/bin/python scripts/split_articles.py FILE OUT OTHER

A fixed seed shuffles the articles. Each article goes to the half with fewer questions so far.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lamina.errors import LaminaError
from lamina.utils.files import decode_text, read_bytes, unpack, write_json


def halves(corpus: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the two halves of a corpus.

    >>> corpus = {"data": [{"title": t, "paragraphs": [{"qas": [0] * n}]} for t, n in (("a", 3), ("b", 1), ("c", 2))]}
    >>> [sorted(article["title"] for article in half["data"]) for half in halves(corpus)]
    [['a'], ['b', 'c']]
    """
    articles = list(corpus["data"])
    random.Random(0).shuffle(articles)
    parts: tuple[list[Any], list[Any]] = [], []
    sizes = [0, 0]
    for article in articles:
        smaller = sizes.index(min(sizes))
        parts[smaller].append(article)
        sizes[smaller] += sum(len(paragraph["qas"]) for paragraph in article["paragraphs"])
    one, other = ({"version": corpus.get("version", ""), "data": part} for part in parts)
    return one, other


def main(file: Path, out: Path, other: Path) -> None:
    corpus = json.loads(decode_text(file, unpack(file, read_bytes(file))))
    for place, half in zip((out, other), halves(corpus), strict=True):
        write_json(place, half)
        print(place, sum(len(paragraph["qas"]) for article in half["data"] for paragraph in article["paragraphs"]), "questions")


if __name__ == "__main__":
    try:
        main(*map(Path, sys.argv[1:4]))
    except LaminaError as error:
        sys.exit(str(error))
