"""Score answers that need no model: a trained model must beat them.

    .venv/bin/python scripts/span_baselines.py DEV --like TRAIN --questions 1000

- ``none``: always "no answer"
- ``first words``: the first words of each context, as many as the median of TRAIN's answers has
- ``random span``: random words of each context, as many as a random answer of TRAIN has; the mean of several draws

A question with several contexts has the answer of a random one. Scores are the official ones of SQuAD 2.0, and KorQuAD's for
questions with an answer, by context and by question.
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
    options.add_argument("--like", required=True, metavar="TRAIN", help="take the lengths of answers from this data")
    options.add_argument("--questions", type=int, help="use only so many questions of the dev set (default all)")
    given = options.parse_args()
    examples = first_questions(load_examples(given.dev), given.questions)
    lengths = [len(answer.text.split()) for example in load_examples(given.like) for answer in example.answers]
    usual = median_low(lengths)
    baselines: dict[str, Answerer] = {
        "none": lambda example, draw: "",
        "first words": lambda example, draw: words(example.context, 0, usual),
        "random span": lambda example, draw: somewhere(example.context, draw.choice(lengths), draw),
    }
    found = {name: average([scores(examples, one, seed) for seed in range(DRAWS)]) for name, one in baselines.items()}
    print(json.dumps(found, indent=1))


def words(text: str, first: int, count: int) -> str:
    """Return `count` words of a text from the word number `first`, from 0.

    >>> words("an owl, two owls", 1, 2)
    'owl, two'
    """
    found = list(re.finditer(r"\S+", text))[first : first + count]
    return text[found[0].start() : found[-1].end()] if found else ""


def somewhere(text: str, count: int, draw: random.Random) -> str:
    return words(text, draw.randrange(max(1, len(text.split()) - count + 1)), count)


def scores(examples: Sequence[Example], answer: Answerer, seed: int) -> dict[str, dict[str, float]]:
    draw = random.Random(seed)
    answers = {example.id: answer(example, draw) for example in examples}
    found = judged(examples, answers, "context")
    if several_contexts(examples):
        chosen = {group: answers[draw.choice(own).id] for group, own in questions_of(examples).items()}
        found |= judged(whole_questions(examples), chosen, "question")
    return found


def judged(examples: Sequence[Example], answers: dict[str, str], per: str) -> dict[str, dict[str, float]]:
    official = score_squad2(references(examples), answers)
    kept: dict[str, float] = {name: official[name] for name in ("exact", "f1", "HasAns_f1", "NoAns_f1") if name in official}
    return {f"by {per}": kept, f"by {per}, KorQuAD": korquad([example for example in examples if example.answers], answers)}


def average(draws: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        kind: {name: round(mean(draw[kind][name] for draw in draws), 2) for name in values} for kind, values in draws[0].items()
    }


if __name__ == "__main__":
    main()
