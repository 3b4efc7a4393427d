"""Write a whole folder or nothing: in a draft beside it, which gets its name at the end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lamina.utils.files import check_new, unwritable
from lamina.utils.locks import NAME, alone


@contextmanager
def new_folder(out: Path, fix: str = "save into a new folder") -> Iterator[Path]:
    """Yield an empty folder beside `out` that becomes `out` at the end. After an error or a kill, `out` is as it was.

    Two processes cannot write one folder. The draft that a killed process left is removed by the next one.

    Args:
        out: The new folder. It may exist if it is empty.
        fix: The end of the error if it is not empty.

    Raises:
        LaminaError: `out` exists and is not empty, cannot be written, or another process writes it.
    """
    check_new(out, fix)
    with work_folder(out.absolute().with_name(f".{out.absolute().name}-draft")) as draft:
        yield draft
        (draft / NAME).unlink(missing_ok=True)
        try:
            draft.replace(out)
        except OSError:  # an empty folder that is a disk of its own cannot be replaced
            _move(draft, out)


@contextmanager
def work_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder that no other process uses, and remove it at the end, also if a killed process left it."""
    with alone(path):
        empty(path)
        try:
            yield path
        finally:
            empty(path)


def empty(folder: Path) -> None:
    """Remove all but the lock file from a folder, if it exists."""
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != NAME:
                path.unlink(missing_ok=True)


def _move(draft: Path, out: Path) -> None:
    """Move the files one by one. Those that mark a whole folder come last."""
    try:
        out.mkdir(exist_ok=True)
        for path in sorted(draft.iterdir(), key=lambda path: path.name in ("run.json", "config.json", "ensemble.json")):
            shutil.move(path, out / path.name)
    except OSError as error:
        raise unwritable(out, error) from error
