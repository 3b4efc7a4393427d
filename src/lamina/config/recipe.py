"""The options of a recipe: what to train, on what data and how.

A recipe is a TOML file, or the recipe.json of a run. The tables ``data``, ``mixer``, ``head``, ``objective``, ``terms``,
``weight`` and ``augment`` at the top level are short for the task "main".
"""

from __future__ import annotations

import re
from typing import Any, get_args

from pydantic import BaseModel, Field, model_validator

from lamina.answers.decode import AnswerOptions
from lamina.augment.per_epoch import AugmentOptions
from lamina.config.data_options import DataOptions
from lamina.config.train_options import TrainOptions
from lamina.data.windows import WindowOptions
from lamina.encoder.freezing import TuneOptions
from lamina.encoder.load import EncoderOptions
from lamina.heads import OBJECTIVES, HeadOptions, SpanHeadOptions
from lamina.mixers import LastLayerOptions, MixerOptions, OneOrStages
from lamina.objectives import ObjectiveOptions, SpanLossOptions, TermsOptions
from lamina.state_cache.options import CacheOptions
from lamina.utils.options import Options

MAIN = "tasks.main."  # prefix of the task that top-level tables mean
RESERVED = ("mean", "overall")  # names of joint scores of several tasks


class TaskOptions(Options):
    """One task: its data, mixer, head, objective, loss terms and augmentation."""

    data: DataOptions
    """Data to train and score on."""
    mixer: OneOrStages = LastLayerOptions()
    """How to turn the hidden states of all layers into token vectors: one mixer, or a list of stages."""
    head: HeadOptions = SpanHeadOptions()
    """Module that turns token vectors into the outputs of the task."""
    objective: ObjectiveOptions = SpanLossOptions()
    """Loss of the task; the default depends on the head."""
    terms: TermsOptions = TermsOptions()
    """Loss terms to add to the objective."""
    weight: float = Field(default=1.0, gt=0)
    """Factor of this task's loss beside the losses of other tasks."""
    augment: AugmentOptions = AugmentOptions()
    """How to change or add training questions; it is for questions only."""

    @model_validator(mode="before")
    @classmethod
    def _objective_of_the_head(cls, values: Any) -> Any:
        """Set the default type of the head and its default objective, unless the recipe names others."""
        head = values.get("head", {}) if isinstance(values, dict) else None
        if isinstance(head, dict):
            head = {"type": "span"} | head
            values = values | {"head": head}
            usual = OBJECTIVES.get(str(head["type"]))
            objective = values.get("objective", {})
            if usual and isinstance(objective, dict):
                return values | {"objective": {"type": usual} | objective}
        return values

    @model_validator(mode="after")
    def _sets_fit(self) -> TaskOptions:
        if self.head.kind == "sentences" and not isinstance(self.data.train, str):
            what = f"data.train: a list of sets is for questions, but head.type {self.head.type!r} judges sentences"
            raise ValueError(f"{what}. Fix: name one set")
        return self

    @model_validator(mode="after")
    def _terms_fit(self) -> TaskOptions:
        for name, options in self.terms.chosen.items():
            if options.heads and self.head.type not in options.heads:
                fits = ", ".join(options.heads)
                raise ValueError(f"terms.{name} is for heads of type {fits}, not {self.head.type}. Fix: remove terms.{name}")
        distil = self.terms.distil
        if distil is not None and distil.paper_code and self.head.type not in (heads := distil.heads_of_paper_code):
            raise ValueError(
                f"terms.distil.paper_code is for heads of type {', '.join(heads)}, not {self.head.type}. "
                "Fix: set terms.distil.paper_code = false"
            )
        return self

    @model_validator(mode="after")
    def _texts_stay_those_of_the_teachers(self) -> TaskOptions:
        teacher, augment = self.terms.teacher, self.augment
        if teacher is not None and teacher.weight and augment.per_epoch:
            name = "augment.unanswerable" if augment.eda is None else "augment.eda"
            fix = "set augment.unanswerable.per_epoch = false" if augment.eda is None else "remove augment.eda or terms.teacher"
            raise ValueError(
                f"terms.teacher stores the outputs of teachers once, but {name} changes the texts in every epoch. Fix: {fix}"
            )
        return self

    @model_validator(mode="after")
    def _objective_fits(self) -> TaskOptions:
        if self.objective.type != self.head.objective and self.head.type not in self.objective.heads:
            raise ValueError(
                f"objective.type {self.objective.type!r} is for heads of type {', '.join(self.objective.heads)}, "
                f'not {self.head.type}. Fix: set objective.type = "{self.head.objective}"'
            )
        return self


