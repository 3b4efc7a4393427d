"""Compare `lamina fit` on sentences with SetFit and with logistic regression, at equal minutes.

For each draw, some rows of each class are the training set. SetFit trains with its defaults and its time is measured. Then
`lamina fit` gets the same number of minutes and the same encoder. Both are scored on the same test set. Results are added to
OUT, a JSON file. What is in it already is not measured again.

    .venv/bin/python scripts/setfit_comparison.py OUT ids-sst-train ids-sst-dev --python setfit/bin/python --rows 32 --draws 3

`setfit_training.py` says how to make the environment of SetFit.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import lamina
from lamina.data.examples import Sentence
from lamina.data.sentences import ColumnOptions
from lamina.data.sources import load_sentences
from lamina.encoder.load import minilm_folder
from lamina.fitting.starts import sentence_start
from lamina.utils.files import write_json
from lamina.utils.progress import shown

SETFIT = Path(__file__).parent / "setfit_training.py"
FOUND = ("logistic", "fit", "setfit")


def drawn(rows: Sequence[Sentence], count: int, seed: int) -> list[Sentence]:
    """Return this many rows of each label."""
    by_label: defaultdict[str, list[Sentence]] = defaultdict(list)
    for row in rows:
        by_label[str(row.label)].append(row)
    draw = random.Random(seed)
    return [row for label in sorted(by_label) for row in draw.sample(by_label[label], count)]


def accuracy(reader: lamina.Reader, test: Sequence[Sentence]) -> float:
    """Return the share of right labels."""
    found = reader.predictions(test, wanted=["predictions"])["predictions"]
    return mean(str(found[row.id]) == str(row.label) for row in test)


def of_setfit(python: Path, encoder: Path, train: Sequence[Sentence], test: Sequence[Sentence]) -> dict[str, float]:
    """Train SetFit in its own environment and return its accuracy and seconds."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / "train.json", Path(folder) / "test.json"]
        for file, rows in zip(files, (train, test), strict=True):
            write_json(file, [[row.first, str(row.label)] for row in rows])
        command = [python, SETFIT, encoder, *files]
        printed = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found


def measure(given: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Return the accuracies of one draw and the minutes that SetFit took."""
    train, test = drawn(load_sentences(given.train), given.rows, seed), load_sentences(given.test)
    theirs = of_setfit(given.python, minilm_folder(), train, test)
    minutes = theirs["seconds"] / 60
    with tempfile.TemporaryDirectory() as folder, shown() as progress:
        start = sentence_start(None, train, ColumnOptions(), {}).prepare(train, Path(folder) / "start").reader
        rows = [{"text": row.first, "label": row.label} for row in train]
        fitted = lamina.fit(rows, Path(folder) / "run", minutes=minutes, progress=progress)
        found = (accuracy(start, test), accuracy(lamina.load(fitted.run.path), test), theirs["accuracy"])
    key = {"train": given.train, "rows": given.rows, "seed": seed}
    return {**key, "minutes": minutes, "choice": list(fitted.choice), **dict(zip(FOUND, found, strict=True))}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path, help="JSON file of results to add to")
    parser.add_argument("train", help="name or file of labelled sentences to draw from")
    parser.add_argument("test", help="name or file of labelled sentences to score on")
    parser.add_argument("--python", type=Path, required=True, help="Python of the environment that has setfit")
    parser.add_argument("--rows", type=int, default=32, help="rows of each class")
    parser.add_argument("--draws", type=int, default=3, help="how many training sets to draw")
    given = parser.parse_args()
    found: list[dict[str, Any]] = json.loads(given.out.read_text()) if given.out.exists() else []
    for seed in range(given.draws):
        key = {"train": given.train, "rows": given.rows, "seed": seed}
        if not any(key.items() <= row.items() for row in found):
            found.append(measure(given, seed))
            write_json(given.out, found)
    ours = [row for row in found if (row["train"], row["rows"]) == (given.train, given.rows)]
    for name in FOUND:
        values = [row[name] for row in ours]
        print(f"{name:9} {mean(values):.3f}  ({', '.join(f'{value:.3f}' for value in values)})")


if __name__ == "__main__":
    main()
