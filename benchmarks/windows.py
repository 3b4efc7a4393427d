"""Measure questions per second into training windows: `make_windows` against the run_qa example's function in `Dataset.map`.

Both sides cut windows of 384 tokens with an overlap of 128 and label the answers. Their side pads to 384, the example's
default, and keeps its features in memory, without a cache file. The time excludes reading the files. Before timing, both
sides are compared on the questions of at most 64 tokens, because ours cuts longer ones. The number, token ids and labels of
the windows must be equal.

    python benchmarks/windows.py
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from common import parser, print_ratio, print_table, read_examples, take_turns, use_threads
from lamina.data.examples import Example
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import WindowOptions, make_windows
from lamina.encoder.load import EncoderOptions, find
from run_qa import LENGTH, OVERLAP, load_tokenizer, map_features, to_dataset

OPTIONS = WindowOptions(length=LENGTH, overlap=OVERLAP, query=64)


def main() -> None:
    options = parser(__doc__ or "", questions=20_000, data=["squad2-train-31k", "squad2-dev-cs224n"], repeats=5).parse_args()
    use_threads(options.threads)
    examples = read_examples(options.data, options.questions)[: options.questions]
    ours, theirs = Tokenizer(find(EncoderOptions()).tokenizer), load_tokenizer()
    count = compare(examples, ours, theirs)  # this also warms up both sides

    dataset = to_dataset(examples)
    rates = take_turns(
        {
            "ours": lambda _: len(examples) / seconds(lambda: make_windows(examples, ours, OPTIONS)),
            "run_qa": lambda _: len(examples) / seconds(lambda: map_features(dataset, theirs)),
        },
        options.repeats,
    )
    print(f"{len(examples)} questions, {options.threads} threads; {count} windows compared, all equal")
    print_table(rates, "questions a second")
    print_ratio("windows", rates, "ours", "run_qa")


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def compare(examples: Sequence[Example], ours: Tokenizer, theirs: Any) -> int:
    """Return the number of compared windows. Raise SystemExit if the two sides differ."""
    lengths = np.diff(ours.encode([example.question.lstrip() for example in examples]).starts)
    whole = [example for example, length in zip(examples, lengths, strict=True) if length <= OPTIONS.query]
    windows = make_windows(whole, ours, OPTIONS)
    features = map_features(to_dataset(whole), theirs)
    if len(windows) != len(features):
        raise SystemExit(f"{len(windows)} windows but {len(features)} features")
    for number, feature in enumerate(features):
        real = feature["input_ids"][: sum(feature["attention_mask"])]
        same_ids = real == windows.ids[windows.starts[number] : windows.starts[number + 1]].tolist()
        same_gold = [feature["start_positions"], feature["end_positions"]] == windows.gold[number].tolist()
        if not (same_ids and same_gold):
            raise SystemExit(f"window {number} of {whole[windows.example[number]].id!r} differs between the sides")
    return len(windows)


if __name__ == "__main__":
    main()
