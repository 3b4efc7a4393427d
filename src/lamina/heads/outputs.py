"""The outputs of heads: one dataclass per kind. Logits are always finite; masks are separate fields."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class SpanOutputs:
    """Start and end logits of every token, and the allowed positions: the context and the classifier token (no answer)."""

    start: Tensor  # [R, T]
    end: Tensor  # [R, T]
    allowed: Tensor  # [R, T] bool


@dataclass(frozen=True, slots=True)
class ClassOutputs:
    """The logits of every class, one row per item (a window, or a pair of windows)."""

    logits: Tensor  # [I, C]


@dataclass(frozen=True, slots=True)
class ScoreOutputs:
    """A score for every item, as a share of the range from the lowest score to the highest."""

    scores: Tensor  # [I]


@dataclass(frozen=True, slots=True)
class PairOutputs:
    """The similarity of the two texts of every item."""

    cosine: Tensor  # [I] in [-1, 1]
    logits: Tensor  # [I] logits of "similar"
    first: Tensor  # [I, D] vectors of length 1
    second: Tensor  # [I, D]


Outputs = SpanOutputs | ClassOutputs | ScoreOutputs | PairOutputs
