"""The result of `lamina fit`, and its text for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from lamina.data.problems import short
from lamina.fitting.comparison import Change, Comparison
from lamina.utils.run_folder import Run

_LABELS: Final = {"f1": "F1", "exact": "EM", "accuracy": "accuracy", "pearson": "Pearson"}
_PERCENT: Final = ("f1", "exact")
_NO_ANSWER: Final = "(no answer)"
_WIDTH: Final = 90  # characters of a text in an example


@dataclass(frozen=True)
class Fitted:
    """The result of `lamina.fit`. `str()` of it is a table with examples.

    Attributes:
        run: The run folder that was written; `lamina.load` takes ``run.path``.
        kept_start: Whether the folder holds the start, because the trained model was not better on held-out examples, or
            the examples are too few to be sure.
        comparison: The scores before and after on held-out examples, with 95% intervals of the differences, and examples
            whose prediction changed.
        choice: What was trained and how it was tested, in two lines.
        repaired: The problems of the data that were repaired, one line each.
        left_out: The problems of the data whose rows were left out, one line each.
    """

    run: Run
    kept_start: bool
    comparison: Comparison
    choice: tuple[str, str]
    repaired: list[str]
    left_out: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values.

        Returns:
            The fields by their names; `run` is the path of the folder.
        """
        return {
            "run": str(self.run.path),
            "kept_start": self.kept_start,
            **self.comparison.to_json(),
            "choice": list(self.choice),
            "repaired": self.repaired,
            "left_out": self.left_out,
        }

    def __str__(self) -> str:
        return "\n".join([*self._table(), *self._examples(), self._verdict()])

    def _table(self) -> list[str]:
        interval = f"95% interval, {self.comparison.examples} held-out examples"
        head = f"{'':<10}{'before':>9}{'after':>9}{'difference':>12}   {interval}"
        return [head, *(_row(name, change) for name, change in self.comparison.scores.items())]

    def _examples(self) -> list[str]:
        lines = []
        for one in self.comparison.changed:
            lines.append(f"changed: {short(one.text, _WIDTH)}")
            for name, text in (("before", one.before), ("after", one.after), ("right", one.right)):
                lines.append(f"  {name + ':':<8}{short(text, _WIDTH) or _NO_ANSWER}")
        return lines

    def _verdict(self) -> str:
        if not self.kept_start:
            return f"run: {self.run.path}"
        first = next(iter(self.comparison.scores.values()))
        why = "the trained model is not better on held-out examples"
        if first.after > first.before:  # enough for many examples
            why = f"the gain on {self.comparison.examples} held-out examples may be chance"
        return f"kept the start: {why}. More examples may help.\nrun: {self.run.path}"


def _row(name: str, change: Change) -> str:
    digits = 1 if name in _PERCENT else 3
    numbers = f"{change.before:>9.{digits}f}{change.after:>9.{digits}f}{change.after - change.before:>+12.{digits}f}"
    return f"{_LABELS[name]:<10}{numbers}   {change.low:+.{digits}f} to {change.high:+.{digits}f}"
