"""Unique ids: a repeated id gets a number."""

from __future__ import annotations


class UniqueIds:
    """Returns each id once. A repeated id gets the separator and a number after it.

    >>> ids = UniqueIds("~")
    >>> [ids.unique(own) for own in ("x", "x", "x~2", "x")]
    ['x', 'x~2', 'x~2~2', 'x~3']
    """

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._times: dict[str, int] = {}

    def unique(self, own: str) -> str:
        """Return the id itself if it is new, else with a number after it."""
        unique = own
        while unique in self._times:
            self._times[own] += 1
            unique = f"{own}{self._separator}{self._times[own]}"
        self._times[unique] = 1
        return unique
