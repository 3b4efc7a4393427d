"""The store: hidden states of frozen layers, computed once a window and read ever after.

A store is a folder of shards. Each holds the states of some windows without padding, ``[tokens, layers, H]``, to be
memory-mapped; with int8 also a scale for every token and layer, the values being centred by channel first. ``store.json``
says what the store is of and gives a checksum for each shard. Shards are written whole or not at all, so what an
interrupted extraction left is kept, and what is damaged is computed again.

One process writes at a time (``write.lock``); others wait for it. Whoever reads holds ``use.lock``, so that nobody clears
a store under a running training.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lamina.cache.options import Dtype
from lamina.data.batches import Batch, make_batch
from lamina.data.windows import Windows
from lamina.errors import LaminaError
from lamina.files import make_folder, read_json, replacing, write_json
from lamina.paths import cache_folder
from lamina.progress import Progress, Silent
from lamina.stack import HiddenStack

FORMAT = 1
SHARD_BYTES = 64 << 20
SAMPLE = 64  # windows that the channels' centres are taken from

Longs = npt.NDArray[np.int64]
Extract = Callable[[Longs], Tensor]
"""Windows -> their states of all layers of the store without padding, [tokens, layers, H] float32."""


class StoreError(LaminaError):
    """The store cannot be kept; what it would hold can still be computed."""


@dataclass(frozen=True)
class Contents:
    """What a store is of. Equal contents have equal states, so they share a store."""

    weights: str  # fingerprint of the frozen layers
    windows: str  # fingerprint of the texts, the tokenizer and the window settings
    layers: tuple[int, ...]
    hidden: int
    positions: Literal["tokens", "cls"]
    dtype: Dtype
    model: str = field(default="", compare=False)  # for people
    data: str = field(default="", compare=False)

    @property
    def key(self) -> str:
        parts = (FORMAT, self.weights, self.windows, self.layers, self.hidden, self.positions, self.dtype)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]

    @property
    def bytes_per_token(self) -> int:
        width = {"float32": 4, "float16": 2, "int8": 1}[self.dtype] * self.hidden
        return len(self.layers) * (width + (2 if self.dtype == "int8" else 0))


@dataclass
class Shard:
    first: int  # window
    last: int  # exclusive
    bytes: int
    crc32: int | None = None  # None: not written yet


class Store:
    """A complete store, open for reading."""

    def __init__(self, folder: Path, contents: Contents, starts: Longs, shards: Sequence[Shard]) -> None:
        self.contents = contents
        self._starts = starts  # [W + 1] tokens of the store
        self._first = np.array([shard.first for shard in shards])
        self._parts = [_map(folder / shard_file(n), contents, _tokens(starts, shard)) for n, shard in enumerate(shards)]
        self._centre = torch.from_numpy(np.load(folder / "centre.npy")) if contents.dtype == "int8" else None
        self._in_use = Lock(folder / "use.lock", fcntl.LOCK_SH)

    def read(self, windows: Sequence[int] | Longs, mask: Tensor) -> HiddenStack:
        """The states of `windows`, padded with zeros to the width of `mask` [R, T]."""
        layers, hidden = self.contents.layers, self.contents.hidden
        rows = np.asarray(windows, np.int64)
        width = 1 if self.contents.positions == "cls" else mask.shape[1]
        states = torch.zeros(len(layers), len(rows), width, hidden)
        shard_of = np.searchsorted(self._first, rows, side="right") - 1
        for row, (window, shard) in enumerate(zip(rows.tolist(), shard_of.tolist(), strict=True)):
            base = self._starts[self._first[shard]]
            span = slice(int(self._starts[window] - base), int(self._starts[window + 1] - base))
            target = states[:, row, : span.stop - span.start]  # [layers, n, H]
            values, scales = self._parts[shard]
            target.copy_(values[span].transpose(0, 1))
            if scales is not None and self._centre is not None:
                target.mul_(scales[span].T[:, :, None].float()).add_(self._centre[:, None])
        return HiddenStack(layers, states.unbind(0), mask[:, :width], depth=max(layers))

    def close(self) -> None:
        self._in_use.close()


def stored_batch(windows: Windows, rows: Sequence[int] | Longs, store: Store | None) -> Batch:
    """`make_batch`, with the stored states of the windows if there is a store."""
    batch = make_batch(windows, rows)
    return batch if store is None else replace(batch, states=store.read(rows, batch.mask))


def open_store(
    contents: Contents, starts: Longs, extract: Extract, *, progress: Progress | None = None, folder: Path | None = None
) -> Store:
    """The store of `contents`, whose windows have the tokens ``starts[w]:starts[w + 1]``; what is missing of it is computed."""
    progress = progress or Silent()
    folder = (folder or stores_folder()) / contents.key
    try:
        make_folder(folder)
        shards = _read_index(folder, contents, starts)
        if _missing(folder, contents, shards):
            with _writing(folder, progress):
                shards = _read_index(folder, contents, starts)
                for number, reason in _missing(folder, contents, shards).items():
                    shards[number].crc32 = None
                    if reason:
                        progress.say(f"{folder / shard_file(number)}: {reason}: computing it again")
                _write_missing(folder, contents, starts, shards, extract, progress)
        os.utime(folder / "store.json")  # when it was last of use
        return Store(folder, contents, starts, shards)
    except OSError as error:
        raise StoreError(f"{error.filename or folder}: {error.strerror or error}") from error
    except LaminaError as error:
        if isinstance(error.__cause__, OSError):
            raise StoreError(str(error)) from error
        raise


def stores_folder() -> Path:
    return cache_folder() / "states"


# Writing.


def _write_missing(
    folder: Path, contents: Contents, starts: Longs, shards: list[Shard], extract: Extract, progress: Progress
) -> None:
    for draft in folder.glob(".*.tmp"):  # of a process that was killed while it wrote
        draft.unlink(missing_ok=True)
    missing = [number for number, shard in enumerate(shards) if shard.crc32 is None]
    progress.start("storing", sum(shard.last - shard.first for shard in shards))
    progress.advance(sum(shard.last - shard.first for shard in shards if shard.crc32 is not None))
    centre = _centre(folder, contents, starts, shards, extract)
    for number in missing:
        shard = shards[number]
        states = extract(np.arange(shard.first, shard.last))
        path = folder / shard_file(number)
        with replacing(path) as draft, draft.open("wb") as file:
            for part in _encoded(states, contents.dtype, centre):
                file.write(part.numpy().data.cast("B"))
        shard.crc32 = _crc32(path)
        _write_index(folder, contents, shards)
        progress.advance(shard.last - shard.first)


def _encoded(states: Tensor, dtype: Dtype, centre: Tensor | None) -> tuple[Tensor, ...]:
    """What a shard's file holds, in order."""
    if centre is None:
        return (states.to(getattr(torch, dtype)).contiguous(),)
    states = states - centre
    scales = (states.abs().amax(-1) / 127).clamp_min(1e-6).half()  # [tokens, layers]
    values = (states / scales[..., None].float()).round_().clamp_(-127, 127).to(torch.int8)
    return values.contiguous(), scales.contiguous()


