"""What a recipe will cost, before anything is trained."""

from __future__ import annotations

import math
import time
from typing import Any

import torch

from lamina.assemble import build_on_meta, train_examples
from lamina.data.splits import hold_out
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import make_windows
from lamina.encoder import load as encoders
from lamina.encoder.blocks import EncoderConfig
from lamina.errors import LaminaError
from lamina.model import Model
from lamina.recipe import Recipe

USUAL_SHARE_OF_PEAK = 0.85  # what benchmarks/train_throughput.py asks of the loop


def inspect(recipe: Recipe) -> dict[str, Any]:
    """Parameters, work, memory and time of a recipe. Needs no weights; the data's part is None when it cannot be read."""
    model = build_on_meta(recipe)
    report: dict[str, Any] = {"parameters": count_parameters(model)}
    try:
        report["training"] = _training(recipe, model)
    except LaminaError as error:
        report["training"] = None
        report["note"] = f"no estimate of the work: {error}"
    report["memory_mb"] = round(_memory_bytes(model, recipe) / 1e6)
    return report


def count_parameters(model: Model) -> dict[str, Any]:
    """Totals, and the parameters of each part by name."""
    by_part: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        part = ".".join(name.split(".")[:2] if name.startswith("encoder.") else name.split(".")[1:3])
        by_part[part] = by_part.get(part, 0) + parameter.numel()
    return {
        "total": sum(by_part.values()),
        "trainable": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "by_part": by_part,
    }


def forward_flops(config: EncoderConfig, length: int) -> float:
    """Useful floating-point operations of the blocks for one token of a window of `length`: the products alone."""
    weights = config.layers * (4 * config.hidden**2 + 2 * config.hidden * config.intermediate)
    return 2 * weights + 4 * length * config.hidden * config.layers


def _training(recipe: Recipe, model: Model) -> dict[str, float]:
    source = encoders.find(recipe.encoder, counting=True)
    learned, _ = hold_out(train_examples(recipe), recipe.main.data.holdout, recipe.train.seed)
    windows = make_windows(learned, Tokenizer(source.tokenizer), recipe.window)
    lengths = windows.lengths
    flops = sum(3 * forward_flops(source.config, int(length)) * int(length) for length in lengths)
    rate = USUAL_SHARE_OF_PEAK * matmul_peak()
    epochs = recipe.train.epochs if recipe.train.minutes is None else 60 * recipe.train.minutes * rate / flops
    return {
        "questions": len(learned),
        "windows": len(windows),
        "tokens_per_epoch": len(windows.ids),
        "epochs": round(epochs, 2),
        "flops": epochs * flops,
        "estimated_minutes": round(epochs * flops / rate / 60, 1),
    }


def matmul_peak(size: int = 1536, repeats: int = 5) -> float:
    """Floating-point operations per second of a large matrix product here, now."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = math.inf
    for _ in range(repeats):
        began = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best


def _memory_bytes(model: Model, recipe: Recipe) -> float:
    """Weights, gradients and two moments in float32, and what a micro-batch keeps for its backward pass."""
    config = model.encoder.config
    kept = config.layers * (8 * config.hidden + 2 * config.intermediate)  # numbers a token
    tokens = min(recipe.train.memory_tokens, recipe.train.batch_tokens if recipe.train.batch_windows is None else math.inf)
    return 4.0 * (4 * sum(p.numel() for p in model.parameters()) + kept * tokens)
