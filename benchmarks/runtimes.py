"""Questions a second of the reader with each backend, and the cold start of `lamina ask` with and without torch.

    .venv/bin/python benchmarks/runtimes.py

All sides answer the same questions with the same model and take turns. `torch` computes in float32. The graphs are those
of the reader's folder, or are exported into a temporary folder if it has none. A cold start is a new process that answers one
question; its memory is the peak of the resident set.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import lamina
from common import parser, print_ratio, print_table, read_examples, take_turns, use_threads
from lamina.data.examples import Example
from lamina.data.splits import sample
from lamina.reader.exporting import export_onnx
from lamina.runtime.manifest import has_manifest
from lamina.utils.shipped import READER, SHIPPED

TEXT = "The mill was built by Ada Thorn in 1712."
QUESTION = "Who built the mill?"
WARM_UP = 16  # questions
# Runs a command and prints its seconds and its peak memory in megabytes.
COLD = """
import resource, subprocess, sys, time
began = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
seconds = time.perf_counter() - began
print(seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000)
"""


def main() -> None:
    options = parser(__doc__ or "", questions=500, data=["squad2-dev-cs224n"], repeats=3).parse_args()
    use_threads(options.threads)
    examples = sample(read_examples(options.data, options.questions), options.questions, seed=0)
    with tempfile.TemporaryDirectory() as temporary:
        folder = SHIPPED[READER]
        if not has_manifest(folder):
            folder = Path(temporary) / "reader"
            export_onnx(lamina.load(backend="torch", device="cpu"), folder, int8=True)
        readers = {
            "torch": lamina.load(backend="torch", device="cpu", threads=options.threads),
            "onnx-float32": lamina.load(folder, backend="onnx", precision="float32", threads=options.threads),
            "onnx-int8": lamina.load(folder, backend="onnx", precision="int8", threads=options.threads),
        }
        for reader in readers.values():
            reader.predict(examples[:WARM_UP])
        rates = take_turns({name: partial(rate, reader, examples) for name, reader in readers.items()}, options.repeats)
        starts = {name: cold_start(*arguments) for name, arguments in cold_arguments(folder).items()}
    print(f"{len(examples)} questions, {options.threads} threads")
    print_table(rates, "questions a second")
    for name, (seconds, megabytes) in starts.items():
        print(f"cold start, {name}: {seconds:.2f} s, {megabytes:.0f} MB")
    for name in ("onnx-float32", "onnx-int8"):
        print_ratio(name, rates, name, "torch")


def rate(reader: lamina.Reader, examples: Sequence[Example], _: int) -> float:
    """Return the questions a second of a reader."""
    began = time.perf_counter()
    reader.predict(examples)
    return len(examples) / (time.perf_counter() - began)


def cold_arguments(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the options of `lamina ask` of each side."""
    exported = ("--model", str(folder), "--backend", "onnx")
    return {"torch": ("--backend", "torch"), "onnx": exported}


def cold_start(*arguments: str) -> tuple[float, float]:
    """Return the seconds and the peak megabytes of one question in a new process, the fastest of three."""
    command = [sys.executable, "-m", "lamina", "ask", *arguments, "--text", TEXT, QUESTION]
    found = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", COLD, *command], capture_output=True, text=True, check=True)
        seconds, megabytes = map(float, done.stdout.split())
        found.append((seconds, megabytes))
    return min(found)


if __name__ == "__main__":
    main()