def _centre(folder: Path, contents: Contents, starts: Longs, shards: Sequence[Shard], extract: Extract) -> Tensor | None:
    """[layers, H] the mean of each channel over windows from the whole data set; shards that are there were made with it."""
    if contents.dtype != "int8":
        return None
    path = folder / "centre.npy"
    if not any(shard.crc32 is not None for shard in shards):
        chosen = np.unique(np.linspace(0, len(starts) - 2, SAMPLE).astype(np.int64))
        with replacing(path) as draft, draft.open("wb") as file:
            np.save(file, extract(chosen).mean(0).numpy())
    return torch.from_numpy(np.load(path))


def _plan(contents: Contents, starts: Longs) -> list[Shard]:
    """Windows in order, cut into shards of about equal size."""
    shards, first = [], 0
    room = max(1, SHARD_BYTES // contents.bytes_per_token)  # tokens
    while first < len(starts) - 1:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + room, side="right")) - 1)
        shards.append(Shard(first, last, int(starts[last] - starts[first]) * contents.bytes_per_token))
        first = last
    return shards


def _write_index(folder: Path, contents: Contents, shards: Sequence[Shard]) -> None:
    write_json(folder / "store.json", {"format": FORMAT, "contents": asdict(contents), "shards": [asdict(s) for s in shards]})


