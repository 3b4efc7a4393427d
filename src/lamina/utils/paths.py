"""The folder for files that Lamina can compute again."""

from __future__ import annotations

import os
from pathlib import Path

from lamina.utils.files import expanded


def cache_folder() -> Path:
    """Return ``$LAMINA_CACHE``, or ``~/.cache/lamina``. It may be missing or read-only: callers must handle both."""
    chosen = os.environ.get("LAMINA_CACHE")
    return expanded(chosen or "~/.cache/lamina")
