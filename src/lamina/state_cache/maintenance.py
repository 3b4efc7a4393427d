"""List, verify and clear stores, for `lamina cache`."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from lamina.errors import LaminaError
from lamina.state_cache.store import Contents, Shard, damage, shard_file, stores_folder
from lamina.utils.files import read_json
from lamina.utils.locks import BusyError, Lock


@dataclass(frozen=True)
class StoreSummary:
    """A store as `lamina cache list` shows it."""

    name: str
    model: str
    data: str
    layers: tuple[int, ...]
    dtype: str
    bytes: int
    share: float  # share of the shards that are written
    used: float  # time of the last use, in seconds since 1970


def list_stores(folder: Path | None = None) -> list[StoreSummary]:
    """Return every store, the last used first."""
    return sorted((_summary(path) for path in _stores(folder)), key=lambda store: -store.used)


def verify_store(name: str, folder: Path | None = None) -> list[str]:
    """Return a line for each missing or damaged shard; the next run that uses the store computes these again."""
    path = _existing(name, folder)
    index = _index(path)
    if index is None:
        return [f"{path / 'store.json'}: cannot be read"]
    problems = []
    for number, shard in enumerate(index[1]):
        file = path / shard_file(number)
        if (reason := damage(file, shard)) is not None:
            problems.append(f"{file}: {reason or 'not written yet'}")
    return problems


def clear_store(name: str, folder: Path | None = None) -> int:
    """Remove a store and return how many bytes it took; refuse one that is in use."""
    path = _existing(name, folder)
    try:
        locks = [Lock(path / lock, wait=False) for lock in ("write.lock", "use.lock")]
        size = _bytes(path)
        shutil.rmtree(path)
    except BusyError:
        raise LaminaError(f"{path}: another process uses the store. Fix: wait until it ends") from None
    except OSError as error:
        raise LaminaError(f"{error.filename or path}: {error.strerror or error}. Fix: remove the folder by hand") from None
    for lock in locks:
        lock.close()
    return size


def _stores(folder: Path | None) -> list[Path]:
    folder = folder or stores_folder()
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _existing(name: str, folder: Path | None) -> Path:
    """Return the folder of the only store whose name starts with `name`."""
    found = [path for path in _stores(folder) if path.name.startswith(name)]
    if len(found) != 1:
        what = "there is no store of that name" if not found else "more than one store has that name"
        raise LaminaError(f"{name}: {what}. Fix: choose a name from `lamina cache list`")
    return found[0]


def _index(path: Path) -> tuple[Contents, list[Shard]] | None:
    """Return the contents and shards of a store, if its index can be read."""
    try:
        index = read_json(path / "store.json")
        contents = Contents(**index["contents"] | {"layers": tuple(index["contents"]["layers"])})
        return contents, [Shard(**shard) for shard in index["shards"]]
    except (LaminaError, KeyError, TypeError):
        return None


def _summary(path: Path) -> StoreSummary:
    index = _index(path)
    if index is None:
        return StoreSummary(path.name, "?", "?", (), "?", _bytes(path), 0.0, path.stat().st_mtime)
    contents, shards = index
    return StoreSummary(
        path.name,
        contents.model,
        contents.data,
        contents.layers,
        contents.dtype,
        _bytes(path),
        sum(shard.crc32 is not None for shard in shards) / max(1, len(shards)),
        (path / "store.json").stat().st_mtime,
    )


def _bytes(path: Path) -> int:
    """Return the size of a store's shards and index; drafts do not count."""
    return sum(file.stat().st_size for file in [*path.glob("[0-9]*.bin"), *path.glob("store.json")])


def ago(seconds: float) -> str:
    """Return how long ago a time was, in the largest unit that gives 2 or more.

    >>> ago(time.time() - 7300)
    '2 hours'
    """
    passed = max(0, int(time.time() - seconds))
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if passed >= 2 * length:
            return f"{passed // length} {unit}"
    return f"{passed} seconds"
