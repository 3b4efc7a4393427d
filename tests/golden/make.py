"""Asks the question-answering pipeline of `transformers` 4.57.6, the last 4.x, and writes down what it says.

    python -m venv old && old/bin/pip install torch==2.13.0 transformers==4.57.6
    old/bin/python tests/golden/make.py

Needs nothing of Lamina. The answers are in pipeline.json.gz; this is how they came to be, not a test.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
import transformers

from tests.golden import GOLDEN, TRAINED, cases, checkpoints


def main() -> None:
    assert transformers.__version__ == "4.57.6", transformers.__version__
    torch.set_num_threads(1)
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        places = {name: checkpoints.write(name, Path(folder) / name) for name in checkpoints.names()}
        for name, place in (places | {TRAINED.name: TRAINED}).items():
            answer = transformers.pipeline("question-answering", model=str(place), device="cpu", torch_dtype=torch.float32)
            found += [case._asdict() | ask(answer, case) for case in cases.cases(name)]
            print(name, len(found), file=sys.stderr)
    with gzip.GzipFile(GOLDEN / "pipeline.json.gz", "wb", mtime=0) as file:
        file.write(json.dumps(found, ensure_ascii=False, indent=0).encode())


def ask(answer: Any, case: cases.Case) -> dict[str, Any]:
    try:
        result = answer(question=cases.QUESTIONS[case.question], context=cases.TEXTS[case.text], **case.options)
    except BaseException as error:  # the tokenizers' panics are not Exceptions
        return {"error": type(error).__name__, "message": str(error)[:200]}
    return {"result": result}


if __name__ == "__main__":
    main()
