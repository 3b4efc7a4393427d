"""Read files, with one LaminaError for every failure, and write them atomically."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import re
import stat
import tomllib
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol

from lamina.errors import LaminaError

_MAGIC: Final = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00"}
_GET_AGAIN: Final = "name another file, or get this file again"
_OPEN_PIPES: Final = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")  # of this process, so opening them does not wait
_BLOCK: Final = 1 << 20
LIMIT: Final = "LAMINA_MAX_BYTES"
MOST_BYTES: Final = 1 << 30  # of a file after unpacking, without $LAMINA_MAX_BYTES


class Readable(Protocol):
    """What can be read in blocks."""

    def read(self, size: int, /) -> bytes: ...


def read_text(path: Path) -> str:
    """Return the text of a file, decompressed if it ends in `.gz` or `.xz`, without a byte order mark."""
    return decode_text(path, unpack(path, read_bytes(path)))


def most_bytes(usual: int = MOST_BYTES) -> int:
    """Return the most bytes that a file may hold after unpacking: ``$LAMINA_MAX_BYTES``, else `usual`."""
    chosen = os.environ.get(LIMIT, "").strip()
    if not chosen:
        return usual
    if not (chosen.isascii() and chosen.isdigit()) or len(chosen) > 18 or not int(chosen):
        raise LaminaError(f"{LIMIT}: {chosen[:40]!r} is not a number of bytes. Fix: set a whole number of at least 1")
    return int(chosen)


@contextmanager
def limited_to(most: int) -> Iterator[None]:
    """Set ``$LAMINA_MAX_BYTES`` within the block."""
    before = os.environ.get(LIMIT)
    os.environ[LIMIT] = str(most)
    try:
        yield
    finally:
        if before is None:
            del os.environ[LIMIT]
        else:
            os.environ[LIMIT] = before


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


def is_file(path: Path) -> bool:
    """Return whether a path is a file. If the system does not tell, for example for rights, raise LaminaError."""
    return _tested(path, path.is_file)


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder. If the system does not tell, for example for rights, raise LaminaError."""
    return _tested(path, path.is_dir)


