"""Weight files: list them, read their tensors, and compute checksums once. Packed tensors are unpacked when they are read."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from pydantic import with_config
from safetensors import SafetensorError, safe_open
from torch import Tensor
from typing_extensions import TypedDict  # pydantic checks only this one in Python 3.11

from lamina.encoder.packing import SCALE, unpack
from lamina.errors import LaminaError, first_line
from lamina.utils.files import is_file, read_json, unreadable, write_json
from lamina.utils.options import STORED, stored
from lamina.utils.paths import cache_folder


@with_config(STORED)
class _Index(TypedDict):
    """The index of a checkpoint in several files."""

    weight_map: dict[str, str]


def weight_files(folder: Path, *, allow_pickle: bool) -> tuple[Path, ...]:
    """Return a checkpoint's weight files: safetensors, whole or in shards; pickled ones only if allowed."""
    if found := one_or_shards(folder, "model.safetensors"):
        return found
    if not (pickled := one_or_shards(folder, "pytorch_model.bin")):
        raise LaminaError(
            f"{folder}: there are no weights (model.safetensors or pytorch_model.bin). "
            "Fix: choose a folder that holds a whole checkpoint"
        )
    if not allow_pickle:
        raise LaminaError(
            f"{folder}: there is only {pickled[0].name}, a pickle file, which can run hidden code when it is read. "
            "Fix: if you trust its origin, allow it by --allow-pickle (allow_pickle=True) or encoder.allow_pickle=true"
        )
    return pickled


def one_or_shards(folder: Path, name: str) -> tuple[Path, ...]:
    """Return the file of that name, else the shards that its index lists, else nothing."""
    if is_file(folder / name):
        return (folder / name,)
    index = folder / f"{name}.index.json"
    if not is_file(index):
        return ()
    listed = stored(_Index, read_json(index), str(index), "download the model again")
    shards = tuple(folder / shard for shard in sorted(set(listed["weight_map"].values())))
    if not shards:
        raise LaminaError(f"{index}: the index lists no shards. Fix: download the model again")
    for shard in shards:
        if shard.parent != folder or not is_file(shard):
            raise LaminaError(f"{index}: the shard {shard.name} is not in the folder. Fix: download the model again")
    return shards


def tensor_names(files: Sequence[Path]) -> list[str]:
    """Return the names of all tensors, without the scales of packed ones; only the header of a safetensors file is read."""
    names: list[str] = []
    for file in files:
        if file.suffix == ".safetensors":
            with opened(file) as weights:
                names += [name for name in weights.keys() if not name.endswith(SCALE)]  # noqa: SIM118 (no dict)
        else:
            names += unpickled(file)
    return names


def read_tensors(
    files: Sequence[Path], wanted: Collection[str] | None = None, *, device: torch.device | str = "cpu"
) -> Iterator[tuple[str, Tensor]]:
    """Yield the wanted tensors with their names, in the order of the files; None for all. Packed ones become float32."""
    for file in files:
        if file.suffix == ".safetensors":
            with opened(file, device=device) as weights:
                names = dict.fromkeys(weights.keys())
                for name in names:
                    if name.endswith(SCALE) or (wanted is not None and name not in wanted):
                        continue
                    tensor = weights.get_tensor(name)
                    yield name, unpack(tensor, weights.get_tensor(name + SCALE)) if name + SCALE in names else tensor
        else:
            for name, tensor in unpickled(file).items():
                if wanted is None or name in wanted:
                    yield name, tensor.to(device)


def opened(file: Path, *, device: torch.device | str = "cpu") -> Any:
    """Return a handle on a safetensors file."""
    try:
        if not is_file(file):  # opening a pipe would wait for ever
            raise FileNotFoundError("there is no such file")
        with file.open("rb"):  # safetensors reports a file without permission as missing
            pass
        return safe_open(file, framework="pt", device=str(device))
    except PermissionError as error:
        raise unreadable(file, error) from None
    except (OSError, SafetensorError) as error:
        raise LaminaError(f"{file}: the weights are unreadable: {error}. Fix: download or copy the file again") from None


def unpickled(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a pickled file. ``weights_only`` refuses everything but tensors and plain containers."""
    try:
        values = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle raises many kinds of errors
        reason = first_line(error)
        raise LaminaError(f"{file}: the weights are unreadable: {reason}. Fix: download or copy the file again") from None
    if not isinstance(values, dict):
        what = f"the weights are a {type(values).__name__}, not tensors by name"
        raise LaminaError(f"{file}: {what}. Fix: download or copy the file again")
    return {str(name): value for name, value in values.items() if isinstance(value, Tensor)}


def joined_sha256(sums: Sequence[str]) -> str:
    """Return the only checksum, or the sha256 of several checksums."""
    return sums[0] if len(sums) == 1 else hashlib.sha256("\n".join(sums).encode()).hexdigest()


def sha256_of(file: Path) -> str:
    """Return the file's checksum. It is cached by path, size and time of change, since hashing takes longer than loading."""
    path = file.resolve()
    status = path.stat()
    key = f"{path}|{status.st_size}|{status.st_mtime_ns}"
    memory = cache_folder() / "sha256.json"
    known: dict[str, str] = {}
    with suppress(OSError, LaminaError, TypeError, ValueError):  # with an unusable cache, hash again
        known = dict(read_json(memory))
    if key not in known:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        others = {other: value for other, value in known.items() if not other.startswith(f"{path}|")}
        known = others | {key: digest}
        with suppress(OSError, LaminaError):  # an unwritable cache costs time only
            memory.parent.mkdir(parents=True, exist_ok=True)
            write_json(memory, known)
    return known[key]
