"""Recipes: what to train, on what, how. A TOML file, or the recipe.json of a run.

Top-level ``data``, ``mixer``, ``head`` and ``objective`` tables are sugar for the task "main".
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lamina.answers.decode import AnswerOptions
from lamina.cache.options import CacheOptions
from lamina.data.windows import WindowOptions
from lamina.encoder.freezing import TuneOptions
from lamina.encoder.load import EncoderOptions
from lamina.errors import LaminaError
from lamina.heads import OBJECTIVES, HeadOptions, SpanHeadOptions
from lamina.mixers import LastLayerOptions, MixerOptions
from lamina.objectives import ObjectiveOptions, SpanLossOptions
from lamina.training.options import TrainOptions

MAIN = "tasks.main."  # what the sugar leaves out

Options = TypeVar("Options", bound=BaseModel)


class DataOptions(BaseModel):
    """Where the texts come from. `holdout` is the share of questions kept, by article, to choose checkpoint and threshold."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    train: str
    dev: str | None = None
    holdout: float = Field(default=0.05, ge=0, lt=1)
    duplicate_ids: Literal["error", "rename"] = "error"
    questions: int | None = Field(default=None, ge=1)  # train on so many, drawn by train.seed
    dev_questions: int | None = Field(default=None, ge=1)  # score the first so many: the same ones for every seed
    fraction: float = Field(default=1.0, gt=0, le=1)  # of what is left to train on; a smaller part lies within a larger one


class TaskOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    data: DataOptions
    mixer: MixerOptions = LastLayerOptions()
    head: HeadOptions = SpanHeadOptions()
    objective: ObjectiveOptions = SpanLossOptions()

    @model_validator(mode="before")
    @classmethod
    def _objective_of_the_head(cls, values: Any) -> Any:
        """A head trains by its own objective unless another is named."""
        if isinstance(values, dict) and isinstance(values.get("head"), dict):
            usual = OBJECTIVES.get(str(values["head"].get("type")))
            objective = values.get("objective", {})
            if usual and isinstance(objective, dict):
                return values | {"objective": {"type": usual} | objective}
        return values

    @model_validator(mode="after")
    def _objective_fits(self) -> TaskOptions:
        if self.objective.head != self.head.objective:
            raise ValueError(f"objective.type {self.objective.type!r} is for {self.objective.head} heads, not {self.head.type}")
        return self


class Recipe(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    tasks: dict[str, TaskOptions]
    window: WindowOptions = WindowOptions()
    encoder: EncoderOptions = EncoderOptions()
    tune: TuneOptions = TuneOptions()
    cache: CacheOptions = CacheOptions()
    answer: AnswerOptions = AnswerOptions()
    train: TrainOptions = TrainOptions()

    @property
    def main(self) -> TaskOptions:
        return self.tasks["main"]


# The tables whose `type` chooses the other fields, with the options of each type.
TYPES: dict[str, dict[str, type[BaseModel]]] = {
    table: {options.model_fields["type"].default: options for options in get_args(field.annotation)}
    for model in (Recipe, TaskOptions)
    for table, field in model.model_fields.items()
    if field.discriminator
}


def read_recipe(path: Path, settings: Sequence[str] = ()) -> Recipe:
    """Reads a recipe and applies ``a.b=value`` settings to it."""
    return parse_recipe(read_values(path), settings, name=str(path))


def read_values(path: Path) -> dict[str, Any]:
    """The tables and fields of a recipe's file, unchecked."""
    try:
        text = path.read_text(encoding="utf-8")
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
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
    if "tasks" not in values:
        task_tables = {key: values.pop(key) for key in TaskOptions.model_fields if key in values}
        values["tasks"] = {"main": task_tables}
    recipe = checked(Recipe, values, name=name)
    if list(recipe.tasks) != ["main"]:
        raise LaminaError(f'{name}: tasks are {", ".join(recipe.tasks)}; this version trains the one task "main"')
    return recipe


def with_settings(values: dict[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """A copy of a recipe's values, changed as ``a.b=value`` settings say."""
    values = json.loads(json.dumps(values, default=str))
    for setting in settings:
        _apply(values, setting)
    return values


def checked(model: type[Options], values: dict[str, Any], *, name: str) -> Options:
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
        parts = ["tasks", "main", *parts]
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
    place = ".".join(map(str, problem["loc"])).removeprefix(MAIN)
    name = _shown(place)
    if problem["type"] == "extra_forbidden":
        return f"{name}: no such field; {_hint(place, model)}"
    if problem["type"] == "missing":
        return f"{name}: is missing"
    if problem["type"] == "union_tag_not_found":
        return f"{name}.type: is missing; there are {', '.join(TYPES[name])}"
    if problem["type"] == "union_tag_invalid":
        return f"{name}.type: there is no {problem['ctx']['tag']!r}; there are {', '.join(TYPES[name])}"
    message = problem["msg"].removeprefix("Value error, ")
    given = problem.get("input")
    return f"{name}: {message}" + (f" (given: {given!r})" if isinstance(given, str | int | float | bool) else "")


def _hint(place: str, model: type[BaseModel]) -> str:
    """What may have been meant: a field of that table, else one of that name in another, else the list of the table's."""
    fields = sorted((field.removeprefix(MAIN) for field in _fields(model)), key=_shown)
    table, _, last = re.sub(r"\.\d+(?=\.)", "", place).rpartition(".")  # a list's fields are those of each of its tables
    siblings = {field.rpartition(".")[2]: field for field in fields if field.rpartition(".")[0] == table}
    close = [siblings[match] for match in get_close_matches(last, siblings, n=1)]
    if not close and table.partition(".")[0] not in TYPES:  # what another type has does not help
        close = [field for field in fields if field.rpartition(".")[2] == last]
    return f"did you mean {_shown(close[0])}?" if close else f"there are {', '.join(siblings)}"


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
