"""The protocols of a loss's terms: what the training loop calls."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.model import Model


class Extra(NamedTuple):
    """The cost of a term besides the model's own pass over a batch."""

    forwards: int = 0  # without gradients
    passes: int = 0  # forward and backward
    copies: int = 0  # of the parameters that train, in memory and in every checkpoint


class Term(Protocol):
    """A summand of the loss. The loop calls `counts` for every micro-batch of a step before any forward pass.

    So each micro-batch adds its share of the whole step's mean. The terms of a task count under names of their own. Each kind
    of outputs has its own terms.
    """

    name: str

    def counts(self, batch: Batch) -> dict[str, float]: ...

    def __call__(self, model: Model, batch: Batch, outputs: Any, totals: dict[str, float]) -> Tensor: ...


class TermOptions(Protocol):
    """The options of a term that a task may add to its objective: a field of `TermsOptions`."""

    heads: ClassVar[tuple[str, ...]]  # the types of head that it fits; empty: all

    @property
    def weight(self) -> float:
        """0 leaves the term out."""
        ...

    @property
    def extra(self) -> Extra:
        """Return the cost of the term."""
        ...

    def build(self, task: str, labels: Labels, objective: Term) -> Term:
        """Return the term of a task that is trained by `objective`."""
        ...


@runtime_checkable
class Remembers(Protocol):
    """A term with a memory of past steps: `after_step` updates it, and it is part of a checkpoint."""

    name: str

    @property
    def waits(self) -> int:
        """The number of steps before the term has any effect."""
        ...

    def after_step(self, model: Model) -> None: ...

    def rehearse(self, model: Model) -> None:
        """Fill the memory with the model as it is, so that a probe can time the term with a full memory."""
        ...

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state: dict[str, Tensor]) -> None: ...
