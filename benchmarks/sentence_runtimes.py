"""Texts per second of `Reader.embed` in 8 bits, against the ONNX backend in 8 bits of sentence-transformers.

Both sides embed the first texts of pairs with the default encoder and the mean of its last states. They take turns. The other
library has its own interpreter and its own 8 bits (`export_dynamic_quantized_onnx_model`, for AVX-512 with VNNI or for AVX2).
The fastest of 32 and 128 texts at once counts. Also prints the cosine of each side to float32.

    python -m venv other && other/bin/pip install torch==2.13.0 'sentence-transformers[onnx]'
    python benchmarks/sentence_runtimes.py --other other/bin/python
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

BATCHES = (32, 128)  # texts at once of the other library; 32 is its default
WARM_UP = 64  # texts


def main() -> None:
    import lamina
    from common import faster, find_data, parser, print_ratio, print_table, take_turns, use_threads
    from lamina.data.sources import load_sentences
    from lamina.encoder.load import minilm_folder
    from lamina.reader.exporting import export_onnx

    options = parser(__doc__ or "", questions=3000, data=["sts-train"], repeats=3, what="texts")
    options.add_argument("--other", required=True, help="the python of an environment with sentence-transformers[onnx]")
    given = options.parse_args()
    use_threads(given.threads)
    find_data()
    texts = [row.first for row in load_sentences(given.data[0])][: given.texts]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        whole = untrained(folder, given.data[0])
        export_onnx(whole, folder / "graphs", int8=True)
        ours = lamina.load(folder / "graphs", backend="onnx", precision="int8", threads=given.threads)
        ours.embed(texts[:WARM_UP])
        other = Other(given.other, folder, minilm_folder(), given.threads, texts)

        def our_turn(_: int) -> float:
            began = time.perf_counter()
            ours.embed(texts)
            return len(texts) / (time.perf_counter() - began)

        sides: dict[str, Any] = {"ours": our_turn} | {
            f"sentence-transformers, {batch} at once": partial(other.rate, batch) for batch in BATCHES
        }
        rates = take_turns(sides, given.repeats)
        exact = whole.embed(texts[:1000])
        cosines = {
            "ours": (ours.embed(texts[:1000]) * exact).sum(1),
            "sentence-transformers": (other.vectors() * exact).sum(1),
        }
        other.close()
    print(f"{len(texts)} texts, {given.threads} threads")
    print_table(rates, "texts a second")
    for name, found in cosines.items():
        print(f"cosine to float32, {name}: mean {found.mean():.4f}, lowest {found.min():.4f}")
    print_ratio("ours-to-sentence-transformers", rates, "ours", faster(rates, *(rates.keys() - {"ours"})))


def untrained(folder: Path, data: str) -> Any:
    """Return a reader of the default encoder with the mean of its last states, which is not trained."""
    import lamina
    from lamina.config.parse import parse_recipe

    recipe = parse_recipe({
        "data": {"train": data, "scores": [0, 5]}, "head": {"type": "cosine"}, "objective": {"type": "mse"},
        "train": {"epochs": 0},
    })  # fmt: skip
    lamina.train(recipe, folder / "run", dev=False)
    return lamina.load(folder / "run", backend="torch", device="cpu")


class Other:
    """The other library in its own process. It reads lines with a batch size, and prints the seconds of each."""

    def __init__(self, python: str, folder: Path, encoder: Path, threads: int, texts: list[str]) -> None:
        (folder / "texts.json").write_text(json.dumps(texts))
        command = [python, __file__, "--worker", str(folder), str(encoder), str(threads)]
        self._folder, self._count = folder, len(texts)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def rate(self, batch: int, _: int) -> float:
        return self._count / cast(float, json.loads(self._ask(str(batch))))

    def vectors(self) -> Any:
        """Return the vectors of the first 1,000 texts."""
        self._ask("vectors")
        return np.load(self._folder / "vectors.npy")

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        while not (answer := self._process.stdout.readline()).startswith("= "):
            if not answer:
                raise SystemExit("--other: its process has ended. Fix: see its message above")
        return answer.removeprefix("= ")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def worker(folder: Path, encoder: str, threads: int) -> None:
    import onnxruntime
    from sentence_transformers import SentenceTransformer, export_dynamic_quantized_onnx_model

    kind = "avx512_vnni" if "avx512_vnni" in Path("/proc/cpuinfo").read_text() else "avx2"
    session = onnxruntime.SessionOptions()
    session.intra_op_num_threads = threads
    whole = SentenceTransformer(encoder, backend="onnx", device="cpu", model_kwargs={"export": True})
    whole.save_pretrained(str(folder / "other"))
    export_dynamic_quantized_onnx_model(whole, kind, str(folder / "other"))
    (file,) = (path.name for path in (folder / "other" / "onnx").glob("*qint8*.onnx"))
    arguments = {"file_name": f"onnx/{file}", "session_options": session}
    model = SentenceTransformer(str(folder / "other"), backend="onnx", device="cpu", model_kwargs=arguments)
    texts = json.loads((folder / "texts.json").read_text())
    model.encode(texts[:WARM_UP])
    for line in sys.stdin:
        began = time.perf_counter()
        if line.strip() == "vectors":
            np.save(folder / "vectors.npy", model.encode(texts[:1000], normalize_embeddings=True))
        else:
            model.encode(texts, batch_size=int(line), normalize_embeddings=True)
        print(f"= {time.perf_counter() - began}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    else:
        main()
