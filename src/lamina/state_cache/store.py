"""The store: hidden states of frozen layers, computed once for each window, then read in every epoch.

A store can also hold the outputs of a teacher, which has trained before. It then has no layers, and one output for each
token or item: ``[tokens, 1, H]``.

A store is a folder of shards. A shard holds the states of some windows without padding, ``[tokens, layers, H]``, and is
memory-mapped. int8 first subtracts the mean of every channel over the shard, and gives every token and layer a scale.
Means and scales precede the values in the file. ``store.json`` describes the contents and has a checksum for each shard.
Shards are written whole or not at all. So an interrupted extraction keeps its shards, and a damaged shard is computed again.

One process writes at a time (``write.lock``); others wait for it. Readers hold ``use.lock``, so that no process clears
a store which a run reads.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from lamina.data.hidden_states import HiddenStack
from lamina.errors import LaminaError
from lamina.state_cache.options import Dtype
from lamina.utils.arrays import Longs
from lamina.utils.files import make_folder, read_json, remove_drafts, replacing, write_json
from lamina.utils.locks import BusyError, Lock
from lamina.utils.paths import cache_folder
from lamina.utils.progress import Progress, Silent

FORMAT = 1
SHARD_BYTES = 64 << 20
OUTPUTS = 1 << 14  # tokens or items of a shard of outputs: it takes few bytes, but as long to compute as states
MANY = 256  # largest number of shards; a larger store has larger shards

Extract = Callable[[Longs], Tensor]
"""Return the states of some windows, all layers of the store, without padding: [tokens, layers, H] float32.

The outputs of a teacher are [tokens or items, 1, H].
"""


class StoreError(LaminaError):
    """Raised when a store cannot be written or read; the states can still be computed in every epoch."""


@dataclass(frozen=True)
class Contents:
    """The contents of a store. Equal contents have equal states, so they share a store."""

    weights: str  # fingerprint of the frozen layers, or of a teacher
    windows: str  # fingerprint of the texts, the tokenizer and the window settings
    layers: tuple[int, ...]  # empty for the outputs of a teacher
    hidden: int
    positions: Literal["tokens", "cls"]  # outputs: of each token of a window, or of each item
    dtype: Dtype
    model: str = field(default="", compare=False)  # for messages
    data: str = field(default="", compare=False)

    @property
    def key(self) -> str:
        """Return the name of the store's folder."""
        parts = (FORMAT, self.weights, self.windows, self.layers, self.hidden, self.positions, self.dtype)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]

    @property
    def planes(self) -> int:
        """The number of vectors of a token: one for each layer, or one output."""
        return max(1, len(self.layers))

    def bytes(self, tokens: int) -> int:
        """Return the size of `tokens` tokens in one shard, in bytes."""
        each, layers = {"float32": 4, "float16": 2, "int8": 1}[self.dtype] * self.hidden, self.planes
        return tokens * layers * each + (0 if self.dtype != "int8" else 4 * layers * self.hidden + 2 * tokens * layers)


@dataclass
class Shard:
    """Consecutive windows whose states are in one file."""

    first: int  # first window
    last: int  # last window, exclusive
    bytes: int
    crc32: int | None = None  # None: not written yet


class Store:
    """A complete store, open for reading."""

    def __init__(self, folder: Path, contents: Contents, starts: Longs, shards: Sequence[Shard], in_use: Lock) -> None:
        self.contents = contents
        self._starts = starts  # [W + 1] first token of each window
        self._first = np.array([shard.first for shard in shards])
        tokens = [int(starts[shard.last] - starts[shard.first]) for shard in shards]
        self._shards = [_map(folder / shard_file(n), contents, count) for n, count in enumerate(tokens)]
        self._in_use = in_use

    def read(self, windows: Sequence[int] | Longs, mask: Tensor) -> HiddenStack:
        """Return the states of `windows`, padded with zeros to the width of `mask` [R, T]."""
        states = self._padded(windows, mask.shape[1])
        layers = self.contents.layers
        return HiddenStack(layers, states.unbind(0), mask[:, : states.shape[2]], depth=max(layers))

    def outputs(self, rows: Sequence[int] | Longs, width: int) -> Tensor:
        """Return the outputs of windows, [R, width, H] padded with zeros, or those of items, [I, H]."""
        found = self._padded(rows, width)[0]
        return found[:, 0] if self.contents.positions == "cls" else found

    def _padded(self, windows: Sequence[int] | Longs, width: int) -> Tensor:
        """Return the stored vectors of some windows or items, [layers, R, T, H]. `width` is T, unless T is 1."""
        rows = np.asarray(windows, np.int64)
        width = 1 if self.contents.positions == "cls" else width
        states = torch.zeros(self.contents.planes, len(rows), width, self.contents.hidden)
        shard_of = np.searchsorted(self._first, rows, side="right") - 1
        for row, (window, shard) in enumerate(zip(rows.tolist(), shard_of.tolist(), strict=True)):
            base = self._starts[self._first[shard]]
            span = slice(int(self._starts[window] - base), int(self._starts[window + 1] - base))
            self._shards[shard].read(span, states[:, row, : span.stop - span.start])
        return states

    def close(self) -> None:
        """Release the lock that protects the store from `lamina cache clear`."""
        self._in_use.close()


