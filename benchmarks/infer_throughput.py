"""Measure questions per second from texts to answers: our prediction against `transformers` with the run_qa example's code.

Both sides answer the same questions with the same weights: the default encoder with a new span head. Windows have 384 tokens
with an overlap of 128, in inference mode. The time includes tokenising, the model and the n best spans. It excludes reading the
file.

- padded-384: the example's defaults, windows padded to 384, 8 at once
- dynamic-sorted: windows sorted by length, padded to the longest of their batch; the fastest of 8, 16 and 32 at once

Their side runs without `datasets` and without a `Trainer`, which only makes it faster.

    python benchmarks/infer_throughput.py
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from common import faster, parser, print_ratio, print_table, read_examples, take_turns, use_threads
from lamina.answers.decode import decode
from lamina.config.build import build_model
from lamina.config.parse import parse_recipe
from lamina.data.examples import Example
from lamina.data.splits import sample
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import WindowOptions, make_windows
from lamina.encoder import load as encoders
from lamina.model import Model
from lamina.model.inference import span_logits
from run_qa import BATCH, LENGTH, OVERLAP, answers_of, load_model, load_tokenizer, validation_features

DYNAMIC_BATCHES = (8, 16, 32)
WARM_UP = 32  # questions
DISAGREEMENT = 0.05  # maximum share of the answers: ours departs from the example in a few rules (see lamina.answers.decode)

Answers = dict[str, str]  # question id -> answer, "" for none
Answerer = Callable[[Sequence[Example]], Answers]


def main() -> None:
    options = parser(__doc__ or "", questions=1000, data=["squad2-dev-cs224n"], repeats=3).parse_args()
    use_threads(options.threads)
    examples = sample(read_examples(options.data, options.questions), options.questions, seed=0)
    answerers = make_answerers()
    for answer in answerers.values():
        answer(examples[:WARM_UP])

    answers: dict[str, Answers] = {}

    def timed(name: str, _: int) -> float:
        began = time.perf_counter()
        answers[name] = answerers[name](examples)
        return len(examples) / (time.perf_counter() - began)

    rates = take_turns({name: partial(timed, name) for name in answerers}, options.repeats)
    print(f"{len(examples)} questions, {options.threads} threads")
    print_table(rates, "questions a second")
    for name in answerers:
        if name != "ours":
            report_agreement(name, answers["ours"], answers[name])
    print_ratio("padded-384", rates, "ours", "padded-384")
    print_ratio("dynamic-sorted", rates, "ours", faster(rates, *map(dynamic_name, DYNAMIC_BATCHES)))


def make_answerers() -> dict[str, Answerer]:
    theirs, tokenizer = load_model().eval(), load_tokenizer()
    return {
        "ours": our_answerer(theirs.qa_outputs),
        "padded-384": partial(their_answers, theirs, tokenizer, batch=BATCH, padded=True),
        **{
            dynamic_name(batch): partial(their_answers, theirs, tokenizer, batch=batch, padded=False)
            for batch in DYNAMIC_BATCHES
        },
    }


def dynamic_name(batch: int) -> str:
    return f"dynamic-sorted, {batch} at once"


def our_answerer(head: torch.nn.Linear) -> Answerer:
    """Return our side, with the weights of their span head."""
    recipe = parse_recipe({"data": {"train": ""}, "window": {"length": LENGTH, "overlap": OVERLAP}})
    source = encoders.find(recipe.encoder)
    tokenizer = Tokenizer(source.tokenizer)
    model = build_model(recipe, encoders.load(source)).eval()
    weights = {"tasks.main.head.weight": head.weight, "tasks.main.head.bias": head.bias}
    model.load_state_dict(model.state_dict() | weights)
    return lambda examples: our_answers(model, tokenizer, recipe.window, examples)


def our_answers(model: Model, tokenizer: Tokenizer, options: WindowOptions, examples: Sequence[Example]) -> Answers:
    windows = make_windows(examples, tokenizer, options)
    logits = span_logits(model, windows)
    predictions = decode(windows, logits.start, logits.end, examples)
    return {p.id: best.text if (best := p.answer()) else "" for p in predictions}


@torch.inference_mode()
def their_answers(model: Any, tokenizer: Any, examples: Sequence[Example], *, batch: int, padded: bool) -> Answers:
    columns = {
        "id": [example.id for example in examples],
        "question": [example.question for example in examples],
        "context": [example.context for example in examples],
    }
    features = validation_features(columns, tokenizer, padded=padded)
    lengths = [len(ids) for ids in features["input_ids"]]
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)  # unchanged if all are padded
    start: list[Any] = [None] * len(order)
    end: list[Any] = [None] * len(order)
    for first in range(0, len(order), batch):
        rows = order[first : first + batch]
        outputs = model(**padded_inputs(features, rows, lengths[rows[0]]))
        for row, starts, ends in zip(rows, outputs.start_logits.numpy(), outputs.end_logits.numpy(), strict=True):
            start[row], end[row] = starts[: lengths[row]], ends[: lengths[row]]
    return answers_of(examples, features, start, end)


def padded_inputs(features: Any, rows: Sequence[int], length: int) -> dict[str, torch.Tensor]:
    """Return the inputs of some features as tensors of `length` columns. The tokenizer pads all three with 0."""
    inputs = {}
    for name in ("input_ids", "token_type_ids", "attention_mask"):
        values = np.zeros((len(rows), length), np.int64)
        for number, row in enumerate(rows):
            values[number, : len(features[name][row])] = features[name][row]
        inputs[name] = torch.from_numpy(values)
    return inputs


def report_agreement(name: str, ours: Answers, theirs: Answers) -> None:
    different = sum(ours[key] != text for key, text in theirs.items())
    answered = sum(text != "" for text in theirs.values())
    same = 100 * (1 - different / len(theirs))
    print(f"{same:.1f}% of the answers equal those of {name}, which answers {answered} questions")
    if different > 1 + DISAGREEMENT * len(theirs):  # one difference is allowed: a test asks very few questions
        raise SystemExit(f"ours and {name} give different answers, so the times are not comparable")


if __name__ == "__main__":
    main()
