"""Read files, with one LaminaError for every failure, and write them atomically."""

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
_GET_AGAIN: Final = "name another file, or get this file again"


def read_text(path: Path) -> str:
    """Return the text of a file, decompressed if it ends in `.gz` or `.xz`, without a byte order mark."""
    return decode_text(path, unpack(path, read_bytes(path)))


def decode_text(path: Path | str, data: bytes) -> str:
    """Return the text of a file's bytes, without a byte order mark. `path` is for messages only."""
    if not data.strip():
        raise LaminaError(f"{path}: is empty. Fix: {_GET_AGAIN}")
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        hint = " (it looks like UTF-16)" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else ""
        raise LaminaError(f"{path}: byte {error.start}: not UTF-8{hint}. Fix: save the file as UTF-8") from None


def expanded(name: str | Path) -> Path:
    """Return the path of a name, with `~` replaced by the home folder."""
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise LaminaError(f"{name}: {error} Fix: write the whole path instead of ~") from None


def check_new(folder: Path, fix: str = "save into a new folder") -> None:
    """Raise LaminaError if a folder exists and is not empty. `fix` is the end of the message."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise LaminaError(f"{folder}: exists and is not empty. Fix: {fix}")


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise LaminaError(f"{path}: no such file. Fix: check the path") from None
    except IsADirectoryError:
        raise LaminaError(f"{path}: is a folder. Fix: name a file in it") from None
    except OSError as error:
        problem = error.strerror or error
        raise LaminaError(f"{path}: cannot be read: {problem}. Fix: check the path and its permissions") from None


def unpack(path: Path, data: bytes) -> bytes:
    """Return the decompressed data of a file that ends in `.gz` or `.xz`, and the data itself of other files."""
    packing = path.suffix.lower() if path.suffix.lower() in _MAGIC else ""
    actual = next((name for name, magic in _MAGIC.items() if data.startswith(magic)), "")
    if not data:
        raise LaminaError(f"{path}: is empty. Fix: {_GET_AGAIN}")
    if packing and packing != actual and not _MAGIC[packing].startswith(data):
        raise LaminaError(f"{path}: not {packing[1:]} data, despite its name. Fix: {_rename(path.stem, actual)}")
    if actual and not packing:
        raise LaminaError(f"{path}: is {actual[1:]} data. Fix: {_rename(path.name, actual)}")
    try:
        if packing == ".gz":
            return gzip.decompress(data)
        return lzma.decompress(data) if packing == ".xz" else data
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        truncated = isinstance(error, EOFError) or "end-of-stream" in str(error)
        what = "ends in the middle (truncated)" if truncated else f"is damaged ({error})"
        raise LaminaError(f"{path}: the {packing[1:]} data {what}. Fix: get the whole file again") from None


def _rename(stem: str, packing: str) -> str:
    return f"rename it to {stem}{packing}"


def compress(path: Path, data: bytes) -> bytes:
    """Return the data compressed as the ending of the path requires (`.gz`, `.xz`), else unchanged."""
    if path.suffix.lower() == ".gz":
        return gzip.compress(data, mtime=0)
    return lzma.compress(data) if path.suffix.lower() == ".xz" else data


def read_json(path: Path) -> Any:
    """Return the value in a JSON file, which may be compressed."""
    text = read_text(path)
    try:
        return json.loads(text)
    except ValueError as error:
        raise LaminaError(f"{path}: not valid JSON ({error}). Fix: correct the file, or get it again") from None
    except RecursionError:
        raise LaminaError(f"{path}: the JSON is nested too deeply. Fix: name a file with fewer levels") from None


def check_apart(original: Path, out: Path) -> None:
    """Raise LaminaError if `out` is the same file as `original`."""
    if same_file(original, out):
        raise LaminaError(f"{out}: is the original, which is never overwritten. Fix: name another file")


def same_file(one: Path, other: Path) -> bool:
    """Return whether two paths are the same file, also through symbolic and hard links."""
    try:
        return one.samefile(other)
    except OSError:
        return one.resolve() == other.resolve()


def make_folder(path: Path) -> None:
    """Make a folder with its parents, unless it exists."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = error.strerror or error
        raise LaminaError(f"{path}: the folder cannot be made: {problem}. Fix: name another folder") from error


def remove_drafts(folder: Path) -> None:
    """Remove the drafts that killed processes left in a folder."""
    for draft in folder.glob(".*.tmp"):
        draft.unlink(missing_ok=True)


def write_json(path: Path, value: object) -> None:
    """Write a value as JSON, atomically."""
    write_atomically(path, (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode())


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file completely or not at all."""
    with replacing(path) as draft:
        draft.write_bytes(content)


class replacing:  # noqa: N801 - its uses read as a verb
    """``with replacing(path) as draft`` replaces the file `path` by `draft` at the end, or leaves it after an error."""

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
            raise LaminaError(f"{self._path}: cannot be written: {_write_problem(self._path, error)}") from error


def _write_problem(path: Path, error: OSError) -> str:
    """Return why a file cannot be written, and the fix."""
    if isinstance(error, FileNotFoundError) and not holds(path.parent.is_dir):
        return f"there is no folder {path.parent}. Fix: make the folder, or name another path"
    return f"{error.strerror or error}. Fix: free disk space, or name another path"


def holds(test: Callable[[], bool]) -> bool:
    """Return the result of a test of a path (`path.is_file`), and False if the test fails with an OSError."""
    try:
        return test()
    except OSError:  # for example a name that is too long, or a folder without permission
        return False
