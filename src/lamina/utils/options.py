"""The base class of all options of recipes, and the descriptions of their fields."""

from __future__ import annotations

import ast
import inspect
import textwrap
from copy import copy
from functools import cache
from itertools import pairwise
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator
from pydantic.fields import FieldInfo

from lamina.errors import LaminaError

T = TypeVar("T")
STORED = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)  # of what a file holds; newer versions may add fields


class Options(BaseModel):
    """Options of a recipe: frozen, with finite numbers, and unknown names are errors.

    A string below a field describes it. Pydantic could store these strings, but it parses the source of every class for
    that, which takes a quarter of the import. `described` reads them when they are needed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _numbers_fit_64_bits(self) -> Self:
        for name in type(self).model_fields:
            value = getattr(self, name)
            if type(value) is int and abs(value) >= 2**63:
                raise ValueError(f"{name} is too large. Fix: give a number below 2^63")
        return self


def stored(kind: type[T], values: Any, where: str, fix: str) -> T:
    """Return the values of a file after a check of their types. A value that does not fit raises LaminaError.

    Args:
        kind: What the file holds: a TypedDict or a model, best with the config `STORED`.
        values: The values, as read from JSON.
        where: The file, which starts the message of an error.
        fix: The end of the message.
    """
    try:
        found: T = _adapter(kind).validate_python(values)  # type: ignore[arg-type]  # classes are hashable
        return found
    except ValidationError as error:
        problem = error.errors()[0]
    place = ".".join(str(part) for part in problem["loc"])
    what = f"{place}: {problem['msg']}" if place else problem["msg"]
    raise LaminaError(f"{where}: {what}. Fix: {fix}")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def described(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a model by name, as pydantic does, and with the strings below them as descriptions."""
    found: dict[str, str] = {}
    for parent in reversed(model.__mro__):
        written = "__annotations__" in vars(parent) and "[" not in parent.__name__  # no source: RootModel[int]
        if written and issubclass(parent, BaseModel) and not parent.__module__.startswith("pydantic."):
            found |= _strings_below_fields(inspect.getsource(parent))
    fields = {name: copy(field) for name, field in model.model_fields.items()}
    for name in fields.keys() & found.keys():
        fields[name].description = found[name]
    return fields


def _strings_below_fields(source: str) -> dict[str, str]:
    """Return the string below each annotated name of a class, by name.

    >>> _strings_below_fields('class A:\\n    rate: float\\n    "How fast."\\n    size: int')
    {'rate': 'How fast.'}
    """
    (tree,) = ast.parse(textwrap.dedent(source)).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, below in pairwise(tree.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            value = below.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found[field.target.id] = inspect.cleandoc(value.value)
    return found
