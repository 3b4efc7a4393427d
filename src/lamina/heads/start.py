"""The field that all heads have: the run whose head a new run starts from. `config.head_start` reads its weights."""

from __future__ import annotations

from lamina.utils.options import Options


class StartOptions(Options):
    """Options that all heads share."""

    start: str | None = None
    """Run or question-answering checkpoint whose head to start from, with its mixer if that has the same options."""
