"""Read and check recipes: files, `--set` settings, and one line for each mistake."""

from __future__ import annotations

import json
import re
import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lamina.config.bundled import recipe_path
from lamina.config.recipe import MAIN, TYPES, Recipe, TaskOptions
from lamina.errors import LaminaError, LaminaWarning
from lamina.utils.files import expanded, holds, read_json, read_toml, shortened
from lamina.utils.run_folder import with_own_data

OptionsT = TypeVar("OptionsT", bound=BaseModel)
Setting = tuple[str, object]  # the name of a field with its value; None removes the field
SETTING = "setting "  # the start of a line about a setting of the user
DEEPEST = 50  # levels of a recipe's values
Settings = Sequence[str] | Sequence[Setting] | Mapping[str, object]


def read_recipe(recipe: str | Path, settings: Settings = ()) -> Recipe:
    """Read a recipe from a file, or by the name of one that comes with Lamina (`lamina recipes list`).

    Args:
        recipe: Path of a TOML file or of a run's recipe.json, or a name such as "quickstart".
        settings: Changes, as texts ``"train.epochs=0.5"`` or as a mapping ``{"train.epochs": 0.5}``. An empty text
            (``"data.dev="``) or None removes a field, so that its default applies. Other sets in `data.train` leave out the
            recipe's dev set with a warning, unless the settings name `data.dev` too.

    Returns:
        The checked recipe, with the settings applied.

    Raises:
        LaminaError: The recipe does not exist or has a mistake; the message names the field and the fix.
        TypeError: An argument has the wrong type.
    """
    if not isinstance(recipe, str | Path):
        raise TypeError(f"recipe must be a path or a name, not {type(recipe).__name__}")
    path = recipe_path(str(expanded(recipe)))
    return parse_recipe(read_values(path), settings, name=str(path))


def settings_of(settings: Settings) -> list[Setting]:
    """Return settings as pairs of name and value. The value of a text is TOML, or the text itself if it is no TOML.

    >>> settings_of({"train.epochs": 0.5, "data.dev": None})
    [('train.epochs', 0.5), ('data.dev', None)]
    >>> settings_of(["train.epochs=0.5", "data.train=my.csv", "data.dev="])
    [('train.epochs', 0.5), ('data.train', 'my.csv'), ('data.dev', None)]
    """
    if isinstance(settings, Mapping):
        pairs: list[Setting] = list(settings.items())
    elif isinstance(settings, str | bytes) or not isinstance(settings, Sequence):
        raise TypeError(f"settings must be a mapping or a list of texts, not {type(settings).__name__}")
    else:
        pairs = [one if isinstance(one, tuple) else _pair(one) for one in settings]
    if odd := [name for name, _ in pairs if not isinstance(name, str)]:
        raise TypeError(f"settings must have names of fields, but one is {type(odd[0]).__name__}")
    return pairs


def _pair(setting: str) -> Setting:
    if not isinstance(setting, str):
        raise TypeError(f"settings must be texts such as 'train.epochs=0.5', but one is {type(setting).__name__}")
    name, equals, text = setting.partition("=")
    if not equals or not name.strip():
        raise LaminaError(f"setting {setting!r}: a name or a value is missing. Fix: write table.field=value")
    if not text.strip():
        return name.strip(), None
    try:
        return name.strip(), tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return name.strip(), text
    except (ValueError, RecursionError) as error:
        what = "is nested too deeply" if isinstance(error, RecursionError) else f"cannot be read ({error})"
        raise LaminaError(f"setting {name.strip()}: the value {what}. Fix: write a shorter value") from None


def read_values(path: Path) -> dict[str, Any]:
    """Return the values of a recipe file before they are checked."""
    if not holds(path.exists):
        raise LaminaError(f"{shortened(path)}: no such recipe. Fix: choose one of `lamina recipes list`")
    try:
        values: dict[str, Any] = read_json(path) if path.suffix == ".json" else read_toml(path)
    except LaminaError as error:
        what, _, fix = str(error).removeprefix(f"{path}: ").partition(" Fix: ")
        raise LaminaError(f"{path}: the recipe is unreadable: {what} Fix: {fix}") from None
    _check_depth(values, name=str(path))
    _check_tables(values, name=str(path))
    with_own_data(values, path.parent)
    return values


