"""The field that all heads have: the run whose head a new run starts from. `config.head_start` reads its weights."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StartOptions(BaseModel):
    """Options that all heads share."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    start: str | None = None
    """Run or question-answering checkpoint whose head to start from, with its mixer if that has the same options."""
