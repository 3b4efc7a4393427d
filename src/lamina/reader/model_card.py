"""The model card of a trained model: the README.md that the hub shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from lamina.answers.decisions import Decision, SentenceDecision, SpanDecision
from lamina.data.sources import BUNDLED, hub_dataset
from lamina.data.training_sets import TrainingSet
from lamina.tasks.kind import ScoreTable
from lamina.tasks.registry import kind_of
from lamina.tasks.sentences import SENTENCES
from lamina.tasks.spans import SPANS

if TYPE_CHECKING:  # a recipe imports torch, a model card does not
    from lamina.config.data_options import DataOptions
    from lamina.config.recipe import Recipe, TaskOptions

MINILM = "sentence-transformers/all-MiniLM-L6-v2"  # the name on the hub of the default encoder
_METRICS = {  # score in scores.json -> (metric of the hub, name in the card)
    "exact": ("exact_match", "exact match"),
    "f1": ("f1", "F1"),
    "accuracy": ("accuracy", "accuracy"),
    "macro_f1": ("f1", "macro-F1"),
    "pearson": ("pearsonr", "Pearson correlation"),
    "spearman": ("spearmanr", "Spearman correlation"),
}


def model_card(
    recipe: Recipe,
    scores: ScoreTable | None,
    *,
    name: str,
    parameters: int,
    version: str,
    license: str | None = None,
    decisions: Mapping[str, Decision] | None = None,
) -> str:
    """Return the text of README.md, with the YAML front matter of the hub.

    Args:
        recipe: The recipe that the model was trained with.
        scores: The content of scores.json; None if the run was not scored.
        name: What `lamina.load` takes to load the model: a hub id or a folder.
        parameters: The number of parameters of the model.
        version: The version of Lamina that wrote the folder.
        license: The license of the model, as the hub abbreviates it; None leaves it out.
        decisions: The decision of each task; a missing one was not fitted.
    """
    from huggingface_hub import EvalResult, ModelCardData

    rows = list(_score_rows(recipe, scores or {}))
    names = [one.name for task in recipe.tasks.values() for one in task.data.sets]
    named = [name for name in names if name and not is_own_file(name)]
    datasets = dict.fromkeys(map(dataset_name, named))
    results = [
        EvalResult(
            task_type=_tag(recipe.tasks[task]),
            dataset_type=dataset_name(_dev(recipe.tasks[task])),
            dataset_name=dataset_name(_dev(recipe.tasks[task])),
            metric_type=_METRICS[key][0],
            metric_name=_METRICS[key][1],
            metric_value=round(value, 4),
        )
        for task, key, value in rows
    ]
    base = MINILM if recipe.encoder.model == "minilm" else recipe.encoder.model
    front = ModelCardData(
        library_name="lamina",
        pipeline_tag=_tag(next(iter(recipe.tasks.values()))),
        license=license,
        base_model=base if re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", base) else None,
        datasets=list(datasets) or None,
        metrics=list(dict.fromkeys(_METRICS[key][0] for _, key, _ in rows)) or None,
        model_name=PurePosixPath(name).name,
        eval_results=results or None,
    )
    parts = [
        f"---\n{front.to_yaml()}\n---",
        f"# {PurePosixPath(name).name}",
        _what(recipe, parameters, version),
        "## How to use it",
        f"```python\n{_usage(recipe, name)}\n```",
        "## Training data",
        _training_data(recipe, decisions or {}),
        "## Scores",
        _score_text(recipe, rows),
        "## Limits",
        _limits(recipe, decisions or {}),
    ]
    return "\n\n".join(parts) + "\n"


def dataset_name(data: str) -> str:
    """Return the name of a dataset without its split, folder or ending.

    >>> [dataset_name(data) for data in ("fables/train", "owner/name/config:dev", "hub:owner/name/dev.json", "/me/my.csv.gz")]
    ['fables', 'owner/name', 'owner/name', 'my']
    """
    if data in BUNDLED:
        return data.rpartition("/")[0].replace("/", "-")  # with a slash, the hub would link to a stranger's dataset
    if (repository := hub_dataset(data)) is not None:
        return repository
    return PurePosixPath(data.replace("\\", "/")).name.partition(".")[0]


def is_own_file(data: str) -> bool:
    """Return whether data is a file of the user, which no one else can load by its name.

    >>> [is_own_file(data) for data in ("fables/train", "owner/name:dev", "squad2-train", "my.csv", "data/train")]
    [False, False, False, True, True]
    """
    known = data in BUNDLED or hub_dataset(data) is not None
    return not known and (PurePosixPath(data).suffix != "" or any(sign in data for sign in "/\\:"))


def _dev(task: TaskOptions) -> str:
    return task.data.dev or task.data.train_name


def _tag(task: TaskOptions) -> str:
    """Return the kind of task as the hub names it."""
    if kind_of(task) is SPANS:
        return "question-answering"
    return "sentence-similarity" if kind_of(task) is SENTENCES and task.data.labels.are_scores else "text-classification"


def _what(recipe: Recipe, parameters: int, version: str) -> str:
    tasks = ", ".join(f"`{name}` ({task.head.type} head)" for name, task in recipe.tasks.items())
    encoder = PurePosixPath(recipe.encoder.model.replace("\\", "/")).name
    return (
        f"A model of Lamina {version} (`pip install lamina-qa`).\n"
        f"It has {parameters:,} parameters. Its encoder is {encoder}. Its tasks: {tasks}."
    )


def _usage(recipe: Recipe, name: str) -> str:
    lines = ["import lamina", "", f"reader = lamina.load({json.dumps(name, ensure_ascii=False)})"]
    kinds = {kind_of(task) for task in recipe.tasks.values()}
    if SPANS in kinds:
        lines += [
            'reply = reader.answer("Who built the mill?", "The mill was built by Ada Thorn in 1820.")',
            "print(reply)  # a quoted span or no answer, with its confidence",
        ]
    elif any(_tag(task) == "sentence-similarity" for task in recipe.tasks.values()):
        lines += ['print(reader.similarity("A heron sleeps.", "A bird is asleep."))']
    else:
        task = json.dumps(next(iter(recipe.tasks)), ensure_ascii=False)
        lines += [f'print(reader.predictions("data.csv", task={task})["predictions"])  # by the id of each row']
    return "\n".join(lines)


def is_calibrated(decision: Decision | None) -> bool:
    """Return whether a decision was calibrated after training."""
    return isinstance(decision, SpanDecision) and decision.calibrated is not None


def _is_fitted(decision: Decision | None) -> bool:
    """Return whether a decision was fitted. A fit that finds the default threshold stores the share of its questions."""
    if isinstance(decision, SpanDecision):
        return decision.fitted or decision.unanswerable is not None
    return isinstance(decision, SentenceDecision) and decision != SentenceDecision()


def _training_data(recipe: Recipe, decisions: Mapping[str, Decision]) -> str:
    lines = []
    for name, task in recipe.tasks.items():
        if not task.data.train:
            return "Lamina does not know the training data."
        held_out = _held_out(task.data, decisions.get(name))
        lines.append(f"- `{name}`: {'; '.join(map(_described, task.data.sets))}. {held_out}")
    return "\n".join([*lines, f"\nThe seed was {recipe.train.seed}. `recipe.json` has all settings."])


def _held_out(data: DataOptions, decision: Decision | None) -> str:
    """Return what was held out, and what for. `lamina fit` fits a decision in cross-validation, then trains on everything."""
    fitted, calibrated = _is_fitted(decision), is_calibrated(decision)
    if data.holds_out:
        decided = " and to fit the decision" if fitted and not calibrated else ""
        which = f"{data.holdout:.0%} were" if data.held_out is None else f"The set {dataset_name(data.held_out)} was"
        return f"{which} held out to choose the checkpoint{decided}."
    last = "Nothing was held out, so the last step was kept"
    if calibrated:
        return f"{last}."
    decided = (
        ". The decision was fitted on examples that other trainings held out" if fitted else " and the decision has its default"
    )
    return f"{last}{decided}."


def _described(one: TrainingSet) -> str:
    """Return the name of a training set, with what was taken from it."""
    own = "a file of the author, " if is_own_file(one.name) else ""
    limits = [f"{one.share:.0%} of its questions"] if one.share is not None else []
    limits += [f"at most {one.questions:,} questions"] if one.questions is not None else []
    limits += [f"{one.repeat} times an epoch"] if one.repeat > 1 else []
    return f"{own}{dataset_name(one.name)}" + (f" ({', '.join(limits)})" if limits else "")


def _score_rows(recipe: Recipe, scores: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Yield the task, the name and the value of each score; span scores at the tuned threshold."""
    tables = {next(iter(recipe.tasks)): scores} if len(recipe.tasks) == 1 else scores
    for task, table in tables.items():
        if task in recipe.tasks:
            table = table.get("tuned", table)
            for key in _METRICS:
                if isinstance(table.get(key), int | float):
                    yield task, key, float(table[key])


def _score_text(recipe: Recipe, rows: list[tuple[str, str, float]]) -> str:
    if not rows:
        return "Lamina did not measure any."
    lines = ["| task | dev set | score | value |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {task} | {dataset_name(_dev(recipe.tasks[task]))} | {_METRICS[key][1]} | {value:.2f} |" for task, key, value in rows
    ]
    return "\n".join([*lines, "\nNothing was fitted on the dev set. `scores.json` has all scores."])


def _limits(recipe: Recipe, decisions: Mapping[str, Decision]) -> str:
    lines = [
        f"- A window has at most {recipe.window.length} tokens; longer texts are read in several windows.",
        "- The scores hold for texts like those of the training data. Measure the model on your own texts first.",
    ]
    if spans := [decisions.get(name) for name, task in recipe.tasks.items() if kind_of(task) is SPANS]:
        lines.append("- An answer is a quoted span of the text. The model does not compute, combine or translate.")
        threshold = "was fitted on held-out questions" if all(map(_is_fitted, spans)) else "was not fitted on any text"
        threshold = "was calibrated after training, with `lamina calibrate`" if any(map(is_calibrated, spans)) else threshold
        lines.append(f"- The threshold for no answer {threshold}. Other texts may need another one.")
    return "\n".join(lines)
