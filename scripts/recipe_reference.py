"""Write docs/reference/recipe.md: every field of a recipe, from the options themselves.

Usage: .venv/bin/python scripts/recipe_reference.py [--check]

With --check it writes nothing, and exits with 1 if the page is not up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from lamina.config.recipe import TYPES, Recipe, TaskOptions
from lamina.experiments.tuning.space import SearchOptions
from lamina.pretraining.pretrain_recipe import PretrainRecipe
from lamina.utils.options import described

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "recipe.md"
SIGNS = {annotated_types.Ge: "≥", annotated_types.Gt: ">", annotated_types.Le: "≤", annotated_types.Lt: "<"}
LIMITS = {annotated_types.Ge: "ge", annotated_types.Gt: "gt", annotated_types.Le: "le", annotated_types.Lt: "lt"}

INTRODUCTION = """\
# Recipe fields

<!-- Written by scripts/recipe_reference.py (make docs). Change the options in the code, not this page. -->

This page lists every field of a recipe with its type, default, range and meaning. A field is set in the TOML file
(`[train]`, then `lr = 2e-4`) or on the command line (`--set train.lr=2e-4`). An unknown field is an error.

`data`, `mixer`, `head`, `objective`, `terms`, `augment` and `weight` belong to a task. A recipe with one task has them at
the top level. A recipe with several tasks has them under `tasks.NAME`, for example `tasks.mood.head.type`.
"""


def main(arguments: list[str]) -> int:
    text = reference()
    if arguments == ["--check"]:
        return int(not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text)
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text, encoding="utf-8")
    return 0


def reference() -> str:
    """Return the whole page."""
    parts = [INTRODUCTION, "## Tables of a task\n", *tables(TaskOptions, "")]
    parts += ["## Tables of the whole recipe\n"]
    parts += [part for name, field in described(Recipe).items() if name != "tasks" for part in field_tables(name, field)]
    parts += ["## Recipes of `lamina pretrain`\n", *tables(PretrainRecipe, "", shown=("encoder",))]
    parts += ["## Spaces of `lamina tune`\n", *tables(SearchOptions, "search")]
    return "\n".join(parts)


def tables(model: type[BaseModel], path: str, *, note: str = "", shown: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the table of a model's own fields, then those of the models in its fields, except the names in `shown`."""
    inner = [
        name
        for name, field in described(model).items()
        if models_of(field.annotation) or (model is TaskOptions and name in TYPES)
    ]
    own = {name: field for name, field in described(model).items() if name not in inner}
    if own:
        yield table(path, own, note)
    for name, field in own.items():
        for item in items_of(field.annotation):
            yield table(f"{path}.{name}".lstrip("."), described(item), "Each table of the list.")
    for name, field in described(model).items():
        if name in inner and name not in shown:
            yield from field_tables(f"{path}.{name}" if path else name, field)


def field_tables(path: str, field: FieldInfo) -> Iterator[str]:
    """Yield the tables of one field: of its model, or of each type that it can have."""
    if path in TYPES:
        for name, options in TYPES[path].items():
            fields = {key: value for key, value in described(options).items() if key != "type"}
            yield table(f'{path}.type = "{name}"', fields, "The default." if field.default.type == name else "")
        return
    for model in models_of(field.annotation):
        yield from tables(model, path, note=meaning(field))


def table(path: str, fields: dict[str, FieldInfo], note: str) -> str:
    """Return the heading, a note and the rows of some fields."""
    lines = [f"### `{path}`\n"] if path else []
    lines += [f"{note}\n"] if note else []
    if not fields:
        return "\n".join([*lines, "No other fields.\n"])
    lines += ["| field | type | default | range | meaning |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| `{name}` | {type_of(field.annotation)} | {default_of(field)} | {range_of(field)} | {meaning(field)} |"
        for name, field in fields.items()
    ]
    return "\n".join([*lines, ""])


def models_of(annotation: object) -> list[type[BaseModel]]:
    """Return the models among the types that a field can have. Lists of models count as plain fields.

    >>> models_of(Recipe | None) == [Recipe], models_of(int | None)
    (True, [])
    """
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, UnionType):
        return [model for one in get_args(annotation) for model in models_of(one)]
    return []


def items_of(annotation: object) -> list[type[BaseModel]]:
    """Return the models that a list in a field can hold.

    >>> items_of(str | tuple[Recipe, ...]) == [Recipe], items_of(Recipe | None)
    (True, [])
    """
    inner = get_args(annotation)
    if get_origin(annotation) is tuple:
        return [model for one in inner for model in models_of(one)]
    return [model for one in inner for model in items_of(one)]


def type_of(annotation: object) -> str:
    """Return a type as a reader of TOML knows it.

    >>> type_of(int | None), type_of(Literal["a", "b"]), type_of(tuple[str, ...]), type_of(tuple[float, float])
    ('integer', '`"a"`, `"b"`', 'list: text', 'list of 2: number')
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_of(inner[0])
    if origin is Literal:
        return ", ".join(f"`{toml(value)}`" for value in inner)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(type_of(one) for one in inner if one is not NoneType))
    if origin is tuple:
        different = list(dict.fromkeys(type_of(one) for one in inner if one is not Ellipsis))
        count = "" if Ellipsis in inner else f" of {len(inner)}"
        return f"list{count}: {' or '.join(different)}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "table"
    return {str: "text", int: "integer", float: "number", bool: "true or false"}[annotation]  # type: ignore[index]


def default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "" if value is None else f"`{toml(value)}`"


def toml(value: object) -> str:
    """Return a default as it is written in TOML.

    >>> toml(True), toml("auto"), toml((1, 2)), toml(0.0001)
    ('true', '"auto"', '[1, 2]', '0.0001')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return f"[{', '.join(map(toml, value))}]"
    return str(value)


def range_of(field: FieldInfo) -> str:
    """Return the limits of a field, such as "≥ 0, < 1"."""
    limits = [(type(one), one) for one in metadata_of(field)]
    shown = [f"{SIGNS[kind]} {number(getattr(one, LIMITS[kind]))}" for kind, one in limits if kind in SIGNS]
    shown += [f"{one.min_length} or more" for kind, one in limits if isinstance(one, annotated_types.MinLen)]
    return ", ".join(shown)


def metadata_of(field: FieldInfo) -> list[object]:
    nested = [one for part in get_args(field.annotation) if get_origin(part) is Annotated for one in get_args(part)[1:]]
    return [*field.metadata, *(inner for one in nested for inner in (one.metadata if isinstance(one, FieldInfo) else [one]))]


def number(value: object) -> str:
    return "2^63" if value == 2**63 else str(value)


def meaning(field: FieldInfo) -> str:
    return " ".join((field.description or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
