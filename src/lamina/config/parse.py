"""Reads recipes: files, `--set` settings, and one clear line for each mistake."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from lamina.config.bundled import recipe_path
from lamina.config.recipe import MAIN, TYPES, Recipe, TaskOptions
from lamina.errors import LaminaError

OptionsT = TypeVar("OptionsT", bound=BaseModel)


def read_recipe(recipe: str | Path, settings: Sequence[str] | Mapping[str, object] = ()) -> Recipe:
    """The recipe of a file, or of a name that comes with Lamina (`lamina recipes list`).

    Args:
        recipe: The path of a TOML file or of a run's recipe.json, or a name such as "quickstart".
        settings: Changes, as texts ``"train.epochs=0.5"`` or as a mapping ``{"train.epochs": 0.5}``.

    Raises:
        LaminaError: The recipe does not exist or has a mistake; the message names the field.
    """
    path = recipe_path(str(recipe))
    return parse_recipe(read_values(path), settings_of(settings), name=str(path))


def settings_of(settings: Sequence[str] | Mapping[str, object]) -> list[str]:
    """Settings as `--set` takes them.

    >>> settings_of({"train.epochs": 0.5, "data.train": "my.csv", "train.curves": True})
    ['train.epochs=0.5', 'data.train="my.csv"', 'train.curves=true']
    """
    if not isinstance(settings, Mapping):
        return list(settings)
    return [f"{name}={json.dumps(value, default=str)}" for name, value in settings.items()]


def read_values(path: Path) -> dict[str, Any]:
    """A recipe as it is written, before it is checked."""
    try:
        text = path.read_text(encoding="utf-8")
        values: dict[str, Any] = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except FileNotFoundError:
        raise LaminaError(f"{path}: no such recipe; `lamina recipes list` shows those that come with Lamina") from None
    except (ValueError, OSError) as error:
        raise LaminaError(f"{path}: not a recipe that can be read ({error})") from error
    if not isinstance(values, dict):
        raise LaminaError(f"{path}: a recipe is tables of fields, not {type(values).__name__}")
    return values


def parse_recipe(values: dict[str, Any], settings: Sequence[str] = (), *, name: str = "recipe") -> Recipe:
    if not isinstance(values, dict):
        raise LaminaError(f"{name}: a recipe is tables of fields, not {type(values).__name__}")
    values = with_settings(values, settings)
    task_tables = {key: values.pop(key) for key in TaskOptions.model_fields if key in values}
    if "tasks" not in values:
        values["tasks"] = {"main": task_tables}
    elif task_tables:
        raise LaminaError(f"{name}: {min(task_tables)}: of which task? Write it as tasks.NAME.{min(task_tables)}")
    return checked(Recipe, values, name=name)


def with_settings(values: dict[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """A copy of a recipe's values, changed as ``a.b=value`` settings say."""
    values = json.loads(json.dumps(values, default=str))
    for setting in settings:
        _apply(values, setting)
    return values


def checked(model: type[OptionsT], values: dict[str, Any], *, name: str) -> OptionsT:
    """Values as the options of a recipe of any kind; one line says what is wrong with them."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise LaminaError(f"{name}: {_first_problem(error, model)}") from None


def _apply(values: dict[str, Any], setting: str) -> None:
    path, equals, text = setting.partition("=")
    if not equals or not path.strip():
        raise LaminaError(f"--set {setting}: write it as --set table.field=value, for example --set train.epochs=1")
    parts = path.strip().split(".")
    if "tasks" in values and parts[0] in TaskOptions.model_fields:
        for task in values["tasks"] if isinstance(values["tasks"], dict) else ():  # of every task
            _apply(values, f"tasks.{task}.{setting}")
        return
    *tables, field = parts
    for table in tables:
        values = values.setdefault(table, {})
        if not isinstance(values, dict):
            raise LaminaError(f"--set {setting}: {table} is not a table")
    try:
        values[field] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        values[field] = text


def _first_problem(error: ValidationError, model: type[BaseModel]) -> str:
    """One line: where, what, and what may have been meant. A field that does not exist may be why another is missing."""
    problems = error.errors()
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    task, place = _task_of(".".join(map(str, problem["loc"])))
    table = _shown(place)
    name = task + table
    if problem["type"] == "extra_forbidden":
        return f"{name}: no such field; {_hint(place, model, task)}"
    if problem["type"] == "missing":
        return f"{name}: is missing"
    if problem["type"] == "union_tag_not_found":
        return f"{name}.type: is missing; there are {', '.join(TYPES[table])}"
    if problem["type"] == "union_tag_invalid":
        return f"{name}.type: there is no {problem['ctx']['tag']!r}; there are {', '.join(TYPES[table])}"
    message = problem["msg"].removeprefix("Value error, ")
    given = problem.get("input")
    said = f"{name}: {message}" if name else message
    return said + (f" (given: {given!r})" if isinstance(given, str | int | float | bool) else "")


def _task_of(place: str) -> tuple[str, str]:
    """What names the task in a place, and the rest; the sugar leaves out "main".

    >>> _task_of("tasks.main.head.span"), _task_of("tasks.mood.head.span"), _task_of("train.lr")
    (('', 'head.span'), ('tasks.mood.', 'head.span'), ('', 'train.lr'))
    """
    match = re.match(r"(tasks\.[^.]+)(?:\.(.*))?$", place)
    if match is None:
        return "", place
    task, rest = match[1], match[2] or ""
    return "" if f"{task}." == MAIN else f"{task}." if rest else task, rest


def _hint(place: str, model: type[BaseModel], task: str = "") -> str:
    """What may have been meant: a field of that table, else one of that name in another, else the list of the table's."""
    fields = sorted((field.removeprefix(MAIN) for field in _fields(model)), key=_shown)
    table, _, last = re.sub(r"\.\d+(?=\.)", "", place).rpartition(".")  # a list's fields are those of each of its tables
    siblings = {field.rpartition(".")[2]: field for field in fields if field.rpartition(".")[0] == table}
    close = [siblings[match] for match in get_close_matches(last, siblings, n=1)]
    if not close and table.partition(".")[0] not in TYPES:  # what another type has does not help
        close = [field for field in fields if field.rpartition(".")[2] == last]
    return f"did you mean {task}{_shown(close[0])}?" if close else f"there are {', '.join(siblings)}"


def _fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every field's place; in a table of several types, behind the type, as in pydantic's errors."""
    for name, field in model.model_fields.items():
        inner = TaskOptions if name == "tasks" else field.annotation
        path = f"{prefix}{name}" + (".main" if name == "tasks" else "")
        yield path
        for table in (inner, *get_args(inner)):  # a table, or one that may be left out
            if name not in TYPES and isinstance(table, type) and issubclass(table, BaseModel):
                yield from _fields(table, f"{path}.")
        for chosen, options in TYPES.get(name, {}).items():
            yield from _fields(options, f"{path}.{chosen}.")


def _shown(place: str) -> str:
    """A place as recipes name it: without the type of its table."""
    table, *rest = place.split(".")
    return ".".join([table, *rest[1:]]) if table in TYPES else place
