"""The places of the query, the context and the special tokens in each window, as flat arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lamina.data.tokenizer import Layout
from lamina.utils.arrays import Ints, Longs

BEFORE, QUERY, BETWEEN, CONTEXT, AFTER = range(5)  # the segments of a window, in their order

Segments = npt.NDArray[np.int8]


class WindowSegments:
    """The five segments of every window: special tokens, the query, special tokens, the context, special tokens."""

    def __init__(self, layout: Layout, query: Longs, seen: Longs) -> None:
        self._layout = layout
        self._between_at = len(layout.before) + query  # [W]
        self.context_at = self._between_at + len(layout.between)  # [W]
        self._after_at = self.context_at + seen  # [W]
        self.lengths: Longs = self._after_at + len(layout.after)  # [W]

    def of(self, window: Longs, position: Longs) -> Segments:
        """Return [tokens] the segment of the token at each position of each window."""
        segment = (position >= len(self._layout.before)).astype(np.int8)
        for edge in (self._between_at, self.context_at, self._after_at):
            segment += position >= edge[window]
        return segment

    def special_ids(self, window: Longs, position: Longs, segment: Segments) -> Ints:
        """Return [tokens] the ids of the special tokens, 0 elsewhere."""
        ids = np.zeros(len(position), np.int32)
        zero = np.zeros_like(self._between_at)
        for number, tokens, edge in (
            (BEFORE, self._layout.before, zero),
            (BETWEEN, self._layout.between, self._between_at),
            (AFTER, self._layout.after, self._after_at),
        ):
            here = segment == number
            ids[here] = np.array(tokens, np.int32)[position[here] - edge[window[here]]]
        return ids
