"""Values of pandas, numpy, arrow and datasets -> the values of JSON. None of these packages is imported."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

_BINARY: Final = (bytes, bytearray, memoryview)


def plain_row(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row whose values are those of JSON, and whose keys are texts."""
    return {str(key): plain_value(value) for key, value in row.items()}


def plain_value(value: object) -> object:
    """Return a value as JSON would hold it. Missing values (NaN, NaT, pandas.NA) become None.

    Dates and times become texts as ISO 8601 writes them, durations and UUIDs texts, and decimals numbers. Bytes and
    objects of other types stay as they are: `is_plain` is false for them.

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
        return plain_value(_in_microseconds(value).tolist())
    if isinstance(value, Iterable) and not isinstance(value, _BINARY):
        return [plain_value(item) for item in value]
    return None if _is_missing(value) else _plain_scalar(value)


def is_plain(value: object) -> bool:
    """Return whether JSON can hold a value of `plain_value`, the items of lists and objects aside."""
    return value is None or isinstance(value, str | bool | int | float | list | Mapping)


def json_text(value: object) -> str:
    """Return a value as JSON on one line. What JSON cannot hold, such as bytes, becomes null."""
    return json.dumps(value, ensure_ascii=False, default=lambda _: None)


def _plain_scalar(value: object) -> object:
    if isinstance(value, datetime.date | datetime.time):  # a datetime and a Timestamp are dates
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    return str(value) if isinstance(value, datetime.timedelta | UUID) else value


def _in_microseconds(value: Any) -> Any:
    """Return dates and durations of numpy in a unit that `tolist` turns into those of Python. Nanoseconds become numbers."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind not in ("M", "m") or type(value).__module__ != "numpy":
        return value
    return value.astype("datetime64[us]" if kind == "M" else "timedelta64[us]")


def _is_missing(value: object) -> bool:
    """Return whether a value is NaT or pandas.NA. Neither is equal to itself, and NA has no truth value."""
    try:
        return bool(value != value)
    except TypeError:
        return True
