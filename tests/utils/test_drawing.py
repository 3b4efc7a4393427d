from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from lamina.utils.drawing import curve, heat, png, shades


def unpacked(data: bytes) -> np.ndarray:
    """Return the pixels of one of our PNG files, and check every checksum."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    place, parts = 8, {}
    while place < len(data):
        (length,) = struct.unpack_from(">I", data, place)
        name, content = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        assert struct.unpack_from(">I", data, place + 8 + length)[0] == zlib.crc32(name + content)
        parts[name] = content
        place += 12 + length
    assert list(parts) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *kind = struct.unpack(">2I5B", parts[b"IHDR"])
    assert kind == [8, 2, 0, 0, 0]
    rows = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


@pytest.mark.parametrize("shape", [(1, 1, 3), (5, 7, 3), (16, 300, 3)])
def test_a_png_contains_its_pixels(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    assert np.array_equal(unpacked(png(pixels)), pixels)


def test_more_heat_is_darker() -> None:
    colours = heat(np.linspace(0, 1, 50)[None]).astype(int).sum(-1)[0]
    assert (np.diff(colours) < 0).all()
    assert heat(np.array([[-1.0, 0.0, 1.0, 2.0, np.nan]]))[0, :, 0].tolist() == [255, 255, 0, 0, 255]


def test_shades() -> None:
    assert shades([0, 1e-9, 0.25, 0.26, 1.0, 7.0]) == " ░░▒██"
    assert shades([-0.5]) == " "


def test_a_curve_has_a_column_per_value_and_the_given_height() -> None:
    lines = curve([0.0, 0.5, 1.0], 1.0, height=4)
    assert lines == ["1 ┤  █", "  │  █", "  │ ██", "  │ ██", "0 └───"]
