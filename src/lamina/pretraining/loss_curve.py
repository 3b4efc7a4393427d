"""Draw the loss over the steps, if matplotlib is installed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from lamina.errors import LaminaError
from lamina.utils.plots import line_plot

Point = tuple[float, float]

SMOOTHING = 50  # points of the training curve; each is a mean over steps


class Entry(TypedDict, total=False):
    """The fields of a metrics line that the curve needs: a step has `mlm_loss` or `loss`, an evaluation has `evaluation`."""

    step: int
    mlm_loss: float  # of masked tokens
    loss: float  # of spans
    evaluation: dict[str, float]


def draw_loss_curve(metrics: Path, out: Path) -> str | None:
    """Draw the losses of a metrics.jsonl. Return None, or the reason why there is no picture."""
    entries = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    training, held_out = loss_curves(entries)
    what = "masked tokens" if any("mlm_loss" in entry for entry in entries) else "spans"
    series = {"training": training} | ({"held out": held_out} if held_out else {})
    try:
        line_plot(out, {"": series}, x="step", y=f"loss of the {what}")
    except LaminaError as error:
        return f"no {out.name}, but {metrics.name} has the numbers: {error}"
    return None


def loss_curves(entries: Sequence[Entry]) -> tuple[list[Point], list[Point]]:
    """Return the points (step, loss) of training, averaged over groups of steps, and of the held-out sequences."""
    losses = [(entry["step"], entry[name]) for entry in entries for name in ("mlm_loss", "loss") if name in entry]
    width = max(1, len(losses) // SMOOTHING)
    groups = [losses[first : first + width] for first in range(0, len(losses), width)]
    training = [(sum(step for step, _ in g) / len(g), sum(loss for _, loss in g) / len(g)) for g in groups]
    return training, [(entry["step"], entry["evaluation"]["loss"]) for entry in entries if "evaluation" in entry]
