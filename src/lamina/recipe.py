"""Recipes: what to train, on what, how. A TOML file, or the recipe.json of a run.

Top-level ``data``, ``mixer``, ``head``, ``objective``, ``terms``, ``weight`` and ``augment`` are sugar for the task "main".
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
from lamina.augment.rewriting import AugmentOptions
from lamina.cache.options import CacheOptions
from lamina.data.labels import Labels
from lamina.data.sentences import ColumnOptions
from lamina.data.splits import Choose
from lamina.data.windows import WindowOptions
from lamina.encoder.freezing import TuneOptions
from lamina.encoder.load import EncoderOptions
from lamina.errors import LaminaError
from lamina.heads import OBJECTIVES, HeadOptions, SpanHeadOptions
from lamina.mixers import LastLayerOptions, MixerOptions
from lamina.objectives import ObjectiveOptions, SpanLossOptions, TermsOptions
from lamina.training.options import TrainOptions

MAIN = "tasks.main."  # what the sugar leaves out
RESERVED = ("mean", "overall")  # what scores of several tasks are named

Options = TypeVar("Options", bound=BaseModel)


class DataOptions(BaseModel):
    """Where the texts come from. `holdout` is the share of questions kept, by article, to choose checkpoint and threshold;
    of sentences, those that share a text are kept together."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    train: str
    dev: str | None = None
    holdout: float = Field(default=0.05, ge=0, lt=1)
    duplicate_ids: Literal["error", "rename"] = "error"
    questions: int | None = Field(default=None, ge=1)  # train on so many (questions or sentences), drawn by train.seed
    dev_questions: int | None = Field(default=None, ge=1)  # score the first so many: the same ones for every seed
    fraction: float = Field(default=1.0, gt=0, le=1)  # of what is left to train on; a smaller part lies within a larger one
    # Of questions only, where one has several contexts:
    contexts: int | None = Field(default=None, ge=1)  # train on so many of each question's; held-out questions keep all
    choose: Choose = "answerable_first"  # which: those that hold an answer before the others, the first, or drawn by train.seed
    # Of sentences only:
    columns: ColumnOptions = ColumnOptions()  # which columns of the file hold what
    classes: tuple[str, ...] | None = None  # the labels, in order; found in the training file if not given
    scores: tuple[float, float] | None = None  # or: labels are numbers from the first to the second
    pairs: bool | None = None  # whether a row is a pair of texts; found in the training file if not given
    skip_broken: bool = False  # leave out broken rows, with a warning
    dev_every: int | None = Field(
        default=None, ge=2
    )  # every so many rows of the training file, from the first, are the dev set
    per_class: int | None = Field(default=None, ge=1)  # train on at most so many of each class

    @model_validator(mode="after")
    def _fits(self) -> DataOptions:
        if self.dev is not None and self.dev_every is not None:
            raise ValueError("dev and dev_every are two ways to name the dev set: give one of them")
        if self.classes is not None and self.scores is not None:
            raise ValueError("classes and scores are two kinds of labels: give one of them")
        if self.classes is not None and len(set(self.classes)) != max(2, len(self.classes)):
            raise ValueError("classes must be two or more different labels")
        if self.scores is not None and self.scores[0] >= self.scores[1]:
            raise ValueError("scores are the lowest and the highest score, such as [0, 5]")
        if self.scores is not None and self.per_class is not None:
            raise ValueError("per_class is for classes, but the labels are scores")
        return self

    @property
    def labels(self) -> Labels:
        low, high = self.scores or (0.0, 1.0)
        return Labels(self.classes or (), low, high)


class TaskOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    data: DataOptions
    mixer: MixerOptions = LastLayerOptions()
    head: HeadOptions = SpanHeadOptions()
    objective: ObjectiveOptions = SpanLossOptions()
    terms: TermsOptions = TermsOptions()  # what is added to the objective
    weight: float = Field(default=1.0, gt=0)  # of this task's loss beside the others'
    augment: AugmentOptions = AugmentOptions()  # of questions: what is made of the training data

    @model_validator(mode="before")
    @classmethod
    def _objective_of_the_head(cls, values: Any) -> Any:
        """A head trains by its own objective unless another is named."""
        head = values.get("head", {"type": "span"}) if isinstance(values, dict) else None
        if isinstance(head, dict):
            usual = OBJECTIVES.get(str(head.get("type")))
            objective = values.get("objective", {})
            if usual and isinstance(objective, dict):
                return values | {"objective": {"type": usual} | objective}
        return values

    @property
    def of_sentences(self) -> bool:
        return self.head.reads == "sentences"

    @model_validator(mode="after")
    def _data_fits(self) -> TaskOptions:
        fields = ("columns", "classes", "scores", "pairs", "skip_broken", "dev_every", "per_class")
        if not self.of_sentences and (
            odd := [name for name in fields if name in self.data.model_fields_set and self._set(name)]
        ):
            raise ValueError(f"data.{odd[0]} is for sentences, but head.type {self.head.type!r} answers questions")
        if self.of_sentences and self.augment != AugmentOptions():
            raise ValueError(f"augment is for questions, but head.type {self.head.type!r} judges sentences")
        if self.of_sentences and (odd := [name for name in ("contexts", "choose") if self._set(name)]):
            raise ValueError(f"data.{odd[0]} is for questions, but head.type {self.head.type!r} judges sentences")
        return self

    def _set(self, name: str) -> bool:
        """A field of `data` that is not as it would be anyway: a run's recipe names all."""
        return bool(getattr(self.data, name) != DataOptions.model_fields[name].default)

    @model_validator(mode="after")
    def _terms_fit(self) -> TaskOptions:
        ranking = self.terms.ranking
        if ranking is not None and self.head.type not in ranking.heads:
            raise ValueError(f"terms.ranking is for heads of type {', '.join(ranking.heads)}, not {self.head.type}")
        distil = self.terms.distil
        if distil is not None and distil.paper_code and self.head.type not in (heads := distil.heads_of_paper_code):
            raise ValueError(f"terms.distil.paper_code is for heads of type {', '.join(heads)}, not {self.head.type}")
        return self

    @model_validator(mode="after")
    def _objective_fits(self) -> TaskOptions:
        if self.head.type not in self.objective.heads:
            raise ValueError(
                f"objective.type {self.objective.type!r} is for heads of type {', '.join(self.objective.heads)}, "
                f"not {self.head.type}"
            )
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
        """The only task."""
        (task,) = self.tasks.values()
        return task

    @model_validator(mode="after")
    def _tasks_fit(self) -> Recipe:
        if not self.tasks:
            raise ValueError("there is no task to train")
        for name in self.tasks:
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name) or name in RESERVED:
                raise ValueError(f"tasks.{name}: a task's name is letters, digits, - and _, and none of {', '.join(RESERVED)}")
        if self.train.choose not in ("mean", *self.tasks):
            raise ValueError(f"train.choose = {self.train.choose!r} is no task: choose mean or {', '.join(self.tasks)}")
        if self.train.choose in self.tasks and self.tasks[self.train.choose].data.holdout == 0:
            raise ValueError(f"train.choose = {self.train.choose!r}, but tasks.{self.train.choose}.data.holdout is 0")
        if any(not task.of_sentences for task in self.tasks.values()):
            self.window.check()
        if self.train.minutes is not None and any(task.augment.ramps for task in self.tasks.values()):
            raise ValueError("augment.eda.ramp must know how many epochs there are: set train.epochs instead of train.minutes")
        if self.train.epochs <= 1 and any(task.augment.ramps_by_epoch for task in self.tasks.values()):
            raise ValueError('augment.eda.ramp_by = "epoch" changes nothing in the first epoch: raise train.epochs above 1')
        if self.train.gradients == "pcgrad" and (self.train.sampling != "combined" or len(self.tasks) < 2):
            raise ValueError(
                'train.gradients = "pcgrad" is for steps that hold several tasks: set train.sampling = "combined"'
                if len(self.tasks) > 1
                else 'train.gradients = "pcgrad" is for recipes of several tasks'
            )
        return self


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
