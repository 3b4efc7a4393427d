"""What a model says about windows, as plain arrays: nothing from here on needs the model or torch."""

from __future__ import annotations

from dataclasses import dataclass

from lamina.utils.arrays import Floats


@dataclass(frozen=True, slots=True)
class SpanLogits:
    """Start and end logits without padding, one a token of the windows that they were made from."""

    start: Floats  # [tokens]
    end: Floats  # [tokens]
