"""Checksums of files, to notice damage by accident: CRC-32, which is fast on every processor.

It is no protection from somebody who wants to hide a change. `encoder.files.sha256_of` has a slower checksum.
"""

from __future__ import annotations

import json
import mmap
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from lamina.errors import LaminaError


def crc32_of(file: Path) -> str:
    """Return the CRC-32 of a file, as ``crc32:`` and 8 hexadecimal digits. A process reads an unchanged file once."""
    try:
        path = file.resolve()
        status = path.stat()
        return _crc32(path, status.st_size, (status.st_mtime_ns, status.st_ino))
    except OSError as error:
        problem = error.strerror or error
        raise LaminaError(f"{file}: cannot be read: {problem}. Fix: check the path and its permissions") from None


def crc32_of_json(value: Any) -> str:
    """Return the CRC-32 of a value of JSON, which does not depend on the order of its keys.

    >>> crc32_of_json({"a": 1, "b": 2.5}) == crc32_of_json({"b": 2.5, "a": 1}) != crc32_of_json({"a": 2, "b": 2.5})
    True
    """
    plain = json.loads(json.dumps(value))  # keys become texts, as in a file
    return f"crc32:{zlib.crc32(json.dumps(plain, sort_keys=True).encode()):08x}"


@lru_cache(maxsize=256)
def _crc32(path: Path, size: int, version: tuple[int, int]) -> str:
    """Return the checksum. `size` and `version` make the cache forget a file that was written again."""
    if size == 0:  # an empty file cannot be mapped
        return "crc32:00000000"
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return f"crc32:{zlib.crc32(content):08x}"
