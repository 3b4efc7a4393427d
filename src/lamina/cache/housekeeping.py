"""Looking after stores: what there is, whether it is sound, and clearing it."""

from __future__ import annotations

import fcntl
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lamina.cache.store import FORMAT, Lock, Shard, damage, shard_file, stores_folder
from lamina.errors import LaminaError
from lamina.files import read_json


@dataclass(frozen=True)
class Listed:
    """A store as `lamina cache list` shows it."""

    name: str
    model: str
    data: str
    layers: tuple[int, ...]
    dtype: str
    bytes: int
    share: float  # of its shards that are written
    used: float  # when, in seconds since the epoch


def list_stores(folder: Path | None = None) -> list[Listed]:
    """Every store, the last used first."""
    return sorted((_listed(path) for path in _stores(folder)), key=lambda store: -store.used)


def verify_store(name: str, folder: Path | None = None) -> list[str]:
    """What is wrong with a store, a line a shard; whatever it is, the next training computes it again."""
    path = _existing(name, folder)
    index = _index(path)
    if index is None:
        return [f"{path / 'store.json'}: cannot be read"]
    problems = []
    for number, values in enumerate(index["shards"]):
        file = path / shard_file(number)
        if (reason := damage(file, Shard(**values))) is not None:
            problems.append(f"{file}: {reason or 'not written yet'}")
    return problems


def clear_store(name: str, folder: Path | None = None) -> int:
    """Removes a store and says how many bytes it took; one that is in use is refused."""
    path = _existing(name, folder)
    try:
        locks = [Lock(path / lock, fcntl.LOCK_EX | fcntl.LOCK_NB) for lock in ("write.lock", "use.lock")]
    except BlockingIOError:
        raise LaminaError(f"{path}: in use by another process: wait for it to end") from None
    size = _bytes(path)
    shutil.rmtree(path)
    for lock in locks:
        lock.close()
    return size


def _stores(folder: Path | None) -> list[Path]:
    folder = folder or stores_folder()
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _existing(name: str, folder: Path | None) -> Path:
    found = [path for path in _stores(folder) if path.name.startswith(name)]
    if len(found) != 1:
        raise LaminaError(f"{name}: {'no store' if not found else 'more than one store'} of that name: see `lamina cache list`")
    return found[0]


def _index(path: Path) -> dict[str, Any] | None:
    try:
        index = read_json(path / "store.json")
    except LaminaError:
        return None
    return index if isinstance(index, dict) and index.get("format") == FORMAT else None


def _listed(path: Path) -> Listed:
    index = _index(path)
    if index is None:
        return Listed(path.name, "", "", (), "", _bytes(path), 0.0, path.stat().st_mtime)
    contents, shards = index["contents"], index["shards"]
    written = sum(shard["crc32"] is not None for shard in shards) / max(1, len(shards))
    return Listed(
        path.name,
        contents["model"],
        contents["data"],
        tuple(contents["layers"]),
        contents["dtype"],
        _bytes(path),
        written,
        (path / "store.json").stat().st_mtime,
    )


def _bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.iterdir() if file.is_file())


def ago(seconds: float) -> str:
    """How long ago a time was, in the largest whole unit.

    >>> ago(time.time() - 7300)
    '2 hours'
    """
    passed = max(0, int(time.time() - seconds))
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if passed >= 2 * length:
            return f"{passed // length} {unit}"
    return f"{passed} seconds"
