"""Lock files between processes. The system releases a lock when its process ends or is killed."""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lamina.errors import LaminaError
from lamina.utils.files import exists, is_folder, make_folder, names_in

NAME = ".lock"
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)  # errors of disks without locks, such as some network disks


class BusyError(Exception):
    """Another process holds the lock."""


class Lock:
    """A lock on a file, held until `close()` or until this object is deleted.

    Args:
        path: The file to lock; it is made if it does not exist.
        shared: Several processes may hold a shared lock at once.
        wait: Wait until the lock is free, instead of raising BusyError.
    """

    def __init__(self, path: Path, *, shared: bool = False, wait: bool = True) -> None:
        import fcntl  # only POSIX has it, and only callers that store something need it

        how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        while True:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(file, how)
                if _same_file(file, path):
                    break
                os.close(file)  # another process removed the file while we waited: lock the new file
            except BlockingIOError:
                os.close(file)
                raise BusyError from None
            except BaseException:
                os.close(file)
                raise
        self.close = weakref.finalize(self, os.close, file)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock a folder against other writers. Make it if it does not exist, and remove it at the end if it is empty."""
    make_folder(folder)
    lock: Lock | None
    try:
        lock = Lock(folder / NAME, wait=False)
    except BusyError:
        message = f"{folder}: another process is writing here. Fix: wait until it has ended, or use another folder"
        raise LaminaError(message) from None
    except ImportError:  # this system has no fcntl
        lock = None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            problem = error.strerror or error
            raise LaminaError(f"{folder}: cannot be written: {problem}. Fix: name another folder") from error
        lock = None
    try:
        yield
    finally:
        with suppress(OSError):
            (folder / NAME).unlink(missing_ok=True)
            folder.rmdir()
        if lock is not None:
            lock.close()


def foreign(folder: Path, killed: Collection[str] = ()) -> bool:
    """Return whether the path is a file, or a folder that holds more than a killed process left behind.

    A killed process leaves its lock file and drafts. Beside a lock file, the names in `killed` are its own too.
    """
    if not is_folder(folder):
        return exists(folder)
    names = {name for name in names_in(folder) if not (name.startswith(".") and name.endswith(".tmp"))}
    return bool(names - {NAME, *killed}) or (bool(names) and NAME not in names)


def _same_file(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
