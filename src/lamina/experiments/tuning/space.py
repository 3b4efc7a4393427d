"""Read a space from a TOML file: the fields of a recipe to vary, their values, and the method of the search.

    [search]
    method = "tpe"
    trials = 30

    [space]
    train.lr = { low = 1e-5, high = 1e-3, log = true }
    train.batch_tokens = [512, 1024, 3072]

A list holds the values to try. A range holds whole numbers if its bounds are whole.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field, StrictFloat, StrictInt, ValidationError, model_validator

from lamina.errors import LaminaError
from lamina.utils.files import read_toml, shortened
from lamina.utils.options import Options

OptionsT = TypeVar("OptionsT", bound=BaseModel)
MOST_TRIALS = 10_000  # of a grid
Settings = dict[str, Any]  # a value for each field of a space

# These fields decide what is held out and how it is scored, so scores with different values cannot be compared.
FIXED = (
    "train.seed",
    "train.choose",
    *(f"data.{field}" for field in ("train", "dev", "holdout", "held_out", "questions", "dev_questions", "duplicate_ids")),
    *(f"data.{field}" for field in ("dev_every", "skip_broken", "classes", "scores")),
)


class SearchOptions(Options):
    """How to search a space."""

    method: Literal["grid", "tpe", "random"] = "grid"
    """How to choose settings: all combinations, by TPE, or at random."""
    trials: int | None = Field(default=None, ge=1)
    """Number of trials; without it, 20, or every combination of a grid."""
    seed: int = Field(default=0, ge=0)
    """Number that fixes the random choices of the search."""
    halving: bool = False
    """Stop a trial that is not in the better half after 1/8, 1/4 or 1/2 of its steps."""
    workers: int = Field(default=1, ge=1)
    """Number of trials to run at the same time."""


class Range(Options):
    """A range of numbers from `low` to `high`, both included."""

    low: StrictInt | StrictFloat
    """Smallest value, included."""
    high: StrictInt | StrictFloat
    """Largest value, included."""
    log: bool = False
    """Draw values evenly on a logarithmic scale."""
    step: StrictInt | StrictFloat | None = Field(default=None, gt=0)
    """Distance between two values; without it, every value in the range is possible."""

    @model_validator(mode="after")
    def _sensible(self) -> Range:
        if self.low >= self.high:
            raise ValueError(f"low = {self.low} is not less than high = {self.high}. Fix: lower low or raise high")
        if self.log and self.low <= 0:
            raise ValueError(f"low = {self.low} is not above 0, which log = true needs. Fix: raise low or leave log out")
        if self.log and self.step is not None:
            raise ValueError("log and step exclude each other. Fix: leave one out")
        if self.step is not None and (Decimal(str(self.high)) - Decimal(str(self.low))) % Decimal(str(self.step)):
            raise ValueError(
                f"steps of {self.step} do not lead from {self.low} to {self.high}. Fix: choose a step that divides high - low"
            )
        return self

    @property
    def whole(self) -> bool:
        return all(isinstance(value, int) for value in (self.low, self.high, self.step) if value is not None)


class Space(Options):
    search: SearchOptions = SearchOptions()
    """How to search the space."""
    space: dict[str, Range | tuple[Any, ...]]
    """Values or ranges to try, by the name of a recipe field such as `train.lr`."""

    @property
    def trials(self) -> int:
        if self.search.method != "grid":
            return self.search.trials or 20
        return min(self.search.trials or self.combinations, self.combinations)

    def __len__(self) -> int:
        """Return the number of combinations of a grid."""
        return self.combinations

    def check_size(self, name: str) -> None:
        """Raise LaminaError if a grid has more trials than a search may hold. `name` starts the message."""
        if self.search.method == "grid" and self.trials > MOST_TRIALS:
            what = f"the grid has {self.combinations:,} combinations, more than the {MOST_TRIALS:,} trials of a search"
            raise LaminaError(f'{name}: {what}. Fix: name fewer values, limit --trials, or set search.method = "tpe"')

    @property
    def combinations(self) -> int:
        """Return the number of combinations of a grid."""
        lengths = (len(values) for values in self.space.values() if isinstance(values, tuple))
        product = 1
        for length in lengths:
            product *= length
        return product

    def grid(self) -> list[Settings]:
        """Return every combination of the values, at most `trials`; the last field changes fastest.

        >>> Space(space={"a": (1, 2), "b": ("x", "y")}).grid()
        [{'a': 1, 'b': 'x'}, {'a': 1, 'b': 'y'}, {'a': 2, 'b': 'x'}, {'a': 2, 'b': 'y'}]
        """
        choices = [values for values in self.space.values() if isinstance(values, tuple)]  # a grid has no ranges
        some = itertools.islice(itertools.product(*choices), self.trials)
        return [dict(zip(self.space, values, strict=True)) for values in some]

    def corners(self) -> Iterator[Settings]:
        """Yield settings that together have every value of a list and both ends of a range. A grid yields all its settings."""
        if self.search.method == "grid":
            yield from self.grid()
            return
        ends = {field: (v.low, v.high) if isinstance(v, Range) else v for field, v in self.space.items()}
        first = {field: values[0] for field, values in ends.items()}
        for field, values in ends.items():
            yield from (first | {field: value} for value in values)


def read_space(path: Path) -> Space:
    return parse_space(read_toml(path), name=str(path))


def parse_space(values: Mapping[str, Any], *, name: str = "space") -> Space:
    for table in ("search", "space"):
        if not isinstance(values.get(table, {}), dict):
            raise LaminaError(f"{name}: {table} is not a table. Fix: write its fields below [{table}]")
    if odd := sorted(values.keys() - {"search", "space"}):
        raise LaminaError(f"{name}: {odd[0]}: there is no such table. Fix: choose one of search, space")
    options = _parsed(SearchOptions, values.get("search", {}), f"{name}: search")
    fields = {field: _values(f"{name}: {field}", found, options) for field, found in _flat(values.get("space", {}))}
    if not fields:
        raise LaminaError(f'{name}: space: names no field of the recipe. Fix: add one, such as "train.lr" = [1e-5, 3e-5]')
    for field in fields:
        if field.endswith(FIXED) or "data.columns." in field or "data.train." in field:
            raise LaminaError(
                f"{name}: {field}: cannot be searched, because it decides how the trials are scored. Fix: leave it out"
            )
    return Space(search=options, space=fields)


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of nested tables by their full names."""
    for key, value in table.items():
        if isinstance(value, dict) and value and not Range.model_fields.keys() & value.keys():
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _values(place: str, value: Any, options: SearchOptions) -> Range | tuple[Any, ...]:
    if isinstance(value, dict) and value:
        if options.method == "grid":
            raise LaminaError(
                f'{place}: a grid cannot have a range. Fix: write a list of values, or set search.method = "tpe" or "random"'
            )
        return _parsed(Range, value, place)
    if not isinstance(value, list) or not value:
        raise LaminaError(
            f"{place}: is neither a list of values nor a range. Fix: write [1e-5, 1e-3] or {{ low = 1e-5, high = 1e-3 }}"
        )
    written = [as_text(choice) for choice in value]
    if twice := next((text for text in written if written.count(text) > 1), None):
        raise LaminaError(f"{place}: has {twice} twice. Fix: remove one")
    return tuple(value)


