"""The options of a task's data. Reading data needs these only, so this module needs neither torch nor the rest of a recipe."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from lamina.data.labels import Labels
from lamina.data.sentences import ColumnOptions
from lamina.data.splits import Choose
from lamina.data.training_sets import OneOrSets, TrainingSet
from lamina.utils.options import Options


class DataOptions(Options):
    """Data of a task.

    `holdout` is the share of questions in the held-out split, whole articles at a time; sentences with a common text stay
    together. The held-out split chooses the checkpoint and the threshold. A share above 0 that gives fewer than 10
    questions is raised to 10, but to at most a third of them.

    Settings that change the sets in `train` leave out the recipe's `dev` and `held_out`, unless they name them too.
    """

    train: OneOrSets
    """Name, file or hub id of the training data, or a list of sets of questions: names or tables."""
    dev: str | None = None
    """Name, file or hub id of the dev set; without it, or with "none", the run reports no dev scores."""
    holdout: float = Field(default=0.05, ge=0, lt=1)
    """Share of the training examples to hold out, from 0 to below 1; of small data, 10 examples but at most a third."""
    held_out: str | None = None
    """Name, file or hub id of the held-out split, instead of `holdout`; training leaves out its texts."""
    duplicate_ids: Literal["error", "rename"] = "error"
    """Report an id that occurs twice as an error, or rename its later occurrences."""
    questions: int | None = Field(default=None, ge=1)
    """Train on at most this many questions or sentences, drawn with `train.seed`."""
    dev_questions: int | None = Field(default=None, ge=1)
    """Score only the first this many examples of the dev set, the same ones for every seed."""
    fraction: float = Field(default=1.0, gt=0, le=1)
    """Share of the training split to train on, above 0 to 1; a larger fraction contains every smaller one."""
    null_windows: float = Field(default=1.0, ge=0, le=1)
    """Train on this share of the windows that miss the answer of an answerable question, drawn anew in each epoch."""
    # For questions with several contexts:
    contexts: int | None = Field(default=None, ge=1)
    """Train on at most this many contexts of each question; held-out questions keep all of theirs."""
    choose: Choose = "answerable_first"
    """Which contexts to train on: those with an answer first, the first ones, or ones drawn with `train.seed`."""
    # For sentences:
    columns: ColumnOptions = ColumnOptions()
    """Columns of a sentence file that hold the texts, the label and the id."""
    classes: tuple[str, ...] | None = None
    """Labels of a sentence task, in order; without them, the labels of the training file."""
    scores: tuple[float, float] | None = None
    """Lowest and highest label of a sentence task whose labels are numbers."""
    pairs: bool | None = None
    """Whether a row of a sentence file holds two texts; without it, the training file decides."""
    skip_broken: bool = False
    """Skip broken rows of a sentence file with a warning instead of an error."""
    dev_every: int | None = Field(default=None, ge=2)
    """Use every n-th row of the training file, from the first, as the dev set; n is at least 2."""
    per_class: int | None = Field(default=None, ge=1)
    """Train on at most this many sentences of each class."""
    dev_per_class: int | None = Field(default=None, ge=1)
    """Score at most this many sentences of each class of the dev set, the same ones for every seed."""

    @field_validator("train")
    @classmethod
    def _some_set(cls, value: str | tuple[TrainingSet, ...]) -> str | tuple[TrainingSet, ...]:
        if not value and not isinstance(value, str):
            raise ValueError("is an empty list. Fix: name at least one set")
        if not isinstance(value, str) and not all(one.name.strip() for one in value):
            raise ValueError('one of its names is "". Fix: name a file or a dataset')
        if isinstance(value, str) and value.startswith("[") and value.endswith("]"):
            raise ValueError('looks like a list, but its names have no quotes. Fix: write ["NAME", "NAME"]')
        return value

    @field_validator("dev", "held_out")
    @classmethod
    def _no_set(cls, value: str | None) -> str | None:
        return None if value in ("", "none") else value

    @model_validator(mode="after")
    def _fits(self) -> DataOptions:
        if self.dev is not None and self.dev_every is not None:
            raise ValueError("dev and dev_every both name the dev set. Fix: give one of them")
        if self.classes is not None and self.scores is not None:
            raise ValueError("classes and scores are two kinds of labels. Fix: give one of them")
        if self.classes is not None and len(set(self.classes)) != max(2, len(self.classes)):
            raise ValueError("classes holds fewer than two labels, or one label twice. Fix: list two or more different labels")
        if self.scores is not None and self.scores[0] >= self.scores[1]:
            raise ValueError("scores must rise. Fix: give the lowest and the highest score, such as [0, 5]")
        for name in ("per_class", "dev_per_class"):
            if self.scores is not None and getattr(self, name) is not None:
                raise ValueError(f"{name} is for classes, but the labels are scores. Fix: remove data.{name}")
        return self

    @property
    def labels(self) -> Labels:
        low, high = self.scores or (0.0, 1.0)
        return Labels(self.classes or (), low, high)

    @property
    def sets(self) -> tuple[TrainingSet, ...]:
        """Return the sets to train on; one of them if `train` is a text."""
        return (TrainingSet(name=self.train),) if isinstance(self.train, str) else self.train

    @property
    def train_name(self) -> str:
        """Return the name of the training data; of several sets, all names."""
        return ", ".join(one.name for one in self.sets)

    @property
    def holds_out(self) -> bool:
        """Return whether there is a held-out split."""
        return self.held_out is not None or self.holdout > 0

    def differs(self, name: str) -> bool:
        """Return whether a field differs from its default. The recipe of a run lists every field."""
        return bool(getattr(self, name) != DataOptions.model_fields[name].default)

    def share(self, count: int) -> int:
        """Return how many of `count` examples to train on."""
        return max(1, round(self.fraction * count))