class Recipe(Options):
    """A checked recipe. It is immutable; `read_recipe` makes one from a file or a name.

    Attributes:
        tasks: The tasks to train, by name; a recipe without a table `tasks` has one, "main".
        window: How to cut contexts into windows.
        encoder: The pretrained encoder to start from.
        tune: Which weights of the encoder to train, and its adapters.
        cache: Whether and how to store hidden states of frozen layers on disk.
        answer: How to choose answers from the scores of spans.
        train: Optimiser, schedule, batches, checkpoints, seed and device of the run.
    """

    tasks: dict[str, TaskOptions]
    """Tasks to train, by name; the name is letters, digits, `-` and `_`."""
    window: WindowOptions = WindowOptions()
    """How to cut contexts into windows."""
    encoder: EncoderOptions = EncoderOptions()
    """Pretrained encoder to start from."""
    tune: TuneOptions = TuneOptions()
    """Which weights of the encoder to train."""
    cache: CacheOptions = CacheOptions()
    """Whether and how to store hidden states of frozen layers on disk."""
    answer: AnswerOptions = AnswerOptions()
    """How to choose answers from the scores of spans."""
    train: TrainOptions = TrainOptions()
    """Optimiser, schedule, batches, checkpoints and device of the run."""

    @property
    def main(self) -> TaskOptions:
        """Return the only task. Several tasks raise ValueError."""
        (task,) = self.tasks.values()
        return task

    @model_validator(mode="after")
    def _tasks_fit(self) -> Recipe:
        if not self.tasks:
            raise ValueError("there is no task to train. Fix: add a table data, or [tasks.NAME]")
        for name in self.tasks:
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name) or name in RESERVED:
                raise ValueError(
                    f"tasks.{name}: the name of a task is not allowed. "
                    f"Fix: use letters, digits, - and _, but none of {', '.join(RESERVED)}"
                )
        if self.train.choose not in ("mean", *self.tasks):
            raise ValueError(f"train.choose = {self.train.choose!r} is no task. Fix: choose mean or {', '.join(self.tasks)}")
        if self.train.choose in self.tasks and not self.tasks[self.train.choose].data.holds_out:
            raise ValueError(
                f"train.choose = {self.train.choose!r}, but tasks.{self.train.choose}.data.holdout is 0. "
                "Fix: raise that holdout, name a data.held_out, or choose another task"
            )
        if self.train.minutes is not None and any(task.augment.ramps for task in self.tasks.values()):
            raise ValueError("augment.eda.ramp needs a number of epochs. Fix: set train.epochs instead of train.minutes")
        if 0 < self.train.epochs <= 1 and any(task.augment.ramps_by_epoch for task in self.tasks.values()):
            raise ValueError('augment.eda.ramp_by = "epoch" changes nothing in one epoch. Fix: raise train.epochs above 1')
        if self.train.gradients == "pcgrad" and (self.train.sampling != "combined" or len(self.tasks) < 2):
            raise ValueError(
                'train.gradients = "pcgrad" is for steps with several tasks. Fix: set train.sampling = "combined"'
                if len(self.tasks) > 1
                else 'train.gradients = "pcgrad" is for recipes of several tasks. Fix: set train.gradients = "sum"'
            )
        return self


# The tables whose field `type` decides which other fields exist, with the options of each type.
TYPES: dict[str, dict[str, type[BaseModel]]] = {
    table: {options.model_fields["type"].default: options for options in get_args(get_args(registry)[0])}
    for table, registry in (("mixer", MixerOptions), ("head", HeadOptions), ("objective", ObjectiveOptions))
}