def exists(path: Path) -> bool:
    """Return whether a path exists. If the system does not tell, for example for rights, raise LaminaError."""
    return _tested(path, path.exists)


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, sorted."""
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise unreadable(folder, error) from None


def _tested(path: Path, test: Callable[[], bool]) -> bool:
    try:
        return test()
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path | str, error: OSError) -> LaminaError:
    """Return the error for a path that cannot be read."""
    return LaminaError(f"{shortened(path)}: cannot be read: {error.strerror or error}. Fix: check the path and its permissions")


def shortened(path: Path | str, limit: int = 300) -> str:
    """Return a path for a message, without the middle if it is very long.

    >>> shortened("a" * 400 + ".txt", 20)
    'aaaaaaaaa…aaaaa.txt'
    """
    text = str(path)
    half = limit // 2 - 1
    return text if len(text) <= limit else f"{text[:half]}…{text[-half:]}"


def check_new(folder: Path, fix: str = "save into a new folder") -> None:
    """Raise LaminaError if a folder exists and is not empty. `fix` is the end of the message."""
    if exists(folder) and (not is_folder(folder) or names_in(folder)):
        raise LaminaError(f"{folder}: exists and is not empty. Fix: {fix}")


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """Return the bytes of a file. More than `most` (else `most_bytes`) raise LaminaError, as does a pipe or a device."""
    most = most or most_bytes()
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise LaminaError(f"{shortened(path)}: is a folder. Fix: name a file in it")
        if not stat.S_ISREG(found.st_mode) and not is_open_pipe(path):
            kind = "pipe" if stat.S_ISFIFO(found.st_mode) else "device"
            raise LaminaError(f"{path}: is a {kind}, not a file. Fix: name a file with the data")
        with path.open("rb") as file:
            if stat.S_ISREG(found.st_mode) and found.st_size <= most:
                return file.read()
            return _limited(path, file, most, found.st_size)
    except FileNotFoundError:
        raise LaminaError(f"{path}: no such file. Fix: check the path") from None
    except ValueError as error:  # a NUL byte
        raise LaminaError(f"{str(path)!r}: cannot be read: {error}. Fix: check the path") from None
    except OSError as error:
        raise unreadable(path, error) from None


def is_open_pipe(path: Path) -> bool:
    """Return whether a path names a pipe that this process already has, as `<(command)` of a shell does."""
    return str(path).startswith(_OPEN_PIPES)


def _limited(path: Path | str, file: Readable, most: int, known: int = 0) -> bytes:
    """Return what a file holds, in blocks. More than `most` bytes raise LaminaError, also if it is known to have them."""
    blocks: list[bytes] = []
    size = 0
    while max(size, known) <= most and (block := file.read(_BLOCK)):
        blocks.append(block)
        size += len(block)
    if max(size, known) > most:
        what = f"holds more than {most:,} bytes"
        raise LaminaError(f"{path}: {what}. Fix: split the file, or allow more with {LIMIT} (ask: --max-bytes)")
    return b"".join(blocks)


def unpack(path: Path, data: bytes, most: int | None = None) -> bytes:
    """Return the decompressed data of a file that ends in `.gz` or `.xz`, and the data itself of other files.

    More than `most` bytes (else `most_bytes`) raise LaminaError: a small file can unpack to any size.
    """
    packing = path.suffix.lower() if path.suffix.lower() in _MAGIC else ""
    actual = next((name for name, magic in _MAGIC.items() if data.startswith(magic)), "")
    if not data:
        raise LaminaError(f"{path}: is empty. Fix: {_GET_AGAIN}")
    if packing and packing != actual and not _MAGIC[packing].startswith(data):
        raise LaminaError(f"{path}: not {packing[1:]} data, despite its name. Fix: {_rename(path.stem, actual)}")
    if actual and not packing:
        raise LaminaError(f"{path}: is {actual[1:]} data. Fix: {_rename(path.name, actual)}")
    if not packing:
        return data
    packed = io.BytesIO(data)
    try:
        with gzip.open(packed) if packing == ".gz" else lzma.open(packed) as file:
            return _limited(path, file, most or most_bytes())
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


def read_toml(path: Path) -> dict[str, Any]:
    """Return the values in a TOML file."""
    return parse_toml(read_text(path), str(path))


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Return the values of a TOML text. `where` starts the message of an error."""
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also for numbers with too many digits
        raise LaminaError(f"{where}: is not valid TOML ({error}). Fix: correct this line") from None
    except RecursionError:
        raise LaminaError(f"{where}: the TOML is nested too deeply. Fix: use fewer levels") from None


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
        raise LaminaError(f"{shortened(path)}: the folder cannot be made: {problem}. Fix: name another folder") from error


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
    """``with replacing(path) as draft`` replaces the file `path` by `draft` at the end, or leaves it after an error.

    The file has the rights of any new file, also if the library that writes the draft gives it others.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._rights = 0o600

    def __enter__(self) -> Path:
        try:
            with self._draft.open("wb") as file:
                self._rights = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        except OSError as error:
            raise unwritable(self._path, error) from error
        return self._draft

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        failure = None if error is None else _disk_failure(error)
        try:
            if error is None:
                with self._draft.open("rb") as file:
                    os.fsync(file.fileno())
                self._draft.chmod(self._rights)
                self._draft.replace(self._path)
        except OSError as problem:
            failure = problem
        finally:
            with suppress(OSError):
                self._draft.unlink(missing_ok=True)
        if failure is not None:
            raise unwritable(self._path, failure) from error


def _disk_failure(error: BaseException) -> OSError | None:
    """Return the error of the system behind an error; None if there is none.

    Torch and safetensors report a full disk by errors of their own.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError):
            return seen
        seen = seen.__cause__ or seen.__context__
    number = re.search(r"(?:os error|code:) (\d+)", str(error)) if type(error).__name__ == "SafetensorError" else None
    if number:
        return OSError(int(number[1]), os.strerror(int(number[1])))
    of_torch = isinstance(error, RuntimeError) and any(mark in str(error) for mark in ("PytorchStreamWriter", "unexpected pos"))
    return OSError("the disk did not take all bytes") if of_torch else None


def unwritable(path: Path, error: OSError) -> LaminaError:
    """Return the error for a file that cannot be written."""
    return LaminaError(f"{shortened(path)}: cannot be written: {_write_problem(path, error)}")


def _write_problem(path: Path, error: OSError) -> str:
    """Return why a file cannot be written, and the fix."""
    if isinstance(error, FileNotFoundError) and not holds(path.parent.is_dir):
        return f"there is no folder {shortened(path.parent)}. Fix: make the folder, or name another path"
    return f"{error.strerror or error}. Fix: free disk space, or name another path"


def holds(test: Callable[[], bool]) -> bool:
    """Return the result of a test of a path (`path.is_file`), and False if the test fails with an OSError."""
    try:
        return test()
    except OSError:  # for example a name that is too long, or a folder without permission
        return False
