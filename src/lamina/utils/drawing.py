"""Draw pictures without a plotting library: as characters for a terminal, and as PNG files."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

EIGHTHS = " ▁▂▃▄▅▆▇█"
SHADES = " ░▒▓█"


def curve(values: Sequence[float], top: float, *, height: int = 8) -> list[str]:
    """Return the lines of a plot from 0 to `top`, with one column for each value.

    >>> print("\\n".join(curve([0, 1, 2, 4], 4, height=2)))
    4 ┤   █
      │ ▄██
    0 └────
    """
    label = f"{top:g}"
    eighths = [round(8 * height * value / top) for value in values]
    lines = []
    for row in reversed(range(height)):
        axis = f"{label} ┤" if row == height - 1 else f"{'':{len(label)}} │"
        lines.append(axis + "".join(EIGHTHS[min(8, max(0, filled - 8 * row))] for filled in eighths))
    return [*lines, f"{0:>{len(label)}} └" + "─" * len(values)]


def shades(shares: Sequence[float]) -> str:
    """Return one character for each share; a darker one is a larger share. Every share above 0 is visible.

    >>> shades([0.0, 0.01, 0.4, 0.6, 1.0])
    ' ░▒▓█'
    """
    steps = len(SHADES) - 1
    return "".join(SHADES[min(steps, max(0, int(np.ceil(steps * share))))] for share in shares)


def heat(shares: npt.NDArray[np.floating]) -> npt.NDArray[np.uint8]:
    """Return colours from white over orange to black for shares in [0, 1]: [rows, columns] -> [rows, columns, 3]."""
    darkness = np.clip(np.nan_to_num(shares), 0, 1)[..., None]
    colours = np.array([[255, 255, 255], [255, 196, 92], [224, 82, 48], [110, 16, 64], [0, 0, 0]], np.float64)
    place = darkness * (len(colours) - 1)
    below = np.minimum(place.astype(np.int64), len(colours) - 2)[..., 0]
    mixed = colours[below] + (place - below[..., None]) * (colours[below + 1] - colours[below])
    pixels: npt.NDArray[np.uint8] = np.round(mixed).astype(np.uint8)
    return pixels


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Return the bytes of a PNG file. `pixels` [height, width, 3] are red, green and blue from 0 to 255."""
    height, width, _ = pixels.shape
    header = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)  # 8 bits per colour, three colours
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], 1)  # 0: a row without a filter
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    framed = (struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)