def _parsed(model: type[OptionsT], values: Any, place: str) -> OptionsT:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
    field = str(problem["loc"][0]) if problem["loc"] else ""
    where = shortened(place if not field else f"{place}.{field}")
    if problem["type"] == "extra_forbidden":
        raise LaminaError(f"{where}: there is no such field. Fix: choose one of {', '.join(model.model_fields)}")
    if problem["type"] == "missing":
        raise LaminaError(f"{where}: is missing. Fix: add it")
    message = problem["msg"].removeprefix("Value error, ")
    raise LaminaError(f"{where}: {message}" if "Fix: " in message else f"{where}: {message}. Fix: change this value")


def as_text(value: Any) -> str:
    """Return a value in the notation that TOML and JSON share."""
    return json.dumps(value, ensure_ascii=False, default=str)


def as_settings(settings: Settings) -> list[str]:
    """Return settings in the form of ``--set``."""
    return [f"{field}={as_text(value)}" for field, value in settings.items()]


def settings_line(settings: Settings) -> str:
    """Return settings as one line of text.

    >>> settings_line({"train.lr": 3e-05, "head.type": "span"})
    'train.lr=3e-05 head.type=span'
    """
    return " ".join(f"{field}={value if isinstance(value, str) else as_text(value)}" for field, value in settings.items())
