"""What a mixer is built for."""

from __future__ import annotations

from dataclasses import dataclass

from lamina.data.hidden_states import POOLED


@dataclass(frozen=True, slots=True)
class Shape:
    """The encoder below a mixer and the head above it."""

    hidden: int  # H
    depth: int  # L; the layers are 0 (the embeddings' output) to L
    slots: int  # how many queries the head has (span: start and end)
    pooled: bool = False  # whether the pooled state of the classifier token is one of the states (classification)

    def layers(self, *, embeddings: bool) -> tuple[int, ...]:
        """Every layer that there is to mix, with layer 0 or without it."""
        return (*((POOLED,) if self.pooled else ()), *range(0 if embeddings else 1, self.depth + 1))
