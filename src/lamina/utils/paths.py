"""Where Lamina keeps what it can compute again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``$LAMINA_CACHE``, or ``~/.cache/lamina``. It need not exist, and may be unwritable: callers cope with both."""
    chosen = os.environ.get("LAMINA_CACHE")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "lamina"
