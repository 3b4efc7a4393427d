"""Measure real tokens per second of training bottleneck adapters: ours against the `adapters` library.

The default encoder is frozen. A span head trains, and adapters of 64 after the attention and the feed-forward of each layer
(the library's "double_seq_bn", Houlsby et al. 2019). The library runs with its best flags: windows padded to the longest of a
batch, grouped by length, the faster of 8 and 16 at once. It runs in its own interpreter, because it needs an old
`transformers`:

    python -m venv old && old/bin/pip install torch==2.13.0 adapters accelerate
    python benchmarks/adapters_library.py --old old/bin/python

- all: adapters in every layer, so nothing can be stored
- last-3: adapters in the last three layers; ours stores the states below them, the library leaves the first three out
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from quiet_trainer import QUIET

BATCHES = (8, 16)
SIZE = 64
WARM_UP = 2  # steps
CASES: dict[str, list[int]] = {"all": [1, 2, 3, 4, 5, 6], "last-3": [4, 5, 6]}


def main() -> None:
    import os

    from common import faster, parser, print_table, read_examples, take_turns, use_threads
    from lamina.data.splits import sample
    from lamina.encoder.load import minilm_folder
    from ours import Ours

    options = parser(__doc__ or "", questions=1000, data=["squad2-train-31k"], repeats=3)
    options.add_argument("--old", required=True, help="the python of an environment with the adapters library")
    options.add_argument("--seconds", type=float, default=20, help="minimum time of a turn (default %(default)s)")
    given = options.parse_args()
    use_threads(given.threads)
    examples = sample(read_examples(given.data, given.questions), given.questions, seed=0)
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LAMINA_CACHE"] = folder
        for name, layers in CASES.items():
            tune = {"layers": 0, "adapters": {"size": SIZE, "layers": layers}}
            ours = Ours(examples, cache={"use": "never" if name == "all" else "always"}, tune=tune)
            windows = ours.windows
            rows = [windows.ids[a:b].tolist() for a, b in zip(windows.starts[:-1], windows.starts[1:], strict=True)]
            types = [windows.type_ids[a:b].tolist() for a, b in zip(windows.starts[:-1], windows.starts[1:], strict=True)]
            task = {"rows": rows, "types": types, "gold": windows.gold.tolist(), "layers": layers, "threads": given.threads}
            (Path(folder) / "task.json").write_text(json.dumps(task | {"model": str(minilm_folder())}))
            theirs = Library(given.old, Path(folder))
            sides: dict[str, Any] = {
                "ours": lambda turn, ours=ours: ours.run(turn, lambda _, seconds: seconds >= given.seconds)
            }
            for size in BATCHES:
                sides[f"adapters, {size} at once"] = lambda turn, size=size, side=theirs: side.run(size, given.seconds)
            ours.run(0, lambda steps, _: steps >= WARM_UP)
            rates = take_turns(sides, given.repeats)
            theirs.close()
            print(f"{name}: adapters of {SIZE} in layers {layers}, {len(examples)} questions, {given.threads} threads")
            print_table(rates, "real tokens a second")
            best = faster(rates, *(f"adapters, {size} at once" for size in BATCHES))
            ratios.append(f"ratio adapters-{name}: {median(rates['ours']) / median(rates[best]):.2f}")
    print("\n".join(ratios))


class Library:
    """The library in its own process. It reads lines with the batch size and the seconds, and prints a rate for each."""

    def __init__(self, python: str, folder: Path) -> None:
        command = [python, __file__, "--worker", str(folder / "task.json")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, batch: int, seconds: float) -> float:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps([batch, seconds]), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("--old: the library's process has ended. Fix: see its message above")
        return float(json.loads(line))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def worker(path: Path) -> None:
    """Time the library's own trainer from its first to its last step."""
    import adapters
    import torch
    import transformers

    task = json.loads(path.read_text())
    torch.set_num_threads(task["threads"])
    depth, size = 6, 384
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(task["model"])
    model.config.attention_probs_dropout_prob = 0.0  # as in our defaults
    for module in model.modules():
        if type(module).__name__.endswith("SelfAttention") and hasattr(module, "dropout"):
            module.dropout.p = 0.0
    adapters.init(model)
    left_out = [layer for layer in range(depth) if layer + 1 not in task["layers"]]
    config = adapters.BnConfig(
        mh_adapter=True,
        output_adapter=True,
        reduction_factor=size / SIZE,
        non_linearity="gelu",
        leave_out=left_out,
        original_ln_before=False,
        original_ln_after=True,
    )
    model.add_adapter("squad", config=config)
    model.train_adapter("squad")
    for parameter in model.qa_outputs.parameters():
        parameter.requires_grad = True
    inside = sum(p.numel() for n, p in model.named_parameters() if p.requires_grad and "adapters" in n)
    expected = 2 * len(task["layers"]) * (2 * size * SIZE + size + SIZE)
    if inside != expected:
        raise SystemExit(f"the library trains {inside} numbers in its adapters, ours {expected}: not the same work")
    features = [
        {"input_ids": ids, "token_type_ids": types, "attention_mask": [1] * len(ids), "start_positions": a, "end_positions": b}
        for ids, types, (a, b) in zip(task["rows"], task["types"], task["gold"], strict=True)
    ]
    tokenizer = transformers.AutoTokenizer.from_pretrained(task["model"])
    for line in sys.stdin:
        batch, at_least = json.loads(line)
        print(json.dumps(timed(adapters, transformers, model, tokenizer, features, batch, at_least)), flush=True)


def timed(adapters: Any, transformers: Any, model: Any, tokenizer: Any, features: Any, batch: int, at_least: float) -> float:
    """Return real tokens per second over whole groups of similar lengths: each group starts with its longest windows."""
    collate = transformers.DataCollatorWithPadding(tokenizer)
    counted: list[int] = []
    per_group = max(1, min(50, len(features) // (4 * batch)))

    def count(rows: Any) -> Any:
        inputs = collate(rows)
        counted.append(int(inputs["attention_mask"].sum()))
        return inputs

    class Watch(transformers.TrainerCallback):  # type: ignore[misc]
        began = seconds = 0.0
        steps = 0

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.began = time.perf_counter()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.seconds, self.steps = time.perf_counter() - self.began, state.global_step
            whole = self.steps % -(-len(features) // batch) % per_group == 0
            control.should_training_stop = whole and self.seconds >= at_least

    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=batch,
            group_by_length=True,
            num_train_epochs=100,
            **QUIET,
        )
        trainer = adapters.AdapterTrainer(
            model=model, args=arguments, train_dataset=features, data_collator=count, callbacks=[watch]
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    return sum(counted[: watch.steps]) / watch.seconds


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(Path(sys.argv[2]))
    else:
        main()
