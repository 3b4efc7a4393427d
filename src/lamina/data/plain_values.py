"""Values of pandas, numpy, arrow and datasets -> the values of JSON. None of these packages is imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def plain_row(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row whose values are those of JSON, and whose keys are texts."""
    return {str(key): plain_value(value) for key, value in row.items()}


def plain_value(value: object) -> object:
    """Return a value as JSON would hold it. Missing values (NaN, NaT, pandas.NA) become None.

    >>> plain_value({"text": ("owl",), "start": float("nan")})
    {'text': ['owl'], 'start': None}
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return None if value != value else value
    if isinstance(value, Mapping):
        return plain_row(value)
    if hasattr(value, "tolist"):  # an array or a scalar of numpy, also inside pandas
        return plain_value(value.tolist())
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [plain_value(item) for item in value]
    return None if _is_missing(value) else value


def _is_missing(value: object) -> bool:
    """Return whether a value is NaT or pandas.NA. Neither is equal to itself, and NA has no truth value."""
    try:
        return bool(value != value)
    except TypeError:
        return True
