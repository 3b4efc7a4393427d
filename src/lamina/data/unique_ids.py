"""Unique ids: a repeated id gets a number."""

from __future__ import annotations


class UniqueIds:
    """Gives each id once. A repeated one gets the separator and a number behind it.

    >>> ids = UniqueIds("~")
    >>> [ids.unique(own) for own in ("x", "x", "x~2", "x")]
    ['x', 'x~2', 'x~2~2', 'x~3']
    """

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._times: dict[str, int] = {}

    def unique(self, own: str) -> str:
        """The id itself if it is new, else with a number behind it."""
        unique = own
        while unique in self._times:
            self._times[own] += 1
            unique = f"{own}{self._separator}{self._times[own]}"
        self._times[unique] = 1
        return unique
