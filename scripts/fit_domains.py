"""Measure what `lamina fit` gains in domains that the reader never saw.

For each dataset, 300 questions of held-out articles are the test. Some questions of the other articles go to `lamina fit`.
Prints the F1 of the start and of the model that was handed out on the test, and the 95% interval of the difference by article.
Results are added to OUT, a JSON file. What is in it already is not measured again.

.venv/bin/python scripts/fit_domains.py OUT policyqa-dev fairytaleqa-extractive subjqa-train-dev --questions 200 30 --minutes 5
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import lamina
from lamina.data.examples import Example
from lamina.data.sources import load_examples
from lamina.data.splits import hold_out_articles, sample_questions
from lamina.reader.load import Reader
from lamina.scoring.predictions import references
from lamina.scoring.significance import bootstrap_interval
from lamina.scoring.squad import question_scores
from lamina.utils.arrays import Doubles
from lamina.utils.files import write_json
from lamina.utils.progress import shown
from lamina.utils.shipped import READER

TEST = 300  # questions


def split(name: str, seed: int) -> tuple[list[Example], list[Example]]:
    """Return the questions to fit on, and 300 questions of other articles."""
    examples = load_examples(name)
    rest, held_out = hold_out_articles(examples, max(0.2, 1.2 * TEST / len(examples)), seed)
    return rest, sample_questions(held_out, TEST, seed)


def f1_of(reader: Reader, examples: Sequence[Example]) -> Doubles:
    """Return the F1 of each question in percent, at the reader's threshold."""
    answers = reader.predictions(examples, wanted=["predictions"])["predictions"]
    _, f1 = question_scores(references(examples), answers)
    return np.array([100 * f1[example.id] for example in examples])


def measure(name: str, count: int, minutes: float, seed: int) -> dict[str, Any]:
    """Fit the shipped reader to some questions of a dataset and return its scores on the test."""
    rest, test = split(name, seed)
    given = sample_questions(rest, count, seed)
    with tempfile.TemporaryDirectory() as folder, shown() as progress:
        fitted = lamina.fit(given, Path(folder) / "run", minutes=minutes, progress=progress)
        before, after = (f1_of(lamina.load(one, backend="torch"), test) for one in (READER, fitted.run.path))
    articles = np.unique([example.article for example in test], return_inverse=True)[1]
    low, high = bootstrap_interval(after - before, articles)
    return {
        "data": name,
        "questions": count,
        "minutes": minutes,
        "seed": seed,
        "before": float(before.mean()),
        "after": float(after.mean()),
        "low": low,
        "high": high,
        "kept_start": fitted.kept_start,
        "choice": list(fitted.choice),
        "unanswerable": {"given": share(given), "test": share(test)},
    }


def share(examples: Sequence[Example]) -> float:
    """Return the share of unanswerable questions."""
    return float(np.mean([not example.answers for example in examples]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what `lamina fit` gains in other domains.")
    parser.add_argument("out", type=Path, help="JSON file of results to add to")
    parser.add_argument("data", nargs="+", help="names or files of questions")
    parser.add_argument("--questions", type=int, nargs="+", default=[200, 30], help="how many questions to fit on")
    parser.add_argument("--minutes", type=float, default=5.0, help="time of each fit")
    parser.add_argument("--seed", type=int, default=0, help="seed of the splits")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = json.loads(given.out.read_text()) if given.out.exists() else []
    for count in given.questions:
        for name in given.data:
            key = {"data": name, "questions": count, "minutes": given.minutes, "seed": given.seed}
            if not any(key.items() <= row.items() for row in rows):
                rows.append(measure(name, count, given.minutes, given.seed))
                write_json(given.out, rows)
            row = next(row for row in rows if key.items() <= row.items())
            gain = f"{row['after'] - row['before']:+.1f} ({row['low']:+.1f} to {row['high']:+.1f})"
            print(f"{name:24} {count:4} questions: F1 {row['before']:.1f} -> {row['after']:.1f}, {gain}", flush=True)


if __name__ == "__main__":
    main()
