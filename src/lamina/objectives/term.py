"""The interfaces of the terms of a loss, as the training loop calls them."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.model import Model


class Extra(NamedTuple):
    """The cost of a term besides the model's own forward and backward pass."""

    forwards: int = 0  # forward passes without gradients
    passes: int = 0  # forward passes with a backward pass
    copies: int = 0  # of the trained parameters, in memory and in every checkpoint


class Term(Protocol):
    """A summand of the loss. The loop calls `counts` for every micro-batch of a step before any forward pass.

    So each micro-batch adds its share of the whole step's mean. The terms of a task use different names for
    their counts. Each kind of outputs has its own terms. A term has an attribute `joint`, True, if the loss of an item depends
    on the other items of its micro-batch.
    """

    name: str

    def counts(self, batch: Batch) -> dict[str, float]: ...

    def __call__(self, model: Model, batch: Batch, outputs: Any, totals: dict[str, float]) -> Tensor: ...


class TermOptions(Protocol):
    """The options of a term that a task may add to its objective: a field of `TermsOptions`."""

    heads: ClassVar[tuple[str, ...]]  # types of head that it fits; empty means all

    @property
    def weight(self) -> float:
        """Return the factor of the term; 0 switches it off."""
        ...

    @property
    def extra(self) -> Extra:
        """Return the cost of the term."""
        ...

    def build(self, task: str, labels: Labels, objective: Term) -> Term:
        """Return the term for a task with this objective."""
        ...


@runtime_checkable
class Remembers(Protocol):
    """A term with a memory of past steps: `before_step` or `after_step` updates it, and checkpoints hold it."""

    name: str

    @property
    def waits(self) -> int:
        """Return the number of steps before the term has any effect."""
        ...

    def before_step(self, model: Model) -> None:
        """Update the memory with the model before the optimiser changes it; the gradients of the step are computed."""
        ...

    def after_step(self, model: Model) -> None:
        """Update the memory with the model after a step."""
        ...

    def rehearse(self, model: Model) -> None:
        """Fill the memory with the current model, so that a probe can time the term with a full memory."""
        ...

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state: dict[str, Tensor]) -> None: ...
