"""Files: read with one clear line for every failure, written all or nothing."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from lamina.errors import LaminaError

_MAGIC: Final = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00"}


def read_text(path: Path) -> str:
    """A file's text, unpacked as its ending says and without a byte order mark. Every failure is one clear line."""
    return decode_text(path, unpack(path, read_bytes(path)))


def decode_text(path: Path | str, data: bytes) -> str:
    """The text of a file's bytes, without a byte order mark."""
    if not data.strip():
        raise LaminaError(f"{path}: is empty")
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        hint = " (it looks like UTF-16)" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else ""
        raise LaminaError(f"{path}: byte {error.start}: not UTF-8{hint}: save the file as UTF-8") from None


def expanded(name: str | Path) -> Path:
    """The path that a name stands for; `~` is the home folder."""
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise LaminaError(f"{name}: {error}") from None


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise LaminaError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise LaminaError(f"{path}: is a folder: name a file in it") from None
    except OSError as error:
        raise LaminaError(f"{path}: cannot be read: {error.strerror or error}") from None


def unpack(path: Path, data: bytes) -> bytes:
    """What is in a packed file, by its ending; the data itself where it is not packed."""
    packing = path.suffix.lower() if path.suffix.lower() in _MAGIC else ""
    actual = next((name for name, magic in _MAGIC.items() if data.startswith(magic)), "")
    if not data:
        raise LaminaError(f"{path}: is empty")
    if packing and packing != actual and not _MAGIC[packing].startswith(data):
        raise LaminaError(f"{path}: not {packing[1:]} data, though named so: {_rename(path.stem, actual)}")
    if actual and not packing:
        raise LaminaError(f"{path}: is {actual[1:]} data: {_rename(path.name, actual)}")
    try:
        if packing == ".gz":
            return gzip.decompress(data)
        return lzma.decompress(data) if packing == ".xz" else data
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        truncated = isinstance(error, EOFError) or "end-of-stream" in str(error)
        what = "ends in the middle (truncated)" if truncated else f"is damaged ({error})"
        raise LaminaError(f"{path}: the {packing[1:]} data {what}: get the whole file again") from None


def _rename(stem: str, packing: str) -> str:
    return f"name it {stem}{packing}"


def compress(path: Path, data: bytes) -> bytes:
    if path.suffix.lower() == ".gz":
        return gzip.compress(data, mtime=0)
    return lzma.compress(data) if path.suffix.lower() == ".xz" else data


def read_json(path: Path) -> Any:
    text = read_text(path)
    try:
        return json.loads(text)
    except ValueError as error:
        raise LaminaError(f"{path}: not valid JSON ({error})") from None
    except RecursionError:
        raise LaminaError(f"{path}: the JSON is nested too deeply") from None


def check_apart(original: Path, out: Path) -> None:
    """Raise LaminaError where `out` would overwrite the original."""
    if same_file(original, out):
        raise LaminaError(f"{out}: is the original, which is never overwritten: name another file")


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths name one file, also through symbolic and hard links."""
    try:
        return one.samefile(other)
    except OSError:
        return one.resolve() == other.resolve()


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LaminaError(f"{path}: the folder cannot be made: {error.strerror or error}") from error


def remove_drafts(folder: Path) -> None:
    """Those of a process that was killed while it wrote."""
    for draft in folder.glob(".*.tmp"):
        draft.unlink(missing_ok=True)


def write_json(path: Path, value: object) -> None:
    write_atomically(path, (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode())


def write_atomically(path: Path, content: bytes) -> None:
    with replacing(path) as draft:
        draft.write_bytes(content)


class replacing:  # noqa: N801 - reads as a verb where it is used
    """``with replacing(path) as draft``: what is written to `draft` takes the place of `path`, all of it or nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")

    def __enter__(self) -> Path:
        return self._draft

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if error is None:
                with self._draft.open("rb") as file:
                    os.fsync(file.fileno())
                self._draft.replace(self._path)
        except OSError as failure:
            error = failure
        finally:
            with suppress(OSError):
                self._draft.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise LaminaError(f"{self._path}: cannot be written: {error.strerror or error}") from error


def holds(test: Callable[[], bool]) -> bool:
    """What a path says of itself (`path.is_file`); no, where it cannot be asked."""
    try:
        return test()
    except OSError:  # a name too long for the file system, a folder closed to us
        return False
