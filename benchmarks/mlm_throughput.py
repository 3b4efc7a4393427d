"""Measure real tokens per second of pretraining on masked tokens: ours against the run_mlm example of `transformers`.

Every side trains all weights of the default encoder and a new head on the same texts, on the CPU in float32. Each step masks
another 15% of the tokens. Real tokens are those of the attention mask, including special ones. The time is that of training
steps with their batches, without loading, tokenising and the first steps of a process.

- ours: the loop of `lamina pretrain` with its default options, texts joined into rows of 128 tokens
- ours-at-length: the same with rows of the other side's length
- run_mlm-default: the example's steps with its defaults, texts joined and cut to the model's longest row, 8 rows at once,
  logits at every position

    python benchmarks/mlm_throughput.py
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers

from common import find_data, parser, print_ratio, print_table, take_turns, use_threads
from lamina.encoder.load import minilm_folder
from lamina.pretraining.corpus import Corpus
from lamina.pretraining.folder import PretrainingFolder
from lamina.pretraining.loop import fit_encoder, plan_sequences, pretraining_optimizer
from lamina.pretraining.pretrain_recipe import parse_pretrain_recipe
from lamina.pretraining.setup import set_up
from lamina.pretraining.texts import TextSource, read_texts
from lamina.utils.progress import Silent
from ours import Done, Stopwatch
from run_qa import BATCH, Columns, load_tokenizer
from train_throughput import EPOCHS, WARM_UP, rate_of

LONGEST = 1024  # max_seq_length, if the tokenizer allows more


def main() -> None:
    options = parser(__doc__ or "", questions=1000, data=["wikitext-2-valid.txt.xz"], repeats=3, what="texts")
    options.add_argument("--seconds", type=float, default=20.0, help="minimum time of a turn (default %(default)s)")
    given = options.parse_args()
    use_threads(given.threads)
    find_data()
    texts = read_texts(TextSource(source=name) for name in given.data)[: given.texts]
    theirs = Theirs(texts)
    sides: dict[str, Ours | Theirs] = {
        "ours": Ours(texts),
        "ours-at-length": Ours(texts, length=theirs.length),
        "run_mlm-default": theirs,
    }
    for side in sides.values():
        side.run(0, lambda steps, _: steps >= WARM_UP)
    turns = {name: partial(turn, side, given.seconds) for name, side in sides.items()}
    rates = take_turns(turns, given.repeats)
    print(f"{len(texts)} texts, {given.threads} threads, turns of {given.seconds:g} s or a little more")
    print_table(rates, "real tokens a second")
    print_ratio("run_mlm-default", rates, "ours", "run_mlm-default")
    print_ratio("run_mlm-default-at-its-length", rates, "ours-at-length", "run_mlm-default")


class Ours:
    """The loop of `lamina pretrain` without evaluations and files."""

    def __init__(self, texts: Sequence[str], **fields: Any) -> None:
        train = {"device": "cpu", "epochs": EPOCHS}
        self.recipe = parse_pretrain_recipe({"texts": ["-"], "holdout": 0, "head_first": 0, "train": train, **fields})
        self.setup = set_up(self.recipe, Corpus(list(texts), [], [], []), PretrainingFolder(Path()), Silent())

    def run(self, seed: int, done: Done) -> float:
        """Return the real tokens per second of steps in an order drawn by `seed`, until `done`."""
        train = self.recipe.train.model_copy(update={"seed": seed})
        recipe = self.recipe.model_copy(update={"train": train})
        plan, optimizer = plan_sequences(recipe, self.setup.data.training), pretraining_optimizer(self.setup.model, train)
        state = fit_encoder(recipe, self.setup, plan, optimizer, Stopwatch(done), Silent())
        return state.costs.tokens / state.costs.train_seconds


class Theirs:
    """A `transformers.Trainer` with the defaults of the run_mlm example."""

    def __init__(self, texts: Sequence[str]) -> None:
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        datasets.disable_caching()
        datasets.disable_progress_bars()
        self.tokenizer = load_tokenizer()
        self.length = min(LONGEST, int(self.tokenizer.model_max_length))
        torch.manual_seed(0)
        self.model = transformers.AutoModelForMaskedLM.from_pretrained(minilm_folder(), dtype=torch.float32)
        lines = datasets.Dataset.from_dict({"text": list(texts)})
        tokens = lines.map(self.tokenize, batched=True, remove_columns=["text"])
        self.features = tokens.map(self.group, batched=True)

    def tokenize(self, columns: Columns) -> Any:
        return self.tokenizer(columns["text"], return_special_tokens_mask=True)

    def group(self, columns: Columns) -> Columns:
        """Return the tokens of a thousand texts, joined and cut into rows of the length. The rest is dropped."""
        joined = {name: list(chain(*values)) for name, values in columns.items()}
        total = len(joined["input_ids"])
        total = total // self.length * self.length if total >= self.length else total
        return {
            name: [values[first : first + self.length] for first in range(0, total, self.length)]
            for name, values in joined.items()
        }

    def run(self, seed: int, done: Done) -> float:
        """Return the real tokens per second of steps in an order drawn by `seed`, until `done`."""
        mask = transformers.DataCollatorForLanguageModeling(tokenizer=self.tokenizer, mlm_probability=0.15)
        return rate_of(self, mask, done, batch=BATCH, seed=seed)


def turn(side: Ours | Theirs, at_least: float, number: int) -> float:
    return side.run(number, lambda _, seconds: seconds >= at_least)


if __name__ == "__main__":
    main()
