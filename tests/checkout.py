"""Copy this checkout into a folder, like a fresh clone of a user with the same virtual environment."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INSTALLED_FROM = ("pyproject.toml", "constraints.txt", "scripts/install.sh")  # as the Makefile has it
GENERATED = {".venv", "runs", "dist", "site", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}  # in the root


def tracked_files() -> set[str]:
    """Return the paths of all files of the project, relative to its root.

    In an unpacked source archive, which git does not track, these are all files but generated ones and PKG-INFO.
    """
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        return {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    paths = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    written = (path for path in paths if path.parts[0] not in GENERATED and "__pycache__" not in path.parts)
    return {path.as_posix() for path in written} - {"PKG-INFO"}


def copy_checkout(folder: Path) -> Path:
    """Copy all tracked files and return the folder.

    What `make` installs from is dated back. So it is never newer than the last install, and `make` does not install the copy
    in place of this checkout.
    """
    for name in tracked_files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    for name in INSTALLED_FROM:
        os.utime(folder / name, (0, 0))
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


def installed_in(folder: Path) -> Path:
    """Return the file that a copy's virtual environment imports as lamina; if it is in the copy, `make` has installed it."""
    where = [str(folder / ".venv/bin/python"), "-c", "import lamina; print(lamina.__file__)"]
    return Path(subprocess.run(where, cwd=folder, capture_output=True, text=True, check=True).stdout.strip())
