"""Part: some examples, their windows and the stored states of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from lamina.cache.store import Longs, Store
from lamina.data.batches import Batch, make_batch
from lamina.data.windows import Windows

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Part(Generic[T_co]):
    """Of questions (`Example`) an item is a window; of sentences (`Sentence`) it is one of them."""

    examples: Sequence[T_co]
    windows: Windows
    store: Store | None = None

    def batch(self, items: Sequence[int] | Longs) -> Batch:
        return stored_batch(self.windows, self.windows.windows_of(items), self.store)


def stored_batch(windows: Windows, rows: Sequence[int] | Longs, store: Store | None) -> Batch:
    """`make_batch`, with the stored states of the windows if there is a store."""
    batch = make_batch(windows, rows)
    return batch if store is None else replace(batch, states=store.read(rows, batch.mask))
