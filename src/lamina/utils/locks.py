"""Locks between processes, on files; the system releases them when a process ends, however it ends."""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lamina.errors import LaminaError
from lamina.utils.files import make_folder

NAME = ".lock"
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)  # of disks that have none, such as some of a network


class BusyError(Exception):
    """Somebody else holds the lock."""


class Lock:
    """A lock on a file, held until it is closed or forgotten. Many may share it, or one has it alone."""

    def __init__(self, path: Path, *, shared: bool = False, wait: bool = True) -> None:
        import fcntl  # not everywhere; who stores nothing needs none

        how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        while True:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(file, how)
                if _same_file(file, path):
                    break
                os.close(file)  # it was removed while we waited: the lock on it means nothing
            except BlockingIOError:
                os.close(file)
                raise BusyError from None
            except BaseException:
                os.close(file)
                raise
        self.close = weakref.finalize(self, os.close, file)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Nobody else writes into the folder meanwhile. It is made if it is not there, and goes if nothing came into it."""
    make_folder(folder)
    lock: Lock | None
    try:
        lock = Lock(folder / NAME, wait=False)
    except BusyError:
        raise LaminaError(f"{folder}: another process is at work here: wait for its end, or use another --out") from None
    except ImportError:  # no such locks on this system
        lock = None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise LaminaError(f"{folder}: cannot be written: {error.strerror or error}") from error
        lock = None
    try:
        yield
    finally:
        with suppress(OSError):
            (folder / NAME).unlink(missing_ok=True)
            folder.rmdir()
        if lock is not None:
            lock.close()


def foreign(folder: Path) -> bool:
    """Whether something is there that is no folder, or holds more than the lock of a process that was killed at once."""
    return folder.exists() and (not folder.is_dir() or any(file.name != NAME for file in folder.iterdir()))


def _same_file(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
