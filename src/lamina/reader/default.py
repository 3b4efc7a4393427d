"""The reader that commands use if no model is named."""

from __future__ import annotations

from pathlib import Path

from lamina.errors import LaminaError


def default_reader() -> Path:
    """Return the folder of the reader that comes with Lamina.

    Raises:
        LaminaError: This version comes without a reader.
    """
    raise LaminaError(
        "--from: this version of Lamina comes without a reader. "
        "Fix: name a run or a question-answering checkpoint with --from (start=)"
    )
