"""Open the tasks of a finished run with the predictions that it saved, and the dev set that they are for.

Span tasks need no torch. The others parse the whole recipe, which imports torch, but no model is loaded or run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lamina.answers.decisions import SentenceDecision, read_decision
from lamina.answers.decode import Prediction
from lamina.answers.formats import predictions_of
from lamina.answers.saved_outputs import load_arrays
from lamina.answers.sentences import ItemOutputs, ScoreMap
from lamina.data.examples import Example, Sentence
from lamina.data.labels import Labels
from lamina.data.tokenizer import Tokenizer
from lamina.errors import LaminaError
from lamina.runs.scored_run import ScoredRun, same_questions
from lamina.tasks.kind import FileCache
from lamina.tasks.registry import kind_of
from lamina.tasks.sentences import score_map
from lamina.utils.run_folder import Run, read_object

_AGAIN = "copy or train the run again"


@dataclass(frozen=True)
class SavedSpans:
    """The predictions of a span task, in the order of the examples."""

    scored: ScoredRun
    examples: Sequence[Example]
    nbest: Mapping[str, object]
    predictions: Sequence[Prediction]


@dataclass(frozen=True)
class SavedAnswerability:
    """The probabilities that questions have no answer, in the order of the examples."""

    examples: Sequence[Example]
    impossible: Sequence[float]


@dataclass(frozen=True)
class SavedSentences:
    """The predictions of a sentence task, in the order of the sentences: names of classes, or scores."""

    examples: Sequence[Sentence]
    labels: Labels
    threshold: float
    score_map: ScoreMap
    outputs: ItemOutputs
    predictions: Sequence[str | float]


SavedTask = SavedSpans | SavedAnswerability | SavedSentences


def open_tasks(path: Path, *, data: str | None = None, task: str | None = None) -> dict[str, SavedTask]:
    """Return the tasks of a finished run by name, or only `task`. `data` names the dev set of the one task to open.

    Raises LaminaError if a task saved no outputs, or if they are not for the dev set.
    """
    run = Run.open(path)
    types = _types(run)
    if task is not None and task not in types:
        raise LaminaError(f"--task: {path} has no task {task!r}. Fix: choose one of {', '.join(types)}")
    names = list(types) if task is None else [task]
    if data is not None and len(names) > 1:
        raise LaminaError(f"--data: {path} has {len(names)} tasks ({', '.join(names)}). Fix: choose one of them with --task")
    return {name: _open(run, name, types[name], data) for name in names}


def _types(run: Run) -> dict[str, str]:
    """Return the kind of each task, as its decision names it."""
    tasks = run.read_info().get("tasks")
    if not isinstance(tasks, Mapping) or not tasks or not all(isinstance(one, Mapping) for one in tasks.values()):
        raise LaminaError(f"{run.info}: tasks is not a table of decisions. Fix: {_AGAIN}")
    return {name: str(decision.get("type")) for name, decision in tasks.items()}


def _open(run: Run, name: str, kind: str, data: str | None) -> SavedTask:
    if kind == "spans":
        return _spans(run, name, data)
    if kind not in ("answerability", "sentences"):
        raise LaminaError(f"{run.path}: the task {name} is of kind {kind!r}, which has no analysis. Fix: choose another task")
    return _other(run, name, data)


def _spans(run: Run, name: str, data: str | None) -> SavedSpans:
    scored = ScoredRun.open(run.path, name)
    examples = same_questions([scored], data)
    nbest = read_object(scored.saved.nbest)
    found = predictions_of(nbest)
    ids = [example.id for example in examples]
    _check_complete(scored.saved.nbest, ids, found)
    return SavedSpans(scored, examples, nbest, [found[question] for question in ids])


def _other(run: Run, name: str, data: str | None) -> SavedAnswerability | SavedSentences:
    """Return a task of answerability or of sentences."""
    from lamina.config.parse import parse_recipe

    recipe = parse_recipe(read_object(run.recipe), name=str(run.recipe))
    if name not in recipe.tasks:
        raise LaminaError(f"{run.recipe}: has no task {name!r}, but {run.info.name} has. Fix: {_AGAIN}")
    task, saved = recipe.tasks[name], run if len(recipe.tasks) == 1 else run.task(name)
    if data is not None:
        task = task.model_copy(update={"data": task.data.model_copy(update={"dev": data, "dev_every": None})})
    outputs, fingerprint = load_arrays(saved)
    kind = kind_of(task)
    examples = kind.dev(task, FileCache())
    if kind.windows(examples, Tokenizer(run.tokenizer), task, recipe.window).fingerprint != fingerprint:
        where = task.data.dev or task.data.train_name
        raise LaminaError(f"{run.path}: was not scored on the present examples of {where}. Fix: name its dev set with --data")
    found = read_object(saved.predictions)
    ids = [example.id for example in examples]
    _check_complete(saved.predictions, ids, found)
    values = [found[one] for one in ids]
    if task.head.kind == "answerability":
        return SavedAnswerability(examples, values)
    decision = read_decision(SentenceDecision, run.read_info().get("tasks"), name, str(run.info))
    return SavedSentences(examples, task.data.labels, decision.threshold, score_map(task), outputs, values)


def _check_complete(file: Path, ids: Sequence[str], found: Mapping[str, object]) -> None:
    absent = [one for one in ids if one not in found]
    if absent:
        raise LaminaError(
            f"{file}: has no predictions for {len(absent)} of {len(ids)} examples (first id {absent[0]}). Fix: {_AGAIN}"
        )
