"""What heads yield: one dataclass a kind. Logits are never infinite; masks travel beside them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from torch import Tensor


@dataclass(frozen=True, slots=True)
class SpanOutputs:
    """Start and end logits of every token, and where they count: the context and the classifier token (the null answer)."""

    start: Tensor  # [R, T]
    end: Tensor  # [R, T]
    allowed: Tensor  # [R, T] bool


@dataclass(frozen=True, slots=True)
class ClassOutputs:
    """The logits of every class, one row a window."""

    logits: Tensor  # [R, C]


def logits_of(outputs: SpanOutputs | ClassOutputs) -> list[Tensor]:
    """All that a head yields to be trained, whatever its kind."""
    values = [getattr(outputs, field.name) for field in fields(outputs)]
    return [value for value in values if value.is_floating_point()]
