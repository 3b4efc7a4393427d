"""What a mixer is built for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """The encoder below a mixer and the head above it."""

    hidden: int  # H
    depth: int  # L; the layers are 0 (the embeddings' output) to L
    slots: int  # how many queries the head has (span: start and end)