def _read_index(folder: Path, contents: Contents, starts: Longs) -> list[Shard]:
    """The shards that are to be, with the checksums of those that are there."""
    fresh = _plan(contents, starts)
    try:
        known = [Shard(**shard) for shard in read_json(folder / "store.json")["shards"]]
    except (LaminaError, KeyError, TypeError):
        return fresh
    return known if [(s.first, s.last) for s in known] == [(s.first, s.last) for s in fresh] else fresh


# Checking.


def _missing(folder: Path, contents: Contents, shards: Sequence[Shard]) -> dict[int, str]:
    """The shards that must be computed, each with what is wrong with it; "" if it was never written."""
    if contents.dtype == "int8" and not _readable(folder / "centre.npy", (len(contents.layers), contents.hidden)):
        written = any(shard.crc32 is not None for shard in shards)
        return dict.fromkeys(range(len(shards)), "its centres are lost" if written else "")
    wrong = {number: damage(folder / shard_file(number), shard) for number, shard in enumerate(shards)}
    return {number: reason for number, reason in wrong.items() if reason is not None}


def damage(path: Path, shard: Shard) -> str | None:
    """What is wrong with a shard's file; "" if it was never written, None if nothing is."""
    if shard.crc32 is None:
        return ""
    try:
        size = path.stat().st_size
        if size != shard.bytes:
            return f"truncated ({size} of {shard.bytes} bytes)"
        return None if _crc32(path) == shard.crc32 else "damaged (its checksum differs)"
    except OSError as error:
        return error.strerror or str(error)


def _readable(path: Path, shape: tuple[int, ...]) -> bool:
    try:
        return bool(np.load(path).shape == shape)
    except (OSError, ValueError, EOFError):
        return False


def _crc32(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            checksum = zlib.crc32(block, checksum)
    return checksum


# Files.


def shard_file(number: int) -> str:
    return f"{number:05}.bin"


def _tokens(starts: Longs, shard: Shard) -> int:
    return int(starts[shard.last] - starts[shard.first])


def _map(path: Path, contents: Contents, tokens: int) -> tuple[Tensor, Tensor | None]:
    """A shard's values [tokens, layers, H] and its scales [tokens, layers], read from the file when they are touched."""
    layers, hidden = len(contents.layers), contents.hidden
    shape = (tokens, layers, hidden)
    values = np.memmap(path, contents.dtype, "c", 0, shape)  # "c": torch wants arrays that it could write to
    scales = np.memmap(path, np.float16, "c", values.nbytes, shape[:2]) if contents.dtype == "int8" else None
    return torch.from_numpy(values), None if scales is None else torch.from_numpy(scales)


class Lock:
    """A lock on a file, held until it is closed, forgotten, or the process ends."""

    def __init__(self, path: Path, how: int) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        self.close = weakref.finalize(self, os.close, file)
        try:
            fcntl.flock(file, how)
        except BaseException:
            self.close()
            raise


@contextmanager
def _writing(folder: Path, progress: Progress) -> Iterator[None]:
    try:
        lock = Lock(folder / "write.lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        progress.say(f"another process is writing {folder}: waiting for it")
        lock = Lock(folder / "write.lock", fcntl.LOCK_EX)
    try:
        yield
    finally:
        lock.close()
