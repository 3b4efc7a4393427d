"""Labels as numbers: texts of labels -> classes or scores that a head learns."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from lamina.errors import LaminaError


@dataclass(frozen=True, slots=True)
class Labels:
    """The names of classes; without classes, labels are scores in ``[low, high]``."""

    classes: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0

    @property
    def are_scores(self) -> bool:
        """Whether labels are scores and not classes."""
        return not self.classes

    def number(self, label: str) -> float:
        """Return the index of a class, or the score itself. An unknown label raises LaminaError.

        >>> Labels(("no", "yes")).number("yes"), Labels(low=0, high=5).number("3.8")
        (1.0, 3.8)
        """
        if self.classes:
            if label not in self.classes:
                raise LaminaError(
                    f"the label {label!r} is not in data.classes. Fix: add it, or choose one of {', '.join(self.classes)}"
                )
            return float(self.classes.index(label))
        score = as_score(label)
        if score is None or not self.low <= score <= self.high:
            raise LaminaError(
                f"the label {label!r} is no number from {self.low:g} to {self.high:g}. Fix: correct it, or set data.scores"
            )
        return score

    def score(self, share: float) -> float:
        """Return the score at a share of the way from low (0) to high (1)."""
        return self.low + share * (self.high - self.low)


def as_score(label: str) -> float | None:
    """Return a label as a finite number, or None if it is none."""
    try:
        number = float(label)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def labels_in(found: Iterable[str]) -> Labels:
    """Return what labels seem to be: scores if all are numbers and some have a fraction, else sorted classes.

    >>> labels_in(["1", "0", "1"]).classes, labels_in(["0.0", "4.8", "2.5"])
    (('0', '1'), Labels(classes=(), low=0.0, high=5.0))
    """
    names = sorted(set(found))
    numbers = [number for name in names if (number := as_score(name)) is not None]
    if len(numbers) == len(names) and any(number != int(number) for number in numbers):
        return Labels(low=float(min(0, math.floor(min(numbers)))), high=float(math.ceil(max(numbers))))
    if len(numbers) == len(names):
        names.sort(key=float)
    return Labels(tuple(names))
