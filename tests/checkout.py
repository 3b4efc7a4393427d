"""Copies this checkout into a folder, as a user's fresh clone beside the same virtual environment."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def copy_checkout(folder: Path) -> Path:
    """Copy all tracked files, with their times: `make` must not install the copy in place of this checkout."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


def installed_in(folder: Path) -> Path:
    """Return where the virtual environment of a copy finds lamina: in this checkout, or `make` installed the copy."""
    where = [str(folder / ".venv/bin/python"), "-c", "import lamina; print(lamina.__file__)"]
    return Path(subprocess.run(where, cwd=folder, capture_output=True, text=True, check=True).stdout.strip())
