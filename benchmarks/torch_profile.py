"""Where the processor time of torch goes in training and inference of the default shape, with each library for products.

    .venv/bin/python benchmarks/torch_profile.py

A training step has 20 windows of 200 tokens, in float32 with dropout and AdamW. Inference computes the same windows. One
thread computes. The times are processor time, so other programs change them little. `onednn` is what `encoder.linear` uses on
AMD processors with AVX-512, and `mkl` is what torch uses by itself.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections import Counter
from collections.abc import Callable
from unittest import mock

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from lamina.encoder import linear
from lamina.encoder.blocks import Encoder
from lamina.encoder.presets import PRESETS

GROUPS = {  # parts of the names of operations
    "products": ("addmm", "mm", "bmm", "_linear_pointwise", "linear"),
    "attention": ("attention",),
    "optimiser": ("adamw", "foreach"),
    "dropout": ("random_", "ge", "lamina"),
    "gelu": ("gelu",),
    "norms": ("layer_norm",),
    "copies": ("copy_", "cat", "clone", "contiguous", "zero_", "fill_"),
    "tables": ("embedding", "index"),
    "sums": ("add", "add_", "sum", "mul", "mul_", "div"),
}


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--rows", type=int, default=20, help="windows of a step (default %(default)s)")
    options.add_argument("--tokens", type=int, default=200, help="tokens of a window (default %(default)s)")
    options.add_argument("--layers", type=int, default=12, help="layers of the encoder (default %(default)s)")
    options.add_argument("--repeats", type=int, default=3, help="the fastest of so many counts (default %(default)s)")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    shape = dataclasses.replace(PRESETS["tiny"], layers=chosen.layers, hidden=384, embedding=384, heads=12, intermediate=1536)
    encoder = Encoder(shape)
    ids = torch.randint(1, shape.vocab, (chosen.rows, chosen.tokens))
    for library in ("mkl", "onednn"):
        with mock.patch.object(linear, "onednn_is_faster", lambda library=library: library == "onednn"):
            for name, run in (("training step", training(encoder, ids)), ("inference", inference(encoder, ids))):
                report(f"{name}, {library}", run, chosen.repeats)


def training(encoder: Encoder, ids: Tensor) -> Callable[[], None]:
    """Return a function that makes one step."""
    optimiser = torch.optim.AdamW(encoder.parameters(), lr=1e-5, fused=True)
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[:, -1] = False  # so that attention reads a mask

    def run() -> None:
        encoder.train()
        states = encoder(encoder.embed(ids, torch.zeros_like(ids)), mask)
        states.states[-1].square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()

    return run


def inference(encoder: Encoder, ids: Tensor) -> Callable[[], None]:
    """Return a function that computes the states of the last layer."""
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[:, -1] = False

    def run() -> None:
        encoder.eval()
        with torch.inference_mode():
            encoder(encoder.embed(ids, torch.zeros_like(ids)), mask)

    return run


def report(name: str, run: Callable[[], None], repeats: int) -> None:
    """Print the seconds of a run, and the share of each group of operations."""
    run()
    times = []
    for _ in range(repeats):
        began = time.process_time()
        run()
        times.append(time.process_time() - began)
    with profile(activities=[ProfilerActivity.CPU]) as found:
        run()
    shares = Counter[str]()
    for event in found.key_averages():
        shares[group_of(event.key)] += event.self_cpu_time_total
    total = sum(shares.values())
    text = ", ".join(f"{group} {100 * value / total:.0f}%" for group, value in shares.most_common() if value / total >= 0.005)
    print(f"{name}: {min(times):.2f} s; {text}", flush=True)


def group_of(operation: str) -> str:
    """Return the group of an operation of torch, such as "aten::addmm"."""
    name = operation.rpartition("::")[2]
    return next(
        (group for group, parts in GROUPS.items() if name in parts or any(len(p) > 4 and p in name for p in parts)), "other"
    )


if __name__ == "__main__":
    main()
