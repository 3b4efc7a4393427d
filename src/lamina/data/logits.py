"""The outputs of a model for windows, as numpy arrays. What reads them needs neither the model nor torch."""

from __future__ import annotations

from dataclasses import dataclass

from lamina.utils.arrays import Floats


@dataclass(frozen=True, slots=True)
class SpanLogits:
    """Start and end logits without padding, one for each token of the windows."""

    start: Floats  # [tokens]
    end: Floats  # [tokens]
