"""Write a finished run into the package as the reader: weights in 8 bits, graphs, scores, a plot and the model card.

    .venv/bin/python scripts/ship_reader.py runs/reader squad2-dev-cs224n tests/reader/five_documents.json

The 8-bit weights are scored on the dev set by torch. If their F1 differs by more than 0.2 from that of the run, nothing is
written. Then the graphs that compute in 8 bits are scored. The card and onnx.json tell whether their answers are equivalent.
If they differ by more than 0.5 points, the reader gets graphs in float32 only. The old reader is replaced at the end.
`scripts/reader_card.md` is the text of the card; its `{names}` are filled with measured values.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import reliability

import lamina
from lamina.answers.calibration import calibration_error
from lamina.data.examples import Example
from lamina.data.sources import load_examples
from lamina.reader.exporting import MARGIN, compare_precisions, note_equivalence
from lamina.runs.load import as_torch
from lamina.runs.onnx_folder import GraphOptions, calibration_windows, write_graphs
from lamina.scoring.predictions import references, score_all
from lamina.scoring.recalibration import replies_of
from lamina.scoring.significance import bootstrap_interval
from lamina.scoring.squad import question_scores
from lamina.utils.files import read_json, write_atomically, write_json
from lamina.utils.shipped import READER, SHIPPED

LARGEST = 36_000_000  # bytes of the folder
TOLERANCE = 0.2  # points of F1 that 8 bits may cost
CARD = Path(__file__).parent / "reader_card.md"
PLOT = "calibration.svg"


def main(name: str, data: str, documents: str) -> None:
    run = lamina.Reader(replace(as_torch(lamina.load(name, backend="torch", device="cpu").trained), language="en"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / READER
        run.save(folder, license="apache-2.0", weights="int8")
        small = lamina.load(folder, backend="torch", device="cpu")
        examples = load_examples(data)
        began = time.monotonic()
        predictions = small.predict(examples)
        seconds = time.monotonic() - began
        scores = score_all(predictions, examples, small.threshold)
        whole = read_json(Path(name) / "scores.json")
        if scores["tuned"]["total"] != whole["tuned"]["total"]:
            raise SystemExit(f"{data}: the run was scored on other questions; name its dev set. Nothing was written")
        print(f"F1 tuned, best: float32 {_f1(whole)}, int8 {_f1(scores)}")
        if any(abs(scores[at]["f1"] - whole[at]["f1"]) > TOLERANCE for at in ("tuned", "best")):
            raise SystemExit(f"8 bits cost more than {TOLERANCE} points of F1; nothing was written")
        measured = {
            **described(small, examples, predictions, scores),
            "speed": f"{len(examples) / seconds:.0f}",
            "cores": f"{len(os.sched_getaffinity(0))} core{'s' if len(os.sched_getaffinity(0)) > 1 else ''}",
            "documents": f"{right_in(small, load_examples(documents))} of {len(load_examples(documents))}",
            "float32": _f1(whole),
            "seed": str(run.recipe.train.seed),
            "megabytes": f"{sum(file.stat().st_size for file in folder.iterdir()) / 1e6:.1f}",
        }
        write_json(folder / "scores.json", scores)
        reliability.draw(predictions, examples, small.calibration, folder / PLOT)
        card = CARD.read_text(encoding="utf-8").format(**measured)
        write_atomically(folder / "README.md", card.encode())
        print(add_graphs(small, folder, examples))
        size = sum(file.stat().st_size for file in folder.iterdir())
        if size > LARGEST:
            raise SystemExit(f"the folder has {size:,} bytes, but {LARGEST:,} at most are shipped; nothing was written")
        shutil.rmtree(SHIPPED[READER], ignore_errors=True)
        shutil.copytree(folder, SHIPPED[READER])
    print(f"{SHIPPED[READER]}: {size / 1e6:.1f} MB\n{measured}")


def add_graphs(small: lamina.Reader, folder: Path, examples: list[Example]) -> str:
    """Write the graphs that read the weights of a folder, and whether 8 bits are equivalent; return that as text.

    Args:
        small: The reader of the folder, run by torch.
        folder: The folder, complete but for its graphs.
        examples: Labelled questions. 200 windows of the run's training data, not these, give the ranges of values.
    """
    trained = as_torch(small.trained)
    write_graphs(trained, folder, GraphOptions(inside=False, windows=calibration_windows(trained)))
    table = compare_precisions(small, folder, examples)
    if abs(table["difference"]) > MARGIN:
        for file in folder.glob("*_quantized.onnx"):
            file.unlink()
        write_graphs(trained, folder, GraphOptions(inside=False))
        return f"graphs in float32 only, since 8 bits differ too much: {table['text']}"
    note_equivalence(folder, table)
    return str(table["text"])


def described(
    reader: lamina.Reader,
    examples: Sequence[Example],
    predictions: Sequence[lamina.Prediction],
    scores: Mapping[str, Mapping[str, float]],
) -> dict[str, str]:
    """Return the rows of the score table with their intervals, and the calibration error of the replies."""
    replies = replies_of(reader.decision, predictions)
    exact, f1 = question_scores(references(examples), replies.texts)
    answerable = np.array([bool(example.answers) for example in examples])
    articles = np.unique([example.article for example in examples], return_inverse=True)[1]
    found = {"questions": f"{len(examples):,}", "none": f"{100 * (1 - answerable.mean()):.1f}"}
    for kind, rows in (("all", answerable | True), ("HasAns", answerable), ("NoAns", ~answerable)):
        for metric, by_id in (("em", exact), ("f1", f1)):
            values = 100 * np.array([by_id[example.id] for example in examples])[rows]
            low, high = bootstrap_interval(values, articles[rows])
            found[f"{kind}_{metric}"] = f"{values.mean():.1f} ({low:.1f} to {high:.1f})"
    for at in ("zero", "best"):
        found |= {f"{at}_em": f"{scores[at]['exact']:.1f}", f"{at}_f1": f"{scores[at]['f1']:.1f}"}
    found["zero_HasAns"] = f"{scores['zero']['HasAns_f1']:.1f}"
    error = calibration_error(replies.confidences, [exact[example.id] == 1 for example in examples])
    return found | {"error": f"{error:.3f}"}


def right_in(reader: lamina.Reader, examples: Sequence[Example]) -> int:
    """Return how many questions have the right reply: one of the references, or "no answer" if there is none."""
    found = reader.predictions(examples)["predictions"]
    exact, _ = question_scores(references(examples), {key: str(value) for key, value in found.items()})
    return int(sum(exact.values()))


def _f1(scores: Mapping[str, Any]) -> str:
    return f"{scores['tuned']['f1']:.2f}, {scores['best']['f1']:.2f}"


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
