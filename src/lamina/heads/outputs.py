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


@dataclass(frozen=True, slots=True)
class ClassOutputs:
    """The logits of every class, one row an item (a window, or a pair of them)."""

    logits: Tensor  # [I, C]


@dataclass(frozen=True, slots=True)
class ScoreOutputs:
    """A number for every item: its score, as a share of the way from the lowest to the highest."""

    scores: Tensor  # [I]


@dataclass(frozen=True, slots=True)
class PairOutputs:
    """How near the two texts of every item are."""

    cosine: Tensor  # [I] in [-1, 1]
    logits: Tensor  # [I] that the two are alike
    first: Tensor  # [I, D] vectors of length 1
    second: Tensor  # [I, D]


Outputs = SpanOutputs | ClassOutputs | ScoreOutputs | PairOutputs
