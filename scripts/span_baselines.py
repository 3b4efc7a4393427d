"""What answers are worth that no model is needed for: the least that a trained one must beat.

    .venv/bin/python scripts/span_baselines.py DEV --like TRAIN --questions 1000

``none``         never an answer
``first words``  the first words of each context, as many as half of TRAIN's answers have at most
``random span``  words drawn from each context, as many as an answer drawn from TRAIN has; the mean of several draws

Over several contexts, a question has the answer of one drawn at random. Scores are the official ones of SQuAD 2.0 and, where
there is an answer, KorQuAD's, by context and by question.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Callable, Sequence
from statistics import mean, median_low
from typing import Any

from lamina.data.examples import Example
from lamina.data.sources import load_examples
from lamina.data.splits import first_questions, questions_of
from lamina.scoring.predictions import korquad, references, several_contexts, whole_questions
from lamina.scoring.squad import score_squad2

DRAWS = 5
Answerer = Callable[[Example, random.Random], str]


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("dev", help="a file, or a name in $LAMINA_DATA")
    options.add_argument("--like", required=True, metavar="TRAIN", help="whose answers are as long as those to give")
    options.add_argument("--questions", type=int, help="the first of the dev set (default all)")
    given = options.parse_args()
    examples = first_questions(load_examples(given.dev), given.questions)
    lengths = [len(answer.text.split()) for example in load_examples(given.like) for answer in example.answers]
    usual = median_low(lengths)
    ways: dict[str, Answerer] = {
        "none": lambda example, draw: "",
        "first words": lambda example, draw: words(example.context, 0, usual),
        "random span": lambda example, draw: somewhere(example.context, draw.choice(lengths), draw),
    }
    found = {name: average([scores(examples, way, seed) for seed in range(DRAWS)]) for name, way in ways.items()}
    print(json.dumps(found, indent=1))


def words(text: str, first: int, count: int) -> str:
    """
    >>> words("an owl, two owls", 1, 2)
    'owl, two'
    """
    found = list(re.finditer(r"\S+", text))[first : first + count]
    return text[found[0].start() : found[-1].end()] if found else ""


def somewhere(text: str, count: int, draw: random.Random) -> str:
    return words(text, draw.randrange(max(1, len(text.split()) - count + 1)), count)


def scores(examples: Sequence[Example], way: Answerer, seed: int) -> dict[str, dict[str, float]]:
    draw = random.Random(seed)
    said = {example.id: way(example, draw) for example in examples}
    found = judged(examples, said, "context")
    if several_contexts(examples):
        chosen = {group: said[draw.choice(own).id] for group, own in questions_of(examples).items()}
        found |= judged(whole_questions(examples), chosen, "question")
    return found


def judged(examples: Sequence[Example], said: dict[str, str], per: str) -> dict[str, dict[str, float]]:
    official = score_squad2(references(examples), said)
    kept: dict[str, float] = {name: official[name] for name in ("exact", "f1", "HasAns_f1", "NoAns_f1") if name in official}
    return {f"by {per}": kept, f"by {per}, KorQuAD": korquad([example for example in examples if example.answers], said)}


def average(draws: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        kind: {name: round(mean(draw[kind][name] for draw in draws), 2) for name in values} for kind, values in draws[0].items()
    }


if __name__ == "__main__":
    main()