@dataclass(frozen=True)
class _Mapped:
    """The tensors of a shard, memory-mapped from its file."""

    values: Tensor  # [tokens, layers, H]
    centre: Tensor | None = None  # [layers, H]
    scales: Tensor | None = None  # [tokens, layers]

    def read(self, tokens: slice, target: Tensor) -> None:
        """Write the states of some tokens into `target` [layers, n, H]."""
        target.copy_(self.values[tokens].transpose(0, 1))
        if self.centre is not None and self.scales is not None:
            target.mul_(self.scales[tokens].T[:, :, None].float()).add_(self.centre[:, None])


def open_store(
    contents: Contents, starts: Longs, extract: Extract, *, progress: Progress | None = None, folder: Path | None = None
) -> Store:
    """Open the store of `contents`, and compute missing shards. Window w has the tokens ``starts[w]:starts[w + 1]``."""
    progress = progress or Silent()
    folder = (folder or stores_folder()) / contents.key
    try:
        make_folder(folder)
        in_use = Lock(folder / "use.lock", shared=True)
        shards = _read_index(folder, contents, starts)
        if _missing(folder, shards):
            with _writing(folder, progress):
                shards = _read_index(folder, contents, starts)
                for number, reason in _missing(folder, shards).items():
                    shards[number].crc32 = None
                    if reason:
                        progress.say(f"{folder / shard_file(number)}: {reason}; it is computed again")
                _write_missing(folder, contents, shards, extract, progress)
        os.utime(folder / "store.json")  # the time of its last use
        return Store(folder, contents, starts, shards, in_use)
    except OSError as error:
        what = f"{error.filename or folder}: {error.strerror or error}"
        raise StoreError(f"{what}. Fix: set LAMINA_CACHE to another folder{_or_never(contents)}") from error
    except LaminaError as error:
        if isinstance(error.__cause__, OSError):
            raise StoreError(str(error)) from error
        raise


def stores_folder() -> Path:
    return cache_folder() / "states"


def _or_never(contents: Contents) -> str:
    """Return the second fix of a store that cannot be written: states can be computed in every epoch, outputs cannot."""
    return ", or set cache.use=never" if contents.layers else ""


# Write.


def _write_missing(folder: Path, contents: Contents, shards: list[Shard], extract: Extract, progress: Progress) -> None:
    """Compute and write the missing shards."""
    remove_drafts(folder)
    missing = {number: shard for number, shard in enumerate(shards) if shard.crc32 is None}
    needed, free = sum(shard.bytes for shard in missing.values()), shutil.disk_usage(folder).free
    if needed > 0.95 * free:
        what = f"the store needs {needed / 1e9:.1f} GB, but only {free / 1e9:.1f} GB are free"
        raise StoreError(f"{folder}: {what}. Fix: clear old stores with `lamina cache clear`{_or_never(contents)}")
    windows = sum(shard.last - shard.first for shard in shards)
    progress.start("storing", windows, windows - sum(shard.last - shard.first for shard in missing.values()))
    for number, shard in missing.items():
        path = folder / shard_file(number)
        try:
            _write_shard(path, _encoded(extract(np.arange(shard.first, shard.last)), contents.dtype))
        except LaminaError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.ENOSPC:
                _delete_written(folder, contents, shards, missing)
            raise
        shard.crc32 = _crc32(path)
        _write_index(folder, contents, shards)
        progress.advance(shard.last - shard.first)


def _write_shard(path: Path, parts: Sequence[Tensor]) -> None:
    with replacing(path) as draft, draft.open("wb") as file:
        for part in parts:
            file.write(part.numpy().data.cast("B"))


