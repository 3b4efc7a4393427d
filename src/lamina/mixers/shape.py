"""The sizes that a mixer is built from."""

from __future__ import annotations

from dataclasses import dataclass

from lamina.data.hidden_states import POOLED


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of the encoder below a mixer and of the head above it."""

    hidden: int  # H
    depth: int  # L; layer 0 is the output of the embeddings, L the last
    slots: int  # number of outputs of the head that can have separate mixtures (span: start and end)
    pooled: bool = False  # whether the pooled state of the classifier token is one of the states
    rows: int | None = None  # number of queries of the head, if it is not `slots`
    left: tuple[int, ...] | None = None  # the layers that a stage before it leaves; None: all layers of the encoder

    @property
    def queries(self) -> int:
        """Return the number of queries of the head."""
        return self.slots if self.rows is None else self.rows

    def layers(self, *, embeddings: bool) -> tuple[int, ...]:
        """Return every layer to mix, with layer 0 or without it. The pooled state comes first."""
        layers = (*((POOLED,) if self.pooled else ()), *range(0 if embeddings else 1, self.depth + 1))
        return layers if self.left is None else tuple(layer for layer in layers if layer in self.left)
