"""Draw reliability diagrams of a model's confidence, before and after calibration.

.venv/bin/python scripts/reliability.py runs/quickstart fables/dev docs/reliability.svg
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import lamina
from lamina.answers.calibration import Calibration, calibration_error, reliability
from lamina.data.examples import Example
from lamina.data.sources import load_examples
from lamina.scoring.predictions import right
from lamina.utils.files import write_atomically

SIZE, MARGIN, GAP = 240, 46, 70
COLOURS = {"plain softmax": "#b08030", "calibrated": "#2060a0"}


def main(model: str, data: str, out: Path) -> None:
    reader = lamina.load(model)
    examples = load_examples(data)
    draw(reader.predict(examples), examples, reader.calibration, out)
    print(f"{reader.calibration}\n{len(examples)} questions of {data}, drawn in {out}")


def draw(predictions: Sequence[lamina.Prediction], examples: Sequence[Example], fitted: Calibration, out: Path) -> None:
    """Draw the diagrams of some predictions into an SVG file, and print the calibration errors."""
    events = {
        '"no answer"': [not example.answers for example in examples],
        "the best span is right": right(predictions, examples),
    }
    panels = []
    for number, (event, truth) in enumerate(events.items()):
        curves = {}
        for name, calibration in (("plain softmax", Calibration()), ("calibrated", fitted)):
            chances = [calibration.probabilities(p) for p in predictions]
            given = [chance[number] if number < len(chance) else 0.0 for chance in chances]
            curves[name] = reliability(given, truth)
            print(f"{event}, {name}: error {calibration_error(given, truth):.3f}")
        panels.append(panel(event, curves, MARGIN + number * (SIZE + GAP)))
    width, height = 2 * (SIZE + GAP) + MARGIN, SIZE + 2 * MARGIN
    body = "\n".join(panels)
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">'
    background = '<rect width="100%" height="100%" fill="white"/>'
    write_atomically(out, f"{svg}\n{background}\n{body}\n</svg>\n".encode())


def panel(title: str, curves: Mapping[str, Sequence[tuple[float, float, float]]], left: int) -> str:
    """Return a diagram as SVG: confidence on the x axis, the share of true events on the y axis."""
    low = MARGIN + SIZE
    parts = [
        f'<text x="{left}" y="{MARGIN - 14}">{title}</text>',
        f'<rect x="{left}" y="{MARGIN}" width="{SIZE}" height="{SIZE}" fill="none" stroke="#888"/>',
        f'<line x1="{left}" y1="{low}" x2="{left + SIZE}" y2="{MARGIN}" stroke="#bbb" stroke-dasharray="4"/>',
        f'<text x="{left + SIZE / 2 - 30}" y="{low + 30}">confidence</text>',
        f'<text x="{left - 30}" y="{MARGIN + 10}">1</text><text x="{left - 30}" y="{low}">0</text>',
    ]
    for row, (name, points) in enumerate(curves.items()):
        colour = COLOURS[name]
        places = [(left + SIZE * mean, low - SIZE * hits, 2 + 8 * share**0.5) for mean, hits, share in points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}" fill="{colour}" fill-opacity="0.7"/>' for x, y, r in places]
        parts.append(f'<text x="{left + 8}" y="{MARGIN + 16 + 15 * row}" fill="{colour}">{name}</text>')
    return "\n".join(parts)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
