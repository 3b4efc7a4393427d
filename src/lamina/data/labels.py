"""Labels: what the texts of labels mean, as numbers that a head learns."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from lamina.errors import LaminaError


@dataclass(frozen=True, slots=True)
class Labels:
    """Names of classes, or, where there are none, scores in ``[low, high]``."""

    classes: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0

    @property
    def are_scores(self) -> bool:
        return not self.classes

    def number(self, label: str) -> float:
        """The number of a class, or the score itself.

        >>> Labels(("no", "yes")).number("yes"), Labels(low=0, high=5).number("3.8")
        (1.0, 3.8)
        """
        if self.classes:
            if label not in self.classes:
                raise LaminaError(f"the label {label!r} is none of data.classes: {', '.join(self.classes)}")
            return float(self.classes.index(label))
        score = as_score(label)
        if score is None or not self.low <= score <= self.high:
            raise LaminaError(f"the label {label!r} is no number from {self.low:g} to {self.high:g} (data.scores)")
        return score

    def score(self, share: float) -> float:
        """The score that is so much of the way from low to high."""
        return self.low + share * (self.high - self.low)


def as_score(label: str) -> float | None:
    """The finite number that a label is, or None."""
    try:
        number = float(label)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def labels_in(found: Iterable[str]) -> Labels:
    """What labels seem to mean: scores if all are numbers and some have a fraction, else classes, in order.

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
