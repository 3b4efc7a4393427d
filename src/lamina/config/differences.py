"""Find the first field in which two recipes differ."""

from __future__ import annotations

from collections.abc import Mapping


def changed(old: Mapping[str, object], new: Mapping[str, object]) -> str:
    """Return the first field that differs, with its old and its new value, as one line."""
    place, then, now = first_difference(old, new)
    place = place.removeprefix("tasks.main.")  # as a recipe with one task names it
    return f"{place}: {then!r} then, {now!r} now"


def first_difference(one: object, other: object, place: str = "") -> tuple[str, object, object]:
    """Return the first field in which two different recipes differ, with the value of each. `place` is the path so far."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        key = next(key for key in [*one, *other] if one.get(key) != other.get(key))
        return first_difference(one.get(key), other.get(key), f"{place}.{key}" if place else key)
    return place, one, other
