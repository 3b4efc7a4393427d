"""Part: some examples, their windows and the stored states of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from lamina.data.batches import Batch, make_batch
from lamina.data.windows import LOST, Windows
from lamina.state_cache.store import Longs, Store
from lamina.utils.background import Ahead

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Part(Generic[T_co]):
    """Of questions (`Example`) an item is a window; of sentences (`Sentence`) it is one of them."""

    examples: Sequence[T_co]
    windows: Windows
    store: Store | None = None
    moments: npt.NDArray[np.float64] | None = None  # when each item comes in a pass, as shares of it; None: whenever

    def batch(self, items: Sequence[int] | Longs) -> Batch:
        return stored_batch(self.windows, self.windows.windows_of(items), self.store)

    def at(self, lap: int) -> Part[T_co]:
        """The part as it is in a pass over it; texts may be written anew for each (`Rewritten`)."""
        return self

    def usable(self, lap: int = 0) -> Longs:
        """The items that can be trained on: not those whose answer no token covers."""
        return np.flatnonzero(self.windows.gold[:: self.windows.sides, 0] != LOST)

    def usable_lengths(self, lap: int = 0) -> Longs:
        return self.windows.item_lengths[self.usable(lap)]

    def usable_order(self, lap: int = 0) -> Longs | None:
        """The numbers of `usable_lengths` in the order in which they are to come; None where it may be any."""
        return None if self.moments is None else np.argsort(self.moments[self.usable(lap)], kind="stable")


@dataclass(frozen=True)
class Rewritten(Part[T_co]):
    """A part to train on whose texts are written anew for each pass; as a part it is that of the first."""

    writer: Writer | None = None

    def at(self, lap: int) -> Part[T_co]:
        return self._writer.part(lap)

    def usable(self, lap: int = 0) -> Longs:
        return self._writer.sizes(lap).usable

    def usable_lengths(self, lap: int = 0) -> Longs:
        return self._writer.sizes(lap).lengths

    def usable_order(self, lap: int = 0) -> Longs | None:
        return self._writer.sizes(lap).order

    @property
    def _writer(self) -> Writer:
        assert self.writer is not None
        return self.writer


class Sizes(NamedTuple):
    """What a plan needs to know of a pass, as `Part` tells it."""

    usable: Longs
    lengths: Longs
    order: Longs | None


class Writer:
    """Makes the part of each pass: the first and any that is asked for out of turn here, the others ahead of their time in a
    process of their own, so that training does not wait for them. `make` must be a function that can be pickled."""

    def __init__(self, make: Callable[[int], Part[Any]]) -> None:
        self._make = make
        self._sizes: dict[int, Sizes] = {}
        self._lap, self._part = 0, make(0)
        self._note(0, self._part)
        self._ahead: tuple[int, Ahead[Part[Any]]] | None = None

    def part(self, lap: int) -> Part[Any]:
        if lap != self._lap:
            ahead, self._ahead = self._ahead, None
            made = ahead[1].result() if ahead is not None and ahead[0] == lap else self._make(lap)
            self._lap, self._part = lap, made
        if lap + 1 in self._sizes and self._ahead is None:  # the plan goes on there
            self._ahead = lap + 1, Ahead(partial(self._make, lap + 1))
        return self._part

    def sizes(self, lap: int) -> Sizes:
        if lap not in self._sizes:
            self._note(lap, self._make(lap))
        return self._sizes[lap]

    def _note(self, lap: int, part: Part[Any]) -> None:
        self._sizes[lap] = Sizes(part.usable(), part.usable_lengths(), part.usable_order())


def stored_batch(windows: Windows, rows: Sequence[int] | Longs, store: Store | None) -> Batch:
    """`make_batch`, with the stored states of the windows if there is a store."""
    batch = make_batch(windows, rows)
    return batch if store is None else replace(batch, states=store.read(rows, batch.mask))
