"""Recipes: what to train, on what, how. A TOML file, or the recipe.json of a run.

Top-level ``data``, ``mixer``, ``head``, ``objective``, ``terms``, ``weight`` and ``augment`` are sugar for the task "main".
"""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lamina.answers.decode import AnswerOptions
from lamina.augment.per_epoch import AugmentOptions
from lamina.config.train_options import TrainOptions
from lamina.data.labels import Labels
from lamina.data.sentences import ColumnOptions
from lamina.data.splits import Choose
from lamina.data.windows import WindowOptions
from lamina.encoder.freezing import TuneOptions
from lamina.encoder.load import EncoderOptions
from lamina.heads import OBJECTIVES, HeadOptions, SpanHeadOptions
from lamina.mixers import LastLayerOptions, MixerOptions
from lamina.objectives import ObjectiveOptions, SpanLossOptions, TermsOptions
from lamina.state_cache.options import CacheOptions

MAIN = "tasks.main."  # what the sugar leaves out
RESERVED = ("mean", "overall")  # what scores of several tasks are named


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

    def differs(self, name: str) -> bool:
        """Whether a field is not at its default: the recipe of a run names all fields."""
        return bool(getattr(self, name) != DataOptions.model_fields[name].default)

    def share(self, count: int) -> int:
        """How many of `count` examples to train on."""
        return max(1, round(self.fraction * count))


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

    @model_validator(mode="after")
    def _terms_fit(self) -> TaskOptions:
        for name, options in self.terms.chosen.items():
            if options.heads and self.head.type not in options.heads:
                raise ValueError(f"terms.{name} is for heads of type {', '.join(options.heads)}, not {self.head.type}")
        distil = self.terms.distil
        if distil is not None and distil.paper_code and self.head.type not in (heads := distil.heads_of_paper_code):
            raise ValueError(f"terms.distil.paper_code is for heads of type {', '.join(heads)}, not {self.head.type}")
        return self

    @model_validator(mode="after")
    def _objective_fits(self) -> TaskOptions:
        if self.objective.type != self.head.objective and self.head.type not in self.objective.heads:
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
