"""Weight files: which tensors they hold, the tensors themselves, and checksums that are computed once."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from lamina.errors import LaminaError
from lamina.utils.files import read_json, write_json
from lamina.utils.paths import cache_folder


def weight_files(folder: Path, *, allow_pickle: bool) -> tuple[Path, ...]:
    """A checkpoint's weight files: safetensors, whole or in shards; pickled ones only where they are allowed."""
    if found := one_or_shards(folder, "model.safetensors"):
        return found
    if not (pickled := one_or_shards(folder, "pytorch_model.bin")):
        raise LaminaError(
            f"{folder} has no weights (model.safetensors; a pickled pytorch_model.bin is read only with --allow-pickle)"
        )
    if not allow_pickle:
        raise LaminaError(
            f"{folder} has only {pickled[0].name}, a pickle, and reading a pickle can run code that is hidden in it. "
            "If you trust its origin, allow it: --allow-pickle, or encoder.allow_pickle=true in a recipe"
        )
    return pickled


def one_or_shards(folder: Path, name: str) -> tuple[Path, ...]:
    """The file of that name, or the shards that its index lists, or nothing."""
    if (folder / name).is_file():
        return (folder / name,)
    index = folder / f"{name}.index.json"
    if not index.is_file():
        return ()
    shards = tuple(folder / shard for shard in sorted(set(read_json(index).get("weight_map", {}).values())))
    if not shards:
        raise LaminaError(f"{index} lists no shards")
    for shard in shards:
        if shard.parent != folder or not shard.is_file():
            raise LaminaError(f"{index} lists {shard.name}, which is not in its folder")
    return shards


def tensor_names(files: Sequence[Path]) -> list[str]:
    """The names of all tensors; of a safetensors file only the header is read."""
    names: list[str] = []
    for file in files:
        if file.suffix == ".safetensors":
            with opened(file) as weights:
                names += weights.keys()
        else:
            names += unpickled(file)
    return names


def read_tensors(
    files: Sequence[Path], wanted: Collection[str], *, device: torch.device | str = "cpu"
) -> Iterator[tuple[str, Tensor]]:
    """The wanted tensors, in the order in which the files have them."""
    for file in files:
        if file.suffix == ".safetensors":
            with opened(file, device=device) as weights:
                for name in weights.keys():  # noqa: SIM118 (the handle is no dict and cannot be iterated)
                    if name in wanted:
                        yield name, weights.get_tensor(name)
        else:
            for name, tensor in unpickled(file).items():
                if name in wanted:
                    yield name, tensor.to(device)


def opened(file: Path, *, device: torch.device | str = "cpu") -> Any:
    try:
        return safe_open(file, framework="pt", device=str(device))
    except (OSError, SafetensorError) as error:
        raise LaminaError(f"{file} cannot be read: {error}") from None


def unpickled(file: Path) -> dict[str, Tensor]:
    """``weights_only`` refuses everything but tensors and plain containers."""
    try:
        values = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, pickle.UnpicklingError, EOFError) as error:
        raise LaminaError(f"{file} cannot be read: {str(error).splitlines()[0]}") from None
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def sha256_of(file: Path) -> str:
    """The file's checksum. It is remembered for (path, size, time of change), since hashing costs more than loading."""
    path = file.resolve()
    status = path.stat()
    key = f"{path}|{status.st_size}|{status.st_mtime_ns}"
    memory = cache_folder() / "sha256.json"
    known: dict[str, str] = {}
    with suppress(OSError, LaminaError, TypeError, ValueError):  # whatever ails the cache, hashing again mends it
        known = dict(read_json(memory))
    if key not in known:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        others = {other: value for other, value in known.items() if not other.startswith(f"{path}|")}
        known = others | {key: digest}
        with suppress(OSError, LaminaError):  # a cache that cannot be written costs time, not the run
            memory.parent.mkdir(parents=True, exist_ok=True)
            write_json(memory, known)
    return known[key]
