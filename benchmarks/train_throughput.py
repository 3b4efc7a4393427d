"""Measure real tokens per second of full fine-tuning: our training loop against the Trainer of `transformers`.

Every side trains all weights of the default encoder and a span head, on the CPU in float32. All have windows of the same
questions, 384 tokens with an overlap of 128. Real tokens are those of the attention mask, without padding. The time is that
of training steps with their batches, without loading, tokenising and the first steps of a process.

- ours: the library's own loop with its default options
- run_qa-default: the run_qa example with its defaults, windows padded to 384, 8 at once
- best-flags: padded to the longest of a batch, grouped by length; the faster of 8 and 16 at once
- best-flags-no-attention-dropout: the same without dropout on attention probabilities (ours has none by default)

A turn takes about --seconds. Grouping by length puts the longest windows of each group first, so those sides stop only at the
end of a group. The share of peak is the FLOPs per second of our side's real tokens over those of large float32 matrix products
on as many threads. The former are 3 times the forward computation of the blocks: weight matrices and attention only. The
latter are the median of probes before every turn, each the best of a few products.

    python benchmarks/train_throughput.py
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, Protocol

import transformers

from common import faster, parser, peak_flops, print_ratio, print_table, read_examples, take_turns, use_threads
from lamina.data.examples import Example
from lamina.data.splits import sample
from ours import Done, Ours
from quiet_trainer import QUIET
from run_qa import BATCH, load_model, load_tokenizer, map_features, to_dataset

LARGER_BATCH = 16
WARM_UP = 2  # steps
EPOCHS = 100  # the maximum of their side; the time ends a turn before


def main() -> None:
    options = parser(__doc__ or "", questions=1000, data=["squad2-train-31k"], repeats=3)
    options.add_argument("--seconds", type=float, default=20.0, help="minimum time of a turn (default %(default)s)")
    given = options.parse_args()
    use_threads(given.threads)
    examples = sample(read_examples(given.data, given.questions), given.questions, seed=0)
    ours, theirs = Ours(examples), their_sides(examples)
    for run in (ours.run, *(side.run for side in theirs.values())):
        run(0, lambda steps, _: steps >= WARM_UP)
    ours.flops.clear()

    peaks: list[float] = []
    rates = take_turns(
        {
            "ours": lambda turn: ours.run(turn, lambda _, seconds: seconds >= given.seconds),
            **{name: partial(their_turn, side, given.seconds) for name, side in theirs.items()},
        },
        given.repeats,
        between=lambda: peaks.append(peak_flops()),
    )
    print(f"{len(examples)} questions, {given.threads} threads, turns of {given.seconds:g} s or a little more")
    print_table(rates, "real tokens a second")
    print(f"GFLOP/s: ours {median(ours.flops) / 1e9:.1f}, peak {median(peaks) / 1e9:.1f} ({len(peaks)} probes)")
    print_ratio("run_qa-default", rates, "ours", "run_qa-default")
    for name in ("best-flags", "best-flags-no-attention-dropout"):
        print_ratio(name, rates, "ours", faster(rates, *(f"{name}, {size} at once" for size in (BATCH, LARGER_BATCH))))
    print(f"share of peak: {median(ours.flops) / median(peaks):.2f}")


@dataclass(frozen=True)
class Theirs:
    """A `transformers.Trainer` with the settings of the run_qa example and some of its flags."""

    model: Any
    tokenizer: Any
    features: Any
    batch: int
    padded: bool  # to 384, in random order; else to the longest of a batch, grouped by length

    def run(self, seed: int, done: Done) -> float:
        """Return the real tokens per second of steps in an order drawn by `seed`, until `done`."""
        pad = transformers.default_data_collator if self.padded else transformers.DataCollatorWithPadding(self.tokenizer)
        order = "random" if self.padded else "group_by_length"
        return rate_of(self, pad, done, batch=self.batch, seed=seed, train_sampling_strategy=order)

    def ends_group(self, steps: int) -> bool:
        """Return whether a group of windows of all lengths ends after so many steps."""
        if self.padded:
            return True
        per_group = max(1, min(50, len(self.features) // (4 * self.batch)))  # batches of a group of the sampler
        of_epoch = steps % -(-len(self.features) // self.batch)
        return of_epoch % per_group == 0


class Trained(Protocol):
    """The model, tokenizer and features that a `transformers.Trainer` needs."""

    @property
    def model(self) -> Any: ...
    @property
    def tokenizer(self) -> Any: ...
    @property
    def features(self) -> Any: ...


def rate_of(side: Trained, pad: Callable[[Any], Any], done: Done, *, batch: int, **arguments: Any) -> float:
    """Return the real tokens per second of a Trainer's steps, until `done`."""
    collate, watch = CountingCollator(pad), Stopwatch(done)
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=batch,
            num_train_epochs=EPOCHS,
            **QUIET,
            **arguments,
        )
        trainer = transformers.Trainer(
            model=side.model,
            args=settings,
            train_dataset=side.features,
            data_collator=collate,
            processing_class=side.tokenizer,
            callbacks=[watch],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    return sum(collate.tokens[: watch.steps]) / watch.seconds  # batches are fetched ahead: count only those of done steps


class CountingCollator:
    """A collator that counts the real tokens of each batch."""

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self.collate = collate
        self.tokens: list[int] = []

    def __call__(self, features: Any) -> Any:
        batch = self.collate(features)
        self.tokens.append(int(batch["attention_mask"].sum()))
        return batch


class Stopwatch(transformers.TrainerCallback):  # type: ignore[misc]
    """A callback that times the steps, and ends training when `done` returns True."""

    def __init__(self, done: Done) -> None:
        self.done = done
        self.began = self.seconds = 0.0
        self.steps = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.began = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.seconds = time.perf_counter() - self.began
        self.steps = state.global_step
        control.should_training_stop = self.done(self.steps, self.seconds)


def their_sides(examples: Sequence[Example]) -> dict[str, Theirs]:
    tokenizer, dataset = load_tokenizer(), to_dataset(examples)
    padded, unpadded = (map_features(dataset, tokenizer, padded=padded) for padded in (True, False))
    model, without_dropout = load_model(), load_model(attention_dropout=False)
    sides = {"run_qa-default": Theirs(model, tokenizer, padded, BATCH, padded=True)}
    for name, best in (("best-flags", model), ("best-flags-no-attention-dropout", without_dropout)):
        for size in (BATCH, LARGER_BATCH):
            sides[f"{name}, {size} at once"] = Theirs(best, tokenizer, unpadded, size, padded=False)
    return sides


def their_turn(side: Theirs, at_least: float, turn: int) -> float:
    return side.run(turn, lambda steps, seconds: seconds >= at_least and side.ends_group(steps))


if __name__ == "__main__":
    main()
