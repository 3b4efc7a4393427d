"""Copy this checkout into a folder, like a fresh clone of a user with the same virtual environment."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def copy_checkout(folder: Path) -> Path:
    """Copy all tracked files with their times, so that `make` does not install the copy. Return the folder."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


def installed_in(folder: Path) -> Path:
    """Return the file that a copy's virtual environment imports as lamina; if it is in the copy, `make` has installed it."""
    where = [str(folder / ".venv/bin/python"), "-c", "import lamina; print(lamina.__file__)"]
    return Path(subprocess.run(where, cwd=folder, capture_output=True, text=True, check=True).stdout.strip())
