"""The models inside the package, which are loaded by their names."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lamina.utils.files import expanded

READER: Final = "reader"  # answers questions from English texts
MODELS: Final = Path(__file__).parent.parent / "models"
SHIPPED: Final = {READER: MODELS / READER}


def model_folder(name: str | Path) -> Path:
    """Return the folder of a shipped model, or the folder that a path names.

    Names of shipped models come first. A folder of the same name is reached by a path such as ``./reader``.
    """
    return SHIPPED[name] if isinstance(name, str) and name in SHIPPED else expanded(name)
