"""Measure questions per second: `lamina.pipeline` against the question-answering pipeline of `transformers` 4.57.6.

Both answer the same questions, 5 on each of 100 contexts of the dev set. They have the same float32 weights: the default
encoder with a random span head. Both have their defaults: whole words, windows of 384 tokens. The time is that of a call with
all questions. The old pipeline runs in its own interpreter, which this script keeps open:

    python -m venv old && old/bin/pip install torch==2.13.0 transformers==4.57.6
    python benchmarks/pipeline.py --old old/bin/python

The share of peak is the FLOPs per second of our side over those of large matrix products (see common.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, cast

BATCHES = (1, 2, 8)  # questions at once of the old pipeline; 1 is its default
CONTEXTS, QUESTIONS = 100, 5
WARM_UP = 8  # questions, on each side
OLD_VERSION = "4.57.6"
DISAGREEMENT = 0.01  # maximum share of the answers


def main() -> None:
    from common import parser, peak_flops, print_ratio, print_table, read_examples, take_turns, use_threads

    options = parser(__doc__ or "", questions=CONTEXTS * QUESTIONS, data=["squad2-dev-cs224n"], repeats=3)
    options.add_argument("--old", required=True, help="the python of an environment with transformers 4.57.6")
    given = options.parse_args()
    use_threads(given.threads)
    asked = choose(read_examples(given.data), given.questions)
    with tempfile.TemporaryDirectory() as folder:
        ours, flops = our_pipeline(Path(folder), asked)
        ours(asked[:WARM_UP])
        old = Old(given.old, Path(folder), given.threads, asked)
        answers: dict[str, list[str]] = {}

        def our_turn(_: int) -> float:
            began = time.perf_counter()
            found = ours(asked)
            seconds = time.perf_counter() - began
            answers["ours"] = [answer["answer"] for answer in found]
            return len(asked) / seconds

        def old_turn(batch: int, _: int) -> float:
            seconds, answers[f"old, {batch}"] = old.run(batch)
            return len(asked) / seconds

        sides = {"ours": our_turn} | {f"old, {batch} at once": partial(old_turn, batch) for batch in BATCHES}
        peaks: list[float] = []
        rates = take_turns(sides, given.repeats, between=lambda: peaks.append(peak_flops()))
        old.close()
    print(f"{len(asked)} questions, {given.threads} threads")
    print_table(rates, "questions a second")
    for name, theirs in answers.items():
        different = sum(a != b for a, b in zip(answers["ours"], theirs, strict=True))
        if different > 1 + DISAGREEMENT * len(asked):
            raise SystemExit(f"ours and {name} give {different} different answers, so the times are not comparable")
    best = max(sides.keys() - {"ours"}, key=lambda name: median(rates[name]))
    print(f"the old pipeline is fastest with {best.removeprefix('old, ')}")
    print_ratio("best-batch", rates, "ours", best)
    print_ratio("batch-8", rates, "ours", "old, 8 at once")
    print(f"share of peak: {median(rates['ours']) / len(asked) * flops / median(peaks):.2f}")


def choose(examples: Sequence[Any], count: int) -> list[dict[str, str]]:
    """Return the first `count` questions, five on each context, in the order of the file."""
    by_context: dict[str, list[str]] = {}
    for example in examples:
        by_context.setdefault(example.context, []).append(example.question)
    full = [(text, asked[:QUESTIONS]) for text, asked in by_context.items() if len(asked) >= QUESTIONS]
    pairs = [{"question": question, "context": text} for text, asked in full for question in asked]
    return pairs[:count]


def our_pipeline(folder: Path, asked: list[dict[str, str]]) -> tuple[Any, float]:
    """Return our pipeline for a folder that both sides read, and the FLOPs of a call."""
    import numpy as np

    from lamina.config.build import build_model
    from lamina.config.parse import parse_recipe
    from lamina.data.tokenizer import Tokenizer
    from lamina.data.windows import Cutting, WindowOptions
    from lamina.encoder import load as encoders
    from lamina.reader.pipeline import pipeline
    from lamina.runs.export import export
    from lamina.runs.load import Trained

    recipe = parse_recipe({"data": {"train": ""}})
    source = encoders.find(recipe.encoder)
    model = build_model(recipe, encoders.load(source)).eval()
    export(Trained(recipe=recipe, model=model, tokenizer=Tokenizer(source.tokenizer)), folder / "model")
    cutting = Cutting(
        [pair["question"] for pair in asked],
        [pair["context"] for pair in asked],
        Tokenizer(source.tokenizer),
        WindowOptions(length=384, overlap=128, query=None),
    )
    config = model.encoder.config
    weights = config.layers * (4 * config.hidden**2 + 2 * config.hidden * config.intermediate)
    lengths = np.concatenate([windows.lengths for windows in cutting.pieces()])
    flops = float((lengths * (2 * weights + 4 * lengths * config.hidden * config.layers)).sum())
    return pipeline("question-answering", model=folder / "model", device="cpu"), flops


class Old:
    """The old pipeline in its own process. It reads lines with a batch size, and prints seconds and answers for each."""

    def __init__(self, python: str, folder: Path, threads: int, asked: list[dict[str, str]]) -> None:
        (folder / "asked.json").write_text(json.dumps(asked))
        command = [python, __file__, "--worker", str(folder), str(threads)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, batch: int) -> tuple[float, list[str]]:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(batch, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("--old: the old pipeline's process has ended. Fix: see its message above")
        seconds, answers = json.loads(line)
        return seconds, cast(list[str], answers)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def worker(folder: Path, threads: int) -> None:
    import torch
    import transformers

    if transformers.__version__ != OLD_VERSION:
        raise SystemExit(f"--old: transformers {transformers.__version__} must be {OLD_VERSION}. Fix: install that version")
    torch.set_num_threads(threads)
    asked = json.loads((folder / "asked.json").read_text())
    pipe = transformers.pipeline("question-answering", model=str(folder / "model"), device="cpu")
    pipe(asked[:WARM_UP])
    for line in sys.stdin:
        began = time.perf_counter()
        found = pipe(asked, batch_size=int(line))
        print(json.dumps([time.perf_counter() - began, [answer["answer"] for answer in found]]), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
