"""The loss over the steps as a picture, where matplotlib is installed."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lamina.files import replacing

SMOOTHING = 50  # training losses are averaged into so many points


def draw_curve(metrics: Path, out: Path) -> str | None:
    """Draws the losses of a metrics.jsonl; returns why not, if it cannot."""
    if importlib.util.find_spec("matplotlib") is None:
        return f"{out.name} is not drawn: it needs matplotlib (pip install matplotlib); {metrics.name} has the numbers"
    from matplotlib.figure import Figure

    entries = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    training, held_out = curves(entries)
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(*zip(*training, strict=True), label="training")
    if held_out:
        axes.plot(*zip(*held_out, strict=True), marker="o", label="held out")
    axes.set(xlabel="step", ylabel="loss of the masked tokens")
    axes.grid(alpha=0.3)
    axes.legend()
    with replacing(out) as draft:
        figure.savefig(draft, format="png", dpi=120)
    return None


def curves(entries: Sequence[dict[str, Any]]) -> tuple[list[tuple[float, float]], list[tuple[int, float]]]:
    """(step, loss) of training, averaged over some steps, and of the held-out part."""
    losses = [(entry["step"], entry["mlm_loss"]) for entry in entries if "mlm_loss" in entry]
    width = max(1, len(losses) // SMOOTHING)
    groups = [losses[first : first + width] for first in range(0, len(losses), width)]
    training = [(sum(step for step, _ in g) / len(g), sum(loss for _, loss in g) / len(g)) for g in groups]
    return training, [(entry["step"], entry["evaluation"]["loss"]) for entry in entries if "evaluation" in entry]
