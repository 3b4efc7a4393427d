"""Questions a second of the reader with each backend, and the cold start of `lamina ask` with and without torch.

    .venv/bin/python benchmarks/runtimes.py

All sides answer the same questions with the same model and take turns. `torch` computes in float32. The graphs are those
of the reader's folder, or are exported into a temporary folder if it has none. `transformers` runs the same weights with the
code of its example run_qa, windows sorted by length; the fastest of 8, 16 and 32 windows at once counts.

A cold start is a new process that answers one question; its memory is the peak of the resident set. `--clean PYTHON` names the
interpreter of an environment without torch, where Lamina is installed, for the start with onnx (benchmarks/install.py).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

import lamina
from common import faster, parser, print_ratio, print_table, read_examples, take_turns, use_threads
from infer_throughput import DYNAMIC_BATCHES, their_answers
from lamina.data.examples import Example
from lamina.data.splits import sample
from lamina.reader.exporting import export_onnx
from lamina.runs.export import export
from lamina.runtime.manifest import has_manifest
from lamina.utils.extras import installed
from lamina.utils.processor import has_vnni
from lamina.utils.shipped import READER, SHIPPED

TEXT = "The mill was built by Ada Thorn in 1712."
QUESTION = "Who built the mill?"
WARM_UP = 16  # questions
Answerer = Callable[[Sequence[Example]], Any]
# Runs a command and prints its seconds and its peak memory in megabytes.
COLD = """
import resource, subprocess, sys, time
began = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
seconds = time.perf_counter() - began
print(seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000)
"""


def main() -> None:
    known = parser(__doc__ or "", questions=500, data=["squad2-dev-cs224n"], repeats=3)
    known.add_argument("--clean", metavar="PYTHON", default=sys.executable, help="the interpreter for the cold start with onnx")
    options = known.parse_args()
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
        if has_vnni() and installed("openvino"):  # without VNNI, OpenVINO refuses 8 bits
            readers["openvino-int8"] = lamina.load(folder, backend="openvino", precision="int8", threads=options.threads)
        sides: dict[str, Answerer] = {name: reader.predict for name, reader in readers.items()}
        sides |= transformers_sides(readers["torch"], Path(temporary) / "transformers")
        for answer in sides.values():
            answer(examples[:WARM_UP])
        rates = take_turns({name: partial(rate, answer, examples) for name, answer in sides.items()}, options.repeats)
        starts = {name: cold_start(*words) for name, words in cold_commands(folder, options.clean).items()}
    print(f"{len(examples)} questions, {options.threads} threads")
    print_table(rates, "questions a second")
    for name, (seconds, megabytes) in starts.items():
        print(f"cold start, {name}: {seconds:.2f} s, {megabytes:.0f} MB")
    theirs = faster(rates, *(name for name in rates if name.startswith("transformers")))
    for name in ("onnx-float32", "onnx-int8"):
        print_ratio(f"{name}-to-torch", rates, name, "torch")
        print_ratio(f"{name}-to-transformers", rates, name, theirs)


def transformers_sides(reader: lamina.Reader, folder: Path) -> dict[str, Answerer]:
    """Return the answering functions of transformers, by the number of windows at once."""
    export(reader.trained, folder)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return {
        f"transformers, {batch} at once": partial(their_answers, model, tokenizer, batch=batch, padded=False)
        for batch in DYNAMIC_BATCHES
    }


def rate(answer: Answerer, examples: Sequence[Example], _: int) -> float:
    """Return the questions a second of a side."""
    began = time.perf_counter()
    answer(examples)
    return len(examples) / (time.perf_counter() - began)


def cold_commands(folder: Path, clean: str) -> dict[str, tuple[str, ...]]:
    """Return the command of each side that starts `lamina ask`."""
    ask = ("-m", "lamina", "ask", "--text", TEXT, QUESTION)
    return {
        "torch": (sys.executable, *ask, "--backend", "torch"),
        "onnx": (clean, *ask, "--model", str(folder), "--backend", "onnx"),
    }


def cold_start(*command: str) -> tuple[float, float]:
    """Return the seconds and the peak megabytes of one question in a new process, the fastest of three after one."""
    found = []
    for _ in range(4):
        done = subprocess.run([sys.executable, "-c", COLD, *command], capture_output=True, text=True, check=True)
        seconds, megabytes = map(float, done.stdout.split())
        found.append((seconds, megabytes))
    return min(found[1:])


if __name__ == "__main__":
    main()
