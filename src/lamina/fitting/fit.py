"""`lamina.fit`: check the data, hold a part out, choose what to train, train, and hand out the better model."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from lamina.answers.decisions import SpanDecision
from lamina.config.build import build_losses, build_model
from lamina.config.parse import Settings, parse_recipe
from lamina.config.recipe import Recipe
from lamina.config.train_options import choose_device
from lamina.data.examples import Example, Sentence
from lamina.data.in_memory import read_twice
from lamina.data.labels import labels_in
from lamina.data.repair import Repaired, are_sentences, repair_questions, repair_sentences
from lamina.data.sentences import ColumnOptions
from lamina.data.split_files import without_ending
from lamina.data.splits import questions_of, sample
from lamina.encoder import load as encoders
from lamina.errors import LaminaError
from lamina.fitting.choice import HELD_OUT, Choice, Size, Speed, choose, cost
from lamina.fitting.comparison import (
    Comparison,
    HeldOutQuestions,
    HeldOutSentences,
    compare_questions,
    compare_sentences,
    fit_decision,
    with_calibration_of,
)
from lamina.fitting.parts import Part, grouped, parts_of
from lamina.fitting.results import Fitted
from lamina.fitting.starts import Prepared, QuestionStart, SentenceStart, fields_of, question_start, sentence_start, with_head
from lamina.reader.load import load
from lamina.tasks.kind import DataLike
from lamina.training.datasets import dataset_of
from lamina.training.steps import seconds_per_token
from lamina.training.task_group import decisions_json
from lamina.training.trainer import train
from lamina.utils.files import check_new, expanded, write_json
from lamina.utils.memory import limit_kernels
from lamina.utils.new_folders import work_folder
from lamina.utils.progress import Progress, Silent
from lamina.utils.run_folder import Run

FEWEST_QUESTIONS: Final = 30
FEWEST_A_CLASS: Final = 8
FEWEST_SCORES: Final = 16
PROBED: Final = 12  # examples whose training is timed
RATE: Final = 5e-5  # learning rate of an encoder with states of 384 numbers; wider ones have a lower rate
SHOWN: Final = 10  # problems of the data that the progress shows; fit.json has all of them


def fit(
    data: DataLike,
    out: str | Path | None = None,
    *,
    start: str | Path | None = None,
    minutes: float = 10.0,
    settings: Settings = (),
    progress: Progress | None = None,
) -> Fitted:
    """Fit a model to your questions or labelled sentences, test it on held-out ones, and write the better model as a run.

    Problems of the data are repaired if that is safe; other rows with problems are left out and listed. If the trained model is
    not better than the start on held-out examples, the run holds the start.

    >>> fitted = fit("questions.csv", "runs/mine", start="runs/quickstart", minutes=5)  # doctest: +SKIP
    >>> print(fitted)  # doctest: +SKIP

    Args:
        data: At least 30 questions, or at least 8 sentences of each class, or 16 with scores: a file name or dataset name, a
            list of dicts, a pandas DataFrame, a `datasets.Dataset`, or a list of `Example`.
        out: The run folder to write, which must not exist. None for ``runs/NAME-fit``, by the name of the file.
        start: The model to start from. For questions, a run or a question-answering checkpoint, a folder or a hub id; None
            for the reader that comes with Lamina. For sentences, a run or an encoder; None for the default encoder.
        minutes: The time to plan with, above 0.
        settings: Changes of the recipe, as in `lamina.train`, such as ``{"data.columns.label": "mood"}``.
        progress: Where progress goes; nowhere if None.

    Returns:
        The run, the scores before and after, and examples whose prediction changed.

    Raises:
        LaminaError: There is too little data, a mistake in the data or the settings, or `out` exists.
        TypeError: An argument has the wrong type.
        ValueError: `minutes` is not above 0.
    """
    if not minutes > 0:
        raise ValueError(f"minutes must be above 0, not {minutes}")
    if "data.held_out" in fields_of(settings):
        raise LaminaError("data.held_out: fit holds out a part of the data itself. Fix: leave it out, or use lamina train")
    limit_kernels()
    folder = expanded(out) if out is not None else Path("runs") / _name_of(data)
    check_new(folder, "name a new folder with --out, or delete this one")
    fitting = _Fitting.begin(data, start, settings, progress or Silent())
    choice, size = fitting.choose(minutes)
    with work_folder(folder.parent / f".{folder.name}-fit") as work:  # on the same disk
        return fitting.run(choice, choice.lines(size, minutes), work, folder)


def _name_of(data: object) -> str:
    name = without_ending(Path(str(data).replace("*", "").replace(":", "-")).name) if isinstance(data, str | Path) else ""
    return f"{name}-fit" if name else "fit"


@dataclass(frozen=True)
class _Fitting:
    """The data, the start and the settings of one fit."""

    given: Repaired[Any]
    start: QuestionStart | SentenceStart
    settings: Settings
    progress: Progress

    @classmethod
    def begin(cls, data: DataLike, start: str | Path | None, settings: Settings, progress: Progress) -> _Fitting:
        source: Any = data if isinstance(data, str | Path) else read_twice(data)
        columns = _columns(settings)
        if are_sentences(source, columns):
            sentences = repair_sentences(source, columns)
            _check_sentences(sentences.examples)
            fitting = cls(sentences, sentence_start(start, sentences.examples, columns, settings), settings, progress)
        else:
            questions = repair_questions(source)
            if (count := len(questions_of(questions.examples))) < FEWEST_QUESTIONS:
                what = f"{count} questions are too few to fit and to test a model"
                raise LaminaError(f"data: {what}. Fix: give at least {FEWEST_QUESTIONS}")
            examples, groups = grouped(questions.examples)
            fitting = cls(replace(questions, examples=examples), question_start(start, settings), settings, progress)
            progress.say(f"data: {count} questions; whole {groups} are held out")
        fitting._say_problems()
        return fitting

    @property
    def examples(self) -> list[Any]:
        return self.given.examples

    def _say_problems(self) -> None:
        for what, problems in (("repaired", self.given.repaired), ("left out", self.given.left_out)):
            for problem in problems[:SHOWN]:
                self.progress.say(f"{what}: {problem}")
            if len(problems) > SHOWN:
                self.progress.say(f"{what}: {len(problems) - SHOWN} more")

    def choose(self, minutes: float) -> tuple[Choice, Size]:
        """Measure the speed, choose what to train, and say it in two lines."""
        recipe = self.start.recipe
        ((name, task),) = recipe.tasks.items()
        source = encoders.find(recipe.encoder)
        tokenizer = encoders.load_tokenizer(source)
        windows = dataset_of(recipe, task, self.examples, tokenizer).windows
        probed = dataset_of(recipe, task, sample(self.examples, PROBED, recipe.train.seed), tokenizer)
        model = build_model(recipe, encoders.load(source)).to(choose_device(recipe.train.device))
        pace = seconds_per_token(recipe.train, name, probed, model, build_losses(recipe)[name])
        sentences = isinstance(self.examples[0], Sentence)
        count = len(self.examples) if sentences else len(questions_of(self.examples))
        size = Size(count, len(windows.ids), source.config.layers, shared=source.config.shared, sentences=sentences)
        speed = Speed(pace, pace / 3)
        choice = self._as_set(choose(size, speed, minutes))
        choice = replace(choice, seconds=cost(choice, size, speed))
        for line in choice.lines(size, minutes):
            self.progress.say(line)
        return choice, size

    def _as_set(self, choice: Choice) -> Choice:
        """Return the choice with the epochs and layers that the settings of the caller name."""
        recipe, named = self.start.recipe, fields_of(self.settings)
        layers = choice.depth if recipe.tune.layers == "all" else recipe.tune.layers
        choice = replace(choice, epochs=recipe.train.epochs) if "train.epochs" in named else choice
        return replace(choice, layers=layers) if "tune.layers" in named else choice

    def run(self, choice: Choice, lines: tuple[str, str], work: Path, out: Path) -> Fitted:
        """Train and test the parts, and write the better model into the folder `out`."""
        parts = parts_of(self.examples, choice.parts, self.start.recipe.train.seed)
        tested, trained = [], []
        for number, part in enumerate(parts if choice.crossed else parts[:1], 1):
            label = f"part {number} of {len(parts)}" if choice.crossed else "training"
            prepared = self.start.prepare(part.train, work / f"start-{number}")
            run = self._train(prepared, choice, work / f"part-{number}", part, label)
            trained.append((run, prepared))
            tested.append(_tested(part.test, prepared, run))
        comparison, decision = self._compare(tested, trained[0][0], crossed=choice.crossed)
        if not comparison.better:
            reader = self.start.prepare(self.examples, work / "start").reader
            reader.save(out, weights=reader.trained.stored_precision)
        else:
            run, prepared = trained[0]
            if choice.crossed:
                prepared = self.start.prepare(self.examples, work / "start")
                run = self._train(prepared, choice, work / "all", Part(self.examples, []), "training on all parts")
            _move(run, prepared, decision, out)
        problems = [[str(one) for one in some] for some in (self.given.repaired, self.given.left_out)]
        fitted = Fitted(Run(out), not comparison.better, comparison, lines, *problems)
        write_json(out / "fit.json", fitted.to_json())
        return fitted

    def _train(self, prepared: Prepared, choice: Choice, folder: Path, part: Part, label: str) -> Run:
        recipe = _chosen(prepared.recipe, choice, self.settings, len(part.train))
        dev = part.test if part.test and not choice.crossed else None
        return train(recipe, folder, data=part.train, dev=dev, progress=_Labelled(self.progress, label))

    def _compare(self, tested: list[Any], run: Run, *, crossed: bool) -> tuple[Comparison, SpanDecision | None]:
        """Return the comparison, and the decision of the model to hand out; None for that of its run.

        In cross-validation, the decision of a part is fitted on the other parts, and the final one on all of them.
        """
        if isinstance(self.start, SentenceStart):
            return compare_sentences(tested, self.start.recipe.main.data.labels), None
        trained, across = self.start.reader.trained, self.start.recipe.answer.across
        before = trained.span_decision
        if not crossed:
            of_run = with_calibration_of(before, load(run.path, backend="torch").trained.span_decision)
            return compare_questions(tested, before, [of_run], across), of_run

        def fitted(parts: Sequence[HeldOutQuestions]) -> SpanDecision:
            predictions = [prediction for part in parts for prediction in part.after]
            return fit_decision(predictions, [e for part in parts for e in part.examples], before, across)

        own = [fitted([other for other in tested if other is not part]) for part in tested]
        return compare_questions(tested, before, own, across), fitted(tested)


def _columns(settings: Settings) -> ColumnOptions:
    """Return the columns of a table of sentences that the settings name."""
    prefix = "data.columns."
    given = fields_of(settings).items()
    named = {name.removeprefix(prefix): value for name, value in given if name.startswith(prefix)}
    known = {name: str(value) for name, value in named.items() if name in ColumnOptions.model_fields}
    return ColumnOptions(**known)  # the recipe reports unknown names


def _check_sentences(sentences: Sequence[Sentence]) -> None:
    """Raise LaminaError if there are too few rows to fit and to test a model."""
    labels = labels_in(str(sentence.label) for sentence in sentences)
    if labels.are_scores:
        if len(sentences) < FEWEST_SCORES:
            raise LaminaError(f"data: {len(sentences)} rows with scores are too few. Fix: give at least {FEWEST_SCORES}")
        return
    counts = Counter(str(sentence.label) for sentence in sentences)
    if len(counts) < 2:
        raise LaminaError(f"data: all labels are {min(counts)!r}. Fix: name the column of the labels with data.columns.label")
    label, count = min(counts.items(), key=lambda item: item[1])
    if count < FEWEST_A_CLASS:
        what = f"the class {label!r} has {count} rows, but fit needs {FEWEST_A_CLASS} of each class"
        raise LaminaError(f"data: {what}. Fix: add rows, or remove the class; name the labels with data.columns.label")


def _chosen(recipe: Recipe, choice: Choice, settings: Settings, examples: int) -> Recipe:
    """Return the recipe with the choice. Fields that the settings of the caller name stay as they are."""
    hidden = encoders.find(recipe.encoder).config.hidden
    sentences = next(iter(recipe.tasks.values())).head.kind == "sentences"
    values: dict[str, object] = {
        "data.holdout": 0.0 if choice.crossed else HELD_OUT,
        "tune.layers": "all" if choice.whole else choice.layers,
        "train.epochs": choice.epochs,
        "train.lr": float(f"{RATE * (384 / hidden) ** 0.5:.2g}"),
        "train.warmup": 0.1,
        "train.batch_windows": 16 if sentences or examples >= 2000 else 8,
        "train.evaluate_every": 0.5,
        "train.keep": "last" if choice.crossed else "best",
    }
    named = fields_of(settings)
    return parse_recipe(recipe.model_dump(mode="json"), {name: value for name, value in values.items() if name not in named})


def _tested(test: list[Any], prepared: Prepared, run: Run) -> HeldOutQuestions | HeldOutSentences:
    """Return the predictions of the start and of a trained run for held-out examples."""
    readers = prepared.reader, load(run.path, backend="torch")
    if isinstance(test[0], Example):
        return HeldOutQuestions(test, *(reader.predict(test) for reader in readers))
    tables = [reader.predictions(test, wanted=["predictions"])["predictions"] for reader in readers]
    return HeldOutSentences(test, *([table[sentence.id] for sentence in test] for table in tables))


def _move(run: Run, prepared: Prepared, decision: SpanDecision | None, out: Path) -> None:
    """Move a finished run to `out`, with the fitted head that it started from, and set its decision."""
    with suppress(OSError):
        out.rmdir()  # an empty folder
    try:
        run.path.replace(out)
    except OSError as error:
        raise LaminaError(f"{out}: cannot be written ({error.strerror}). Fix: name a new folder with --out") from None
    moved = Run(out)
    info = moved.read_info()
    recipe = parse_recipe(moved.read_recipe(), name=str(moved.recipe))
    ((task, options),) = recipe.tasks.items()
    first = options.head.start
    if first is not None and Path(first).parent == run.path.parent:  # a head that was fitted here
        Path(first).replace(out / "start")
        recipe = with_head(recipe, out / "start")
        moved.write_recipe(recipe.model_dump(mode="json"))
        info["heads"][task]["run"] = str(out / "start")
    below = encoders.folder_of(recipe.encoder.model)
    if below is not None:
        info["encoder"]["folder"] = os.path.relpath(below.resolve(), out.resolve())
    if decision is not None:
        info["tasks"] = decisions_json({prepared.reader.trained.span_task: decision})
    moved.finish(info)


class _Labelled:
    """Progress of one training of several: its bar has a label, and its lines are not shown."""

    def __init__(self, progress: Progress, label: str) -> None:
        self._progress, self._label = progress, label

    def start(self, label: str, total: int, done: int = 0) -> None:
        self._progress.start(self._label, total, done)

    def advance(self, amount: int, note: str = "") -> None:
        self._progress.advance(amount, note)

    def say(self, line: str) -> None: ...
