"""The base class of the kinds of task that read questions: their data, splits, epochs and windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lamina.augment.per_epoch import examples_of_epoch
from lamina.augment.unanswerable import with_some_unanswerable
from lamina.data.examples import Example
from lamina.data.in_memory import examples_of
from lamina.data.sources import load_examples
from lamina.data.splits import (
    choose_contexts,
    first_questions,
    hold_out_articles,
    holdout_share,
    questions_of,
    sample_questions,
    without_texts_of,
    without_unseen,
)
from lamina.data.squad import AnswerChecking
from lamina.data.tokenizer import Tokenizer
from lamina.data.training_sets import mixed, repeated
from lamina.data.windows import WindowOptions, Windows, make_windows
from lamina.errors import LaminaError
from lamina.tasks.kind import DataLike, EpochExamples, FileCache, Splits

if TYPE_CHECKING:
    from lamina.config.recipe import TaskOptions
    from lamina.config.train_options import TrainOptions

# Fields of `data` that only sentence tasks have.
FOR_SENTENCES: Final = ("columns", "classes", "scores", "pairs", "skip_broken", "dev_every", "per_class", "dev_per_class")


class Questions:
    """Base class of the kinds that read questions. Each question has one or several contexts."""

    def check(self, task: TaskOptions, window: WindowOptions) -> None:
        if odd := [name for name in FOR_SENTENCES if task.data.differs(name)]:
            kind = f"head.type {task.head.type!r} answers questions"
            raise LaminaError(f"data.{odd[0]}: is for sentences, but {kind}. Fix: leave data.{odd[0]} out")
        names = [one.name for one in task.data.sets]
        if twice := next((name for number, name in enumerate(names) if name in names[:number]), None):
            raise LaminaError(f"data.train: names {twice} twice. Fix: name it once; repeat = 2 trains on it twice an epoch")
        window.check()
        eda = task.augment.eda
        if task.data.choose != "answerable_first" and task.data.contexts is None:
            raise LaminaError(
                f'data.choose: "{task.data.choose}" has no effect without data.contexts. '
                "Fix: set data.contexts to the number of contexts of a question"
            )
        if eda is not None and eda.synonyms is not None and not {"synonyms", "insert"} & set(eda.operations):
            raise LaminaError(
                'augment.eda.synonyms: only the operations "synonyms" and "insert" use synonyms. '
                "Fix: add one of them to augment.eda.operations"
            )

    def resolve(self, task: TaskOptions, files: FileCache) -> TaskOptions:
        return task

    def read(self, task: TaskOptions, data: DataLike, *, labelled: bool = True) -> list[Example]:
        answers: AnswerChecking = "check" if labelled else "ignore"
        if isinstance(data, str | Path):
            return load_examples(str(data), duplicate_ids=task.data.duplicate_ids, answers=answers)
        return examples_of(data, duplicate_ids=task.data.duplicate_ids, answers=answers)

    def splits(self, task: TaskOptions, seed: int, files: FileCache, *, dev: bool = True) -> Splits[Example]:
        """Return the splits; whole articles are held out. Articles of the same name in several sets are one article.

        With `data.held_out`, that set is held out instead, and questions on its texts are left out of the training split.
        `data.fraction` and `data.contexts` reduce the training split alone. So all fractions have the same held-out split,
        and the threshold is fitted on all contexts of a question. If `augment.unanswerable` is set and no held-out question
        is unanswerable, the held-out split gets synthetic ones too. Without any, no threshold for "no answer" can be fitted.
        """
        data = task.data
        examples = sample_questions(self._training(task, seed, files), data.questions, seed)
        if data.held_out is not None:
            held_out = self._cached(task, data.held_out, files)
            kept = without_texts_of(examples, held_out)
        else:
            share = holdout_share(data.holdout, len(questions_of(examples)))
            kept, held_out = hold_out_articles(examples, share, seed)
        kept = choose_contexts(without_unseen(kept, held_out), data.contexts, data.choose, seed)
        train = repeated(sample_questions(kept, data.share(len(questions_of(kept))), seed), data.sets)
        if task.augment.unanswerable is not None:
            held_out = with_some_unanswerable(held_out, task.augment.unanswerable, seed)
        return Splits(train, held_out, self.dev(task, files) if dev else [])

    def dev(self, task: TaskOptions, files: FileCache) -> list[Example]:
        data = task.data
        return [] if data.dev is None else first_questions(self._cached(task, data.dev, files), data.dev_questions)

    def _training(self, task: TaskOptions, seed: int, files: FileCache) -> list[Example]:
        """Return the questions of the training data, before any is held out."""
        if isinstance(task.data.train, str):
            return self._cached(task, task.data.train, files)
        return mixed(((one, self._cached(task, one.name, files)) for one in task.data.train), seed)

    def _cached(self, task: TaskOptions, name: str, files: FileCache) -> list[Example]:
        return files.get(("questions", name, task.data.duplicate_ids), lambda: self.read(task, name))

    def counts(self, examples: Sequence[Example]) -> dict[str, int]:
        return {"questions": len(questions_of(examples)), "contexts": len(examples)}

    def text(self, example: Example) -> tuple[str, str | None]:
        return example.question, example.context

    def unlabelled(self, examples: Sequence[Example]) -> Sequence[Example]:
        return [replace(example, answers=()) for example in examples]

    def epoch(self, examples: Sequence[Example], task: TaskOptions, train: TrainOptions, number: int) -> EpochExamples[Example]:
        return EpochExamples(*examples_of_epoch(examples, task.augment, seed=train.seed, epoch=number, epochs=train.epochs))

    def windows(self, examples: Sequence[Example], tokenizer: Tokenizer, task: TaskOptions, window: WindowOptions) -> Windows:
        return make_windows(examples, tokenizer, window)
