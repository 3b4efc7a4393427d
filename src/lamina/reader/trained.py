"""What all readers share: the trained model, its tasks, and what holds for any text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

from lamina.config.recipe import Recipe, TaskOptions
from lamina.data.tokenizer import Tokenizer
from lamina.errors import LaminaError
from lamina.model import Model
from lamina.model.inference import TorchInference
from lamina.runs.load import Trained
from lamina.state_cache.dataset import Dataset
from lamina.tasks.kind import JsonObject, ScoreTable
from lamina.tasks.registry import kind_of
from lamina.utils.progress import Progress, Silent


class TrainedReader:
    """A trained model with its recipe, its tokenizer and the decision of each task."""

    def __init__(self, trained: Trained) -> None:
        self.trained = trained

    @property
    def recipe(self) -> Recipe:
        return self.trained.recipe

    @property
    def model(self) -> Model:
        return self.trained.model

    @property
    def tokenizer(self) -> Tokenizer:
        return self.trained.tokenizer

    def task(self, name: str | None = None) -> tuple[str, TaskOptions]:
        """The task of that name; without a name the only task, or the one that answers questions."""
        tasks = self.recipe.tasks
        if name is None and len(tasks) > 1:
            name = self.trained.find_spans()
            if name is None:
                raise LaminaError(f"this model has several tasks: name one of {', '.join(tasks)}")
        elif name is None:
            name = next(iter(tasks))
        if name not in tasks:
            raise LaminaError(f"{name!r} is no task of this model: there are {', '.join(tasks)}")
        return name, tasks[name]

    def read(
        self,
        data: str,
        *,
        task: str | None = None,
        labelled: bool = True,
        duplicate_ids: Literal["error", "rename"] = "error",
    ) -> list[Any]:
        """The examples of a file or a named data set, as a task reads them."""
        _, options = self.task(task)
        renamed = options.data.model_copy(update={"duplicate_ids": duplicate_ids})
        return kind_of(options).read(options.model_copy(update={"data": renamed}), data, labelled=labelled)

    def evaluate(
        self, examples: Sequence[Any] | str, *, task: str | None = None, progress: Progress | None = None
    ) -> ScoreTable:
        """The scores of a task on labelled examples, or on the file or data set of that name. By the kind of task:

        spans: the official SQuAD 2.0 scores at threshold 0, at the model's own, and the best that any threshold gives. Where
        questions have several contexts these count one by one, and `questions` has the scores over all of them. KorQuAD's
        scores are added if the model was trained with `train.scorer = "korquad"`.
        answerability: accuracy, and the F1 of the class "impossible".
        sentences: accuracy and macro-F1 of classes, the correlations of scores.
        """
        name, options = self.task(task)
        found = self.read(examples, task=name) if isinstance(examples, str) else examples
        if not found:
            raise LaminaError("there is nothing to evaluate: no examples were given")
        return self._scores(name, options, found, progress or Silent())

    def predictions(
        self,
        examples: Sequence[Any] | str,
        *,
        task: str | None = None,
        wanted: Collection[str] | None = None,
        progress: Progress | None = None,
    ) -> dict[str, JsonObject]:
        """Predictions by example id, under the name `predictions`. Labels are not looked at.

        `examples` may be the name of a file or a data set. Spans have `null_odds`, `nbest` and `questions` too; `wanted` names
        what is needed.
        """
        name, options = self.task(task)
        kind = kind_of(options)
        found = self.read(examples, task=name, labelled=False) if isinstance(examples, str) else examples
        chosen = [one for one in kind.predicts if wanted is None or one in wanted]
        if not found:
            return {one: {} for one in chosen}
        return self._predictions(name, options, kind.unlabelled(found), chosen, progress or Silent())

    def _scores(self, name: str, options: TaskOptions, examples: Sequence[Any], progress: Progress) -> ScoreTable:
        return kind_of(options).score(*self._outputs(name, options, examples, progress))

    def _predictions(
        self, name: str, options: TaskOptions, examples: Sequence[Any], wanted: Collection[str], progress: Progress
    ) -> dict[str, JsonObject]:
        found = kind_of(options).predict(*self._outputs(name, options, examples, progress))
        return {one: found[one] for one in wanted}

    def _outputs(self, name: str, options: TaskOptions, examples: Sequence[Any], progress: Progress) -> tuple[Any, ...]:
        """What `Kind.score` and `Kind.predict` take."""
        kind = kind_of(options)
        dataset = Dataset(examples, kind.windows(examples, self.tokenizer, options, self.recipe.window))
        outputs = kind.outputs(TorchInference(self.model, name, progress=progress), dataset)
        return outputs, dataset, self.trained.settings(name), self.trained.decision(name)


def check_text(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LaminaError(f"{name}, character {error.start}: not UTF-8 text") from None
