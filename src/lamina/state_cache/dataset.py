"""Datasets: the examples of a split with their windows and, if stored, their hidden states and the outputs of teachers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from lamina.data.batches import Batch, make_batch
from lamina.data.windows import LOST, Windows
from lamina.state_cache.store import Store
from lamina.utils.arrays import Bools, Longs
from lamina.utils.background import BackgroundCall

T_co = TypeVar("T_co", covariant=True)

NULLS = b"null windows"  # makes their draw differ from that of the plan


@dataclass(frozen=True)
class Dataset(Generic[T_co]):
    """The examples of one split. An item is a window of a question (`Example`), or a sentence (`Sentence`)."""

    examples: Sequence[T_co]
    windows: Windows
    store: Store | None = None
    moments: npt.NDArray[np.float64] | None = None  # position of each item in the epoch, from 0 to 1; None: any order
    teachers: Sequence[Store] = ()  # the outputs of each teacher (`terms.teacher`)
    null_windows: float = 1.0  # share of the windows to train on that miss the answer of their question (`data.null_windows`)
    seed: int = 0  # draws these windows

    def batch(self, items: Sequence[int] | Longs) -> Batch:
        """Return the batch of some items, with their stored states and the outputs of the teachers."""
        rows = self.windows.windows_of(items)
        batch = stored_batch(self.windows, rows, self.store)
        if not self.teachers:
            return batch
        width = batch.ids.shape[1]
        found = [store.outputs(items if store.contents.positions == "cls" else rows, width) for store in self.teachers]
        return replace(batch, taught=torch.stack(found))  # [K, R, T, 2] or [K, I, C]

    def at(self, epoch: int) -> Dataset[T_co]:
        """Return the dataset of an epoch; augmented texts differ between epochs (`AugmentedDataset`)."""
        return self

    def usable(self, epoch: int = 0) -> Longs:
        """Return the items to train on: no token covers the answer of the others, or `null_windows` leaves them out."""
        usable = self.windows.gold[:: self.windows.sides, 0] != LOST
        if self.null_windows < 1:
            drawn = np.random.default_rng([self.seed, epoch, *NULLS]).random(len(usable)) < self.null_windows
            usable &= drawn | ~missing_the_answer(self.windows)
        return np.flatnonzero(usable)

    def usable_lengths(self, epoch: int = 0) -> Longs:
        """Return the number of tokens of each usable item."""
        return self.windows.item_lengths[self.usable(epoch)]

    def usable_order(self, epoch: int = 0) -> Longs | None:
        """Return the training order as indices into `usable_lengths`; None means any order."""
        return None if self.moments is None else np.argsort(self.moments[self.usable(epoch)], kind="stable")


@dataclass(frozen=True)
class AugmentedDataset(Dataset[T_co]):
    """A training split whose texts change with each epoch; its own examples are those of the first epoch."""

    epochs: EpochCache | None = None

    def at(self, epoch: int) -> Dataset[T_co]:
        return self._epochs.dataset(epoch)

    def usable(self, epoch: int = 0) -> Longs:
        return self._epochs.sizes(epoch).usable

    def usable_lengths(self, epoch: int = 0) -> Longs:
        return self._epochs.sizes(epoch).lengths

    def usable_order(self, epoch: int = 0) -> Longs | None:
        return self._epochs.sizes(epoch).order

    @property
    def _epochs(self) -> EpochCache:
        assert self.epochs is not None
        return self.epochs


class Sizes(NamedTuple):
    """The facts about an epoch that a plan needs, as `Dataset` gives them."""

    usable: Longs
    lengths: Longs
    order: Longs | None


class EpochCache:
    """Makes the dataset of each epoch, the next one in advance.

    The first epoch, and any epoch out of order, is made in this process. The next epoch is made in another process, so that
    training does not wait. `make` must be picklable.
    """

    def __init__(self, make: Callable[[int], Dataset[Any]]) -> None:
        self._make = make
        self._sizes: dict[int, Sizes] = {}
        self._epoch, self._dataset = 0, make(0)
        self._note(0, self._dataset)
        self._next: tuple[int, BackgroundCall[Dataset[Any]]] | None = None

    def dataset(self, epoch: int) -> Dataset[Any]:
        """Return the dataset of an epoch, and start to make the next one."""
        if epoch != self._epoch:
            prepared, self._next = self._next, None
            made = prepared[1].result() if prepared is not None and prepared[0] == epoch else self._make(epoch)
            self._epoch, self._dataset = epoch, made
        if epoch + 1 in self._sizes and self._next is None:  # the plan continues with that epoch
            self._next = epoch + 1, BackgroundCall(partial(self._make, epoch + 1))
        return self._dataset

    def sizes(self, epoch: int) -> Sizes:
        """Return the sizes of an epoch."""
        if epoch not in self._sizes:
            self._note(epoch, self._make(epoch))
        return self._sizes[epoch]

    def _note(self, epoch: int, dataset: Dataset[Any]) -> None:
        self._sizes[epoch] = Sizes(dataset.usable(epoch), dataset.usable_lengths(epoch), dataset.usable_order(epoch))


def missing_the_answer(windows: Windows) -> Bools:
    """Return [W] whether a window of an answerable question does not hold its answer."""
    first = windows.gold[:, 0]
    answered = np.zeros(1 + windows.example.max(initial=-1), np.bool_)  # [E]
    answered[windows.example[first > 0]] = True
    missing: Bools = (first == 0) & answered[windows.example]
    return missing


def stored_batch(windows: Windows, rows: Sequence[int] | Longs, store: Store | None) -> Batch:
    """Return the batch of some windows, with their stored states if there is a store."""
    batch = make_batch(windows, rows)
    return batch if store is None else replace(batch, states=store.read(rows, batch.mask))