def parse_recipe(values: dict[str, Any], settings: Settings = (), *, name: str = "recipe", origin: str = SETTING) -> Recipe:
    """Return the checked recipe of some values, changed by settings.

    `name` starts the message of an error, and `origin` that of an error in a setting.
    """
    _check_tables(values, name=name)
    values = with_settings(values, settings)
    task_tables = {key: values.pop(key) for key in TaskOptions.model_fields if key in values}
    if "tasks" not in values:
        values["tasks"] = {"main": task_tables}
    elif task_tables:
        table = min(task_tables)
        raise LaminaError(f"{name}: {table}: the table names no task. Fix: write it as tasks.NAME.{table}")
    return checked(Recipe, values, name=name, settings=settings, origin=origin)


def _check_depth(values: object, *, name: str) -> None:
    """Raise LaminaError if values are nested more deeply than any recipe. Deeper ones could exhaust the stack later."""
    level: list[object] = [values]
    for _ in range(DEEPEST):
        inner = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [value for one in inner for value in one]
    if level:
        raise LaminaError(f"{name}: is nested more than {DEEPEST} levels deep. Fix: write it as tables of fields")


def _check_tables(values: object, *, name: str) -> None:
    if not isinstance(values, dict):
        what = f"a recipe consists of tables of fields, but this is a {type(values).__name__}"
        raise LaminaError(f"{name}: {what}. Fix: write tables such as [data]")