def _delete_written(folder: Path, contents: Contents, shards: Sequence[Shard], written: dict[int, Shard]) -> None:
    """Delete the shards of this extraction: the disk is full, so the store cannot become complete."""
    for number, shard in written.items():
        (folder / shard_file(number)).unlink(missing_ok=True)
        shard.crc32 = None
    _write_index(folder, contents, shards)


def _encoded(states: Tensor, dtype: Dtype) -> tuple[Tensor, ...]:
    """Return the tensors of a shard's file, in order."""
    if dtype != "int8":
        return (states.to(getattr(torch, dtype)).contiguous(),)
    centre = states.mean(0)  # [layers, H]
    states = states - centre
    scales = (states.abs().amax(-1) / 127).clamp_min(1e-6).half()  # [tokens, layers]
    values = (states / scales[..., None].float()).round_().clamp_(-127, 127).to(torch.int8)
    return centre.contiguous(), scales.contiguous(), values.contiguous()


def _map(path: Path, contents: Contents, tokens: int) -> _Mapped:
    """Map a shard's file to tensors: the reverse of `_encoded`."""
    layers, hidden = contents.planes, contents.hidden
    raw = torch.from_file(str(path), shared=False, size=contents.bytes(tokens), dtype=torch.uint8)
    if contents.dtype != "int8":
        return _Mapped(raw.view(getattr(torch, contents.dtype)).view(tokens, layers, hidden))
    centre, scales, values = torch.split(raw, [4 * layers * hidden, 2 * tokens * layers, tokens * layers * hidden])
    return _Mapped(
        values.view(torch.int8).view(tokens, layers, hidden),
        centre.view(torch.float32).view(layers, hidden),
        scales.view(torch.float16).view(tokens, layers),
    )


def _cut_into_shards(contents: Contents, starts: Longs) -> list[Shard]:
    """Return the windows, in order, cut into shards of about equal size."""
    shards, first = [], 0
    tokens = int(starts[-1])
    usual = SHARD_BYTES // contents.bytes(1) if contents.layers else OUTPUTS
    room = max(1, usual, -(-tokens // MANY))  # tokens
    while first < len(starts) - 1:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + room, side="right")) - 1)
        shards.append(Shard(first, last, contents.bytes(int(starts[last] - starts[first]))))
        first = last
    return shards


def _write_index(folder: Path, contents: Contents, shards: Sequence[Shard]) -> None:
    write_json(folder / "store.json", {"format": FORMAT, "contents": asdict(contents), "shards": [asdict(s) for s in shards]})


def _read_index(folder: Path, contents: Contents, starts: Longs) -> list[Shard]:
    """Return all shards, with the checksums of those that are written."""
    shards = _cut_into_shards(contents, starts)
    try:
        known = {(s["first"], s["last"]): s["crc32"] for s in read_json(folder / "store.json")["shards"]}
    except (LaminaError, KeyError, TypeError):
        known = {}
    for shard in shards:
        shard.crc32 = known.get((shard.first, shard.last))
    return shards


# Check.


def _missing(folder: Path, shards: Sequence[Shard]) -> dict[int, str]:
    """Return the shards to compute, each with the reason; "" if it was never written."""
    wrong = {number: damage(folder / shard_file(number), shard) for number, shard in enumerate(shards)}
    return {number: reason for number, reason in wrong.items() if reason is not None}


def damage(path: Path, shard: Shard) -> str | None:
    """Return what is wrong with a shard's file: "" if it was never written, None if it is intact."""
    if shard.crc32 is None:
        return ""
    try:
        size = path.stat().st_size
        if size != shard.bytes:
            return f"truncated ({size} of {shard.bytes} bytes)"
        return None if _crc32(path) == shard.crc32 else "damaged (its checksum differs)"
    except OSError as error:
        return error.strerror or str(error)


def _crc32(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            checksum = zlib.crc32(block, checksum)
    return checksum


def shard_file(number: int) -> str:
    return f"{number:05}.bin"


@contextmanager
def _writing(folder: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock for writing; wait for another process that holds it."""
    try:
        lock = Lock(folder / "write.lock", wait=False)
    except BusyError:
        progress.say(f"{folder}: waiting for another process that writes this store")
        lock = Lock(folder / "write.lock")
    try:
        yield
    finally:
        lock.close()
