"""The part that all readers share: the trained model, its tasks, and whole datasets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lamina.data.examples import Example, Sentence
from lamina.data.tokenizer import Tokenizer
from lamina.errors import LaminaError
from lamina.runtime.engine import EngineInference
from lamina.runtime.ready import ReadyModel
from lamina.tasks.kind import DataLike, Examined, JsonObject, ScoreTable
from lamina.tasks.registry import kind_of
from lamina.utils.progress import Progress, Silent

if TYPE_CHECKING:
    from lamina.config.recipe import Recipe, TaskOptions
    from lamina.model import Model


class TrainedReader:
    """A trained model with its recipe, its tokenizer and the decision of each task."""

    def __init__(self, trained: ReadyModel) -> None:
        self.trained = trained

    @property
    def recipe(self) -> Recipe:
        """The recipe that the model was trained with. Without torch, only its fields that predictions need."""
        return self.trained.recipe

    @property
    def backend(self) -> str:
        """What runs the model, and its number format, such as "onnx, int8"."""
        return self.trained.engine.name

    @cached_property
    def model(self) -> Model:
        """The torch module, in eval mode. With another backend it is loaded when it is first used."""
        from lamina.runs.load import as_torch

        return as_torch(self.trained).model

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the encoder."""
        return self.trained.tokenizer

    def task(self, name: str | None = None) -> tuple[str, TaskOptions]:
        """Return a task with its name.

        Args:
            name: The name of the task. None for the only task, or for the one that answers questions.

        Returns:
            The name of the task, and its options in the recipe.

        Raises:
            LaminaError: There is no such task, or several fit.
        """
        tasks = self.recipe.tasks
        if name is None and len(tasks) > 1:
            name = self.trained.find_spans()
            if name is None:
                raise LaminaError(f"task: this model has several tasks. Fix: name one of {', '.join(tasks)}")
        elif name is None:
            name = next(iter(tasks))
        if name not in tasks:
            raise LaminaError(f"task: {name!r} is no task of this model. Fix: choose one of {', '.join(tasks)}")
        return name, tasks[name]

    def read(
        self,
        data: DataLike,
        *,
        task: str | None = None,
        labelled: bool = True,
        duplicate_ids: Literal["error", "rename"] = "error",
    ) -> list[Any]:
        """Return the examples of data, as a task reads them.

        Args:
            data: A file name or dataset name, a list of dicts, a pandas DataFrame, a `datasets.Dataset`, or examples.
            task: The task that reads, if the model has several.
            labelled: Check the answers and labels. Without it they are ignored.
            duplicate_ids: What to do with ids that occur twice: "error" refuses them, "rename" renames the later ones.

        Returns:
            A list of `Example`, or of sentences for a task of sentences.

        Raises:
            LaminaError: The data cannot be read. The message names the row.
            TypeError: The data has none of these types.
        """
        _, options = self.task(task)
        renamed = options.data.model_copy(update={"duplicate_ids": duplicate_ids})
        return kind_of(options).read(options.model_copy(update={"data": renamed}), data, labelled=labelled)

    def evaluate(self, examples: DataLike, *, task: str | None = None, progress: Progress | None = None) -> ScoreTable:
        """Return the scores of a task on labelled data.

        Args:
            examples: A file name or dataset name, a list of dicts, a pandas DataFrame, a `datasets.Dataset`, or examples.
            task: The task to score, if the model has several.
            progress: Where progress goes; nowhere if None.

        Returns:
            Scores by name. The names depend on the kind of task.

            - spans: the official SQuAD 2.0 scores, in percent: `zero` at threshold 0, `tuned` at the threshold of the model and
              `best` at the best threshold. Contexts count one by one; `questions` has the scores over all contexts of a
              question. ``train.scorer`` adds other scores: "korquad" those of KorQuAD, "bertvision_legacy" those of paper 001.
            - answerability: accuracy, and the F1 of the class "impossible".
            - sentences: accuracy and macro-F1 of classes, or the correlations of scores, from 0 to 1.

        Raises:
            LaminaError: The data is empty or cannot be read, or the task is not clear.
        """
        name, options = self.task(task)
        found = self._examples(examples, name, labelled=True)
        if not found:
            raise LaminaError("examples: there is nothing to evaluate. Fix: give at least one example")
        return self._scores(name, options, found, progress or Silent())

    def predictions(
        self,
        examples: DataLike,
        *,
        task: str | None = None,
        wanted: Collection[str] | None = None,
        progress: Progress | None = None,
    ) -> dict[str, JsonObject]:
        """Return final predictions by example id, as `lamina predict` writes them. Works for every kind of task.

        This is the method for files and benchmarks: the threshold is applied, and the values are plain JSON.
        `Reader.predict` returns the raw n-best answers of spans as `Prediction` objects instead.

        Args:
            examples: A file name or dataset name, a list of dicts, a pandas DataFrame, a `datasets.Dataset`, or examples.
                Answers and labels are ignored.
            task: The task that predicts, if the model has several.
            wanted: The tables to return; None for all that the task has.
            progress: Where progress goes; nowhere if None.

        Returns:
            Tables by name. `predictions` maps each id to the text of the answer ("" for no answer), to the class, or to the
            score. Spans also have `null_odds` (by id), `nbest` (by id, the best first) and `questions` (by question).

        Raises:
            LaminaError: The data cannot be read, or the task is not clear.
        """
        name, options = self.task(task)
        kind = kind_of(options)
        found = self._examples(examples, name, labelled=False)
        chosen = [one for one in kind.predicts if wanted is None or one in wanted]
        if not found:
            return {one: {} for one in chosen}
        return self._predictions(name, options, kind.unlabelled(found), chosen, progress or Silent())

    def _examples(self, data: DataLike, task: str, *, labelled: bool) -> Sequence[Any]:
        """Return the examples of data. Examples and sentences that were read already are taken as they are."""
        if isinstance(data, str | Path):
            return self.read(data, task=task, labelled=labelled)
        if isinstance(data, Sequence) and all(isinstance(item, Example | Sentence) for item in data):
            return data
        return self.read(data, task=task, labelled=labelled)

    def _scores(self, name: str, options: TaskOptions, examples: Sequence[Any], progress: Progress) -> ScoreTable:
        return kind_of(options).score(*self._outputs(name, options, examples, progress))

    def _predictions(
        self, name: str, options: TaskOptions, examples: Sequence[Any], wanted: Collection[str], progress: Progress
    ) -> dict[str, JsonObject]:
        found = kind_of(options).predict(*self._outputs(name, options, examples, progress))
        return {one: found[one] for one in wanted}

    def _outputs(self, name: str, options: TaskOptions, examples: Sequence[Any], progress: Progress) -> tuple[Any, ...]:
        """Return the arguments of `Kind.score` and `Kind.predict`."""
        kind = kind_of(options)
        data = Examined(examples, kind.windows(examples, self.tokenizer, options, self.recipe.window))
        outputs = kind.outputs(EngineInference(self.trained.engine, name, progress), data)
        return outputs, data, self.trained.settings(name), self.trained.decision(name)


def check_text(name: str, text: str) -> None:
    """Raise LaminaError if a text holds characters that UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LaminaError(f"{name}, character {error.start}: not UTF-8 text. Fix: remove the character") from None