def with_settings(values: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Return a copy of a recipe's values, changed by settings. The value None removes the field.

    Settings that change the training data of a task leave out the recipe's dev set and held-out set: they are about other
    texts.
    """
    values = json.loads(json.dumps(values, default=str))
    before = {where: {**table, "train": _set_names(table)} for where, table in _data_tables(values).items()}
    changes = settings_of(settings)
    for name, value in changes:
        _apply(values, name.strip(), value)
    named = {name.strip() for name, _ in changes}
    for where, table in _data_tables(values).items():
        old, train = before.get(where, {}), _set_names(table)
        if not train or not old.get("train") or old["train"] == train:
            continue
        for field, without in (("dev", "for a run without dev scores"), ("held_out", "to hold out the share of holdout")):
            chosen = named & {where, "data", f"{where}.{field}", f"data.{field}", where.removesuffix(".data")}
            if old.get(field) is None or chosen:
                continue
            del table[field]
            shown = where.removeprefix(MAIN)
            message = f"{shown}.{field}: {old[field]} is left out, because {shown}.train is now {', '.join(train)}"
            fix = f"Fix: set {shown}.{field} too, or {shown}.{field}=none {without}"
            warnings.warn(f"{message}. {fix}", LaminaWarning, stacklevel=4)
    return values


def _data_tables(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the table `data` of every task by its place; values that are no tables are left out."""
    tasks = values.get("tasks")
    tables = {"data": values.get("data")}
    if isinstance(tasks, dict):
        tables |= {f"tasks.{name}.data": task.get("data") for name, task in tasks.items() if isinstance(task, dict)}
    return {where: table for where, table in tables.items() if isinstance(table, dict)}


def _set_names(table: dict[str, Any]) -> list[str]:
    """Return the names of the sets that a table `data` trains on, also before they are checked."""
    train = table.get("train")
    sets = train if isinstance(train, list) else [] if train is None else [train]
    return [str(one.get("name", "")) if isinstance(one, dict) else str(one) for one in sets]


def checked(
    model: type[OptionsT], values: dict[str, Any], *, name: str, settings: Settings = (), origin: str = SETTING
) -> OptionsT:
    """Return the values as options; a mistake raises LaminaError with one line. `name` starts that line.

    The line about a field that one of the settings has set starts with `origin` instead.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problem = _first_problem(error, model)
        named = [set_to.strip() for set_to, _ in settings_of(settings)]
        place = re.split(r"[:=\s]", problem, maxsplit=1)[0]
        start = origin if any(_is_within(place, one) for one in named) else f"{name}: "
        raise LaminaError(f"{start}{problem}") from None


def _is_within(place: str, setting: str) -> bool:
    """Return whether a setting has set the field at a place, or a field around or in it.

    >>> _is_within("train.lr", "train.lr"), _is_within("tasks.a.head", "head.type"), _is_within("train.lr", "train.seed")
    (True, True, False)
    """
    ours = re.sub(r"^tasks\.[^.]+\.", "", place)
    theirs = re.sub(r"^tasks\.[^.]+\.", "", setting)
    return f"{ours}.".startswith(f"{theirs}.") or f"{theirs}.".startswith(f"{ours}.")


def _apply(values: dict[str, Any], name: str, value: object) -> None:
    parts = name.strip().split(".")
    if "tasks" in values and parts[0] in TaskOptions.model_fields:
        for task in values["tasks"] if isinstance(values["tasks"], dict) else ():  # a setting without a task is for all tasks
            _apply(values, f"tasks.{task}.{name.strip()}", value)
        return
    if value is None:
        _remove(values, parts[:-1], parts[-1])
        return
    _table_of(values, parts[:-1], name)[parts[-1]] = _plain(value)


def _plain(value: object) -> object:
    """Return a value of the caller as a recipe file would hold it. Fields that are None are left out of tables."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return value.tolist() if hasattr(value, "tolist") else value  # an array or a number of numpy


def _table_of(values: dict[str, Any], path: Sequence[str], setting: str) -> dict[str, Any]:
    """Return the table at a path; missing tables are added. A number is a place in a list: `mixer.0`."""
    table: Any = values
    for number, name in enumerate(path):
        if isinstance(table, list) and name.isdigit() and int(name) < len(table):
            table = table[int(name)]
        elif isinstance(table, dict):
            table = table.setdefault(name, {})
        else:
            _refuse_path(path[:number], table, setting)
    if not isinstance(table, dict):
        _refuse_path(path, table, setting)
    return table


def _refuse_path(path: Sequence[str], value: object, setting: str) -> NoReturn:
    name = ".".join(path)
    if isinstance(value, list):
        table = value[0] if value and isinstance(value[0], dict) else {}
        fix = f"set a field of one of them, such as {name}.0.{next(iter(table))}, or set" if table else "set"
        items = "tables" if table else "items"
        raise LaminaError(f"{setting}: {name} is a list of {len(value)} {items}. Fix: {fix} {name} itself")
    raise LaminaError(f"{setting}: {name} is not a table. Fix: set {re.sub('[.][0-9]+$', '', name)} itself")


def _remove(values: dict[str, Any], tables: Sequence[str], field: str) -> None:
    for table in tables:
        values = values.get(table, {})
        if not isinstance(values, dict):
            return  # the check of the whole recipe reports it
    values.pop(field, None)


def _first_problem(error: ValidationError, model: type[BaseModel]) -> str:
    """Return one line: where, what is wrong and the fix.

    An unknown field comes first, since its misspelling can be why another field is missing.
    """
    problems = error.errors()
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    task, place = _task_of(_path(problem["loc"]))
    name = shortened(task + _shown(place))
    types = TYPES.get(place.partition(".")[0], {})
    if problem["type"] == "extra_forbidden":
        return f"{name}: no such field. Fix: {_hint(place, model, task)}"
    if problem["type"] == "missing":
        return f"{name}: is missing. Fix: set {name} in the recipe or in the settings (--set)"
    if problem["type"] == "union_tag_not_found":
        return f"{name}.type: is missing. Fix: choose one of {', '.join(types)}"
    if problem["type"] == "union_tag_invalid":
        return f"{name}.type: there is no {shortened(repr(problem['ctx']['tag']))}. Fix: choose one of {', '.join(types)}"
    what, _, fix = problem["msg"].removeprefix("Value error, ").partition(" Fix: ")
    given = problem.get("input")
    shown = f" (given: {shortened(repr(given))})" if isinstance(given, str | int | float | bool) else ""
    where = f"{name}: " if name else ""
    return f"{where}{what.removesuffix('.')}{shown}. Fix: {fix or _usual_fix(problem, name)}"


def _usual_fix(problem: ErrorDetails, name: str) -> str:
    """Return the fix of a mistake that pydantic found by itself.

    >>> _usual_fix({"type": "greater_than", "loc": (), "msg": "", "input": -1, "ctx": {"gt": 0}}, "train.lr")
    'give a number greater than 0'
    """
    context = problem.get("ctx", {})
    match problem["type"]:
        case "greater_than":
            return f"give a number greater than {context['gt']:g}"
        case "greater_than_equal":
            return f"give a number of at least {context['ge']:g}"
        case "less_than":
            return f"give a number less than {context['lt']:g}"
        case "less_than_equal":
            return f"give a number of at most {context['le']:g}"
        case "literal_error":
            return f"choose {context['expected']}"
        case "bool_parsing" | "bool_type":
            return "give true or false"
        case "int_parsing" | "int_type" | "int_from_float":
            return "give a whole number"
        case "float_parsing" | "float_type" | "finite_number":
            return "give a finite number"
        case "string_type":
            return "give a text in quotes"
        case _:
            return f"change {name or 'it'} in the recipe or in the settings (--set)"


def _path(loc: tuple[int | str, ...]) -> str:
    """Return the place of a mistake with dots, without the tag that tells a list of mixers or sets from one of them.

    >>> _path(("tasks", "main", "mixer", "one", "dot", "size")), _path(("tasks", "a", "mixer", "stages", 1, "dot", "size"))
    ('tasks.main.mixer.dot.size', 'tasks.a.mixer.1.dot.size')
    """
    tags = r"^(tasks\.[^.]+\.(?:mixer|data\.train))\.(?:one|stages|sets)(?=\.|$)"
    return re.sub(tags, r"\1", ".".join(map(str, loc)))


def _task_of(place: str) -> tuple[str, str]:
    """Return the name of the task in a place, and the rest of the place. "main" is left out.

    >>> _task_of("tasks.main.head.span"), _task_of("tasks.mood.head.span"), _task_of("train.lr")
    (('', 'head.span'), ('tasks.mood.', 'head.span'), ('', 'train.lr'))
    """
    match = re.match(r"(tasks\.[^.]+)(?:\.(.*))?$", place)
    if match is None:
        return "", place
    task, rest = match[1], match[2] or ""
    return "" if f"{task}." == MAIN else f"{task}." if rest else task, rest


def _hint(place: str, model: type[BaseModel], task: str = "") -> str:
    """Return the likely field: one of the same table, else one of that name in another; else all fields of the table."""
    fields = sorted((field.removeprefix(MAIN) for field in _fields(model)), key=_shown)
    table, _, last = re.sub(r"\.\d+(?=\.)", "", place).rpartition(".")  # a list has the fields of its tables
    siblings = {field.rpartition(".")[2]: field for field in fields if field.rpartition(".")[0] == table}
    close = [siblings[match] for match in get_close_matches(last, siblings, n=1)]
    if not close and table.partition(".")[0] not in TYPES:  # a field of another type does not fit here
        close = [field for field in fields if field.rpartition(".")[2] == last]
    if not close:
        return f"choose one of {', '.join(siblings)}"
    found, item = _shown(close[0]), re.match(r"(.+?)\.(\d+)\.", place)
    if item and found.startswith(f"{item[1]}."):  # a field of one of a list
        found = found.replace(f"{item[1]}.", f"{item[1]}.{item[2]}.", 1)
    return f"did you mean {task}{found}?"


def _fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the place of every field. In a table of several types, the type is part of the place, as in pydantic's errors."""
    for name, field in model.model_fields.items():
        inner = TaskOptions if name == "tasks" else field.annotation
        path = f"{prefix}{name}" + (".main" if name == "tasks" else "")
        yield path
        for table in _models(inner) if name not in TYPES else ():
            yield from _fields(table, f"{path}.")
        for chosen, options in TYPES.get(name, {}).items():
            yield from _fields(options, f"{path}.{chosen}.")


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    """Yield the tables in the type of a field: a table, an optional one, or a list of tables."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _shown(place: str) -> str:
    """Return a place as recipes name it: without the type of its table.

    >>> _shown("mixer.dot.size"), _shown("mixer.1.dot.size"), _shown("mixer.1"), _shown("train.lr")
    ('mixer.size', 'mixer.1.size', 'mixer.1', 'train.lr')
    """
    table, *rest = place.split(".")
    if table not in TYPES:
        return place
    places = 1 if rest and rest[0].isdigit() else 0  # the place in a list comes before the type
    return ".".join([table, *rest[:places], *rest[places + 1 :]])
