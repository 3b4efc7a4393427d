"""What heads yield: one dataclass a kind. Logits are never infinite; masks travel beside them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class SpanOutputs:
    """Start and end logits of every token, and where they count: the context and the classifier token (the null answer)."""

    start: Tensor  # [R, T]
    end: Tensor  # [R, T]
    allowed: Tensor  # [R, T] bool
