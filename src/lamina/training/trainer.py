"""Train a recipe and write its run folder."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import save_file

from lamina.augment.synonyms import synonyms_file
from lamina.config.build import build_losses, build_model, make_optimizer
from lamina.config.head_start import described, start_heads
from lamina.config.parse import Settings, parse_recipe, read_recipe, settings_of
from lamina.config.recipe import Recipe
from lamina.config.train_options import choose_device, choose_precision
from lamina.encoder import load as encoders
from lamina.encoder.files import sha256_of
from lamina.errors import LaminaError
from lamina.model import Model
from lamina.model.weights import trained_weights
from lamina.objectives import Remembers
from lamina.tasks.checks import build_on_meta, resolved
from lamina.tasks.kind import DataLike, FileCache
from lamina.tasks.registry import kind_of
from lamina.training.checkpoint import State
from lamina.training.compiling import compile_layers
from lamina.training.cost_estimate import count_parameters
from lamina.training.datasets import TrainingData, language_of_texts, load_data
from lamina.training.given_data import GivenData, with_data
from lamina.training.learning_curves import LearningCurves, draw_curves
from lamina.training.loop import Evaluations, Optimisation, fit
from lamina.training.plan import evaluation_points
from lamina.training.processes import ALONE, Group, check_divisible, check_same, joined
from lamina.training.recording import Follower, OnMetrics, Recorder
from lamina.training.resuming import check_recipe, check_unchanged
from lamina.training.run_warnings import warn_of_late_terms, warn_of_small_data, warn_of_spent_time
from lamina.training.steps import checkpoint_names, curve_points, make_plan, make_step
from lamina.training.store_policy import with_stores
from lamina.training.task_group import TaskGroup, decisions_json
from lamina.training.teachers import NO_TEACHERS, Teachers, described_teachers, find_teachers, with_teachers
from lamina.utils.files import (
    expanded,
    is_file,
    is_folder,
    make_folder,
    read_bytes,
    remove_drafts,
    replacing,
    write_atomically,
    write_json,
)
from lamina.utils.locks import alone, foreign
from lamina.utils.memory import limit_kernels, peak_memory
from lamina.utils.progress import Progress, Silent
from lamina.utils.run_folder import FORMAT, Run, RunInfo, versions
from lamina.utils.shipped import SHIPPED

Watch = Callable[[float, float], bool]  # (share of the steps done, score on the held-out splits) -> whether to stop


class Calls(NamedTuple):
    """The functions of the caller that a training calls."""

    watch: Watch | None = None
    on_metrics: OnMetrics | None = None


NO_CALLS = Calls()


def train(
    recipe: Recipe | str | Path,
    out: str | Path,
    *,
    data: DataLike | Mapping[str, DataLike] | None = None,
    dev: DataLike | Mapping[str, DataLike] | bool | None = True,
    settings: Settings = (),
    resume: bool = False,
    progress: Progress | None = None,
    watch: Watch | None = None,
    on_metrics: OnMetrics | None = None,
    **overrides: object,
) -> Run:
    """Train a recipe and return its run folder: weights, scores on the dev set, predictions and costs.

    Rows in memory are written into the folder `data` of the run, so that the run can be resumed and reproduced.

    >>> rows = [{"question": "Who built it?", "context": "Ada built it.", "answer": "Ada"}]
    >>> run = train("quickstart", "runs/mine", data=rows, **{"train.epochs": 2})  # doctest: +SKIP

    Args:
        recipe: A recipe, the path of one, or the name of one that comes with Lamina.
        out: The run folder to write. It must not exist unless `resume` is set.
        data: The training data instead of that of the recipe: a file name or dataset name, a list of dicts, a pandas
            DataFrame, a `datasets.Dataset` or a list of `Example`. For several tasks, a mapping from task to data. For several
            sets of a task, use `settings`: ``{"data.train": ["a.csv", "b.csv"]}``.
        dev: The dev set instead of that of the recipe, as `data`. True scores the dev set of the recipe, unless `data` is
            given. None or False reads no dev set.
        settings: Changes of the recipe: ``{"train.epochs": 0.5}``, or texts such as ``"train.epochs=0.5"``. None removes a
            field, so that its default applies.
        resume: Continue a run that was stopped or killed.
        progress: Where progress goes; nowhere if None.
        watch: Called after each evaluation with the share of the run that is done, from 0 to 1, and the score on the
            held-out split, in percent. True stops the run there.
        on_metrics: Called with each entry of metrics.jsonl when it is written: "step" with "loss", "lr" and "norm" of a step,
            or with the scores of an "evaluation" or of a "curve". A resumed run repeats the entries after its checkpoint.
        **overrides: More changes of the recipe, by names with dots: ``**{"train.epochs": 0.5}``. Type checkers accept a
            ``dict[str, Any]`` here; `settings` takes any mapping.

    Returns:
        The paths of the run folder. `lamina.load` takes ``run.path``.

    Raises:
        LaminaError: There is a mistake in the recipe, in the data, or in `out`.
        TypeError: An argument has the wrong type, or an override has no dot in its name.
    """
    progress = progress or Silent()
    limit_kernels()
    recipe = _changed_recipe(recipe, settings, overrides)
    if not isinstance(out, str | Path):
        raise TypeError(f"out must be the path of a folder, not {type(out).__name__}")
    run = Run(expanded(out))
    dev = dev is not None and dev
    named = {name.strip() for name, _ in [*settings_of(settings), *overrides.items()]}
    given = with_data(recipe, run, data, dev, keep_held_out=any(name.endswith("data.held_out") for name in named))
    calls = Calls(watch, on_metrics)
    with joined() as group, ExitStack() as held:
        group.once(partial(_hold, held, run, given, resume=resume))
        shown = progress if group.first else Silent()
        return _train(given.recipe, run, progress=shown, calls=calls, dev=dev is not False, group=group)


def _hold(held: ExitStack, run: Run, given: GivenData, *, resume: bool) -> None:
    """Lock the folder of a run and write its rows, until `held` closes."""
    _check_folder(run, resume=resume)
    left = is_folder(run.data)
    held.enter_context(alone(run.path))
    if left and not is_file(run.recipe):
        shutil.rmtree(run.data)  # rows of a killed process
    held.enter_context(given.stored(run))


def _changed_recipe(recipe: Recipe | str | Path, settings: Settings, overrides: Mapping[str, object]) -> Recipe:
    """Return the recipe with all changes of the caller."""
    if odd := [name for name in overrides if "." not in name]:
        raise TypeError(f"train() got an unexpected keyword argument {odd[0]!r}")
    changes = [*settings_of(settings), *settings_of(overrides)]
    if not isinstance(recipe, Recipe | str | Path):
        raise TypeError(f"recipe must be a Recipe, a path or a name, not {type(recipe).__name__}")
    if not isinstance(recipe, Recipe):
        return read_recipe(recipe, changes)
    return parse_recipe(recipe.model_dump(mode="json"), changes) if changes else recipe


def _train(recipe: Recipe, run: Run, *, progress: Progress, calls: Calls, dev: bool, group: Group) -> Run:
    """Train in a folder that is locked for the first process."""
    files = FileCache()
    recipe = resolved(recipe, files)
    check_recipe(run, recipe)
    if group.once(lambda: run.finished):
        progress.say(f"{run.path}: this run is already finished")
        return run
    source = encoders.find(recipe.encoder)
    check_divisible(group, recipe, build_on_meta(recipe, source))
    device = group.device(choose_device(recipe.train.device))
    group.once(partial(remove_drafts, run.path))
    teachers = NO_TEACHERS if recipe.train.untrained else find_teachers(recipe, encoders.load_tokenizer(source))
    data = load_data(recipe, source, files, progress, dev=dev)
    del files  # frees the examples that are in no split
    train_on(data, recipe, run, device, progress, calls, teachers, group)
    return run


def train_on(
    data: TrainingData,
    recipe: Recipe,
    run: Run,
    device: torch.device,
    progress: Progress,
    calls: Calls = NO_CALLS,
    teachers: Teachers = NO_TEACHERS,
    group: Group = ALONE,
) -> None:
    """Train on data that is already read, from the folder's checkpoint if it has one. Write the run."""
    tasks = TaskGroup(recipe, data.tokenizer)
    group.once(lambda: run.write_recipe(recipe.model_dump(mode="json")))
    model, state, data = _fit(run, recipe, data, teachers, tasks, device, progress, calls, group)
    group.once(partial(_finish, run, recipe, data, tasks, model, state, progress))


def _fit(
    run: Run,
    recipe: Recipe,
    data: TrainingData,
    teachers: Teachers,
    tasks: TaskGroup,
    device: torch.device,
    progress: Progress,
    calls: Calls,
    group: Group,
) -> tuple[Model, State, TrainingData]:
    """Return the model with the chosen weights, the state after the last step, and the data with its stores."""
    options = recipe.train
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)  # for random initial weights
    model = build_model(recipe, encoders.load(data.source)).to(device)
    model.precision = choose_precision(options.score_precision, device)
    if options.compile:
        compile_layers(model.encoder)
    heads = start_heads(recipe, model)
    optimizer = make_optimizer(model, options)
    losses = build_losses(recipe)
    memories = [term for loss in losses.values() for term in loss.terms if isinstance(term, Remembers)]
    info = _describe(recipe, data, device)
    info["parameters"], info["heads"], info["teachers"] = count_parameters(model), heads, described_teachers(teachers)
    for name, head in heads.items():
        progress.say(described(name, head))
    if group.size > 1:
        info["processes"] = group.size
    begun = run.read_info() if run.exists else None
    if begun is not None:
        check_unchanged(run, begun, info)
    recorder: Recorder | Follower
    if group.first:
        recorder = Recorder(run.metrics, run.checkpoint, model, optimizer, memories, calls.on_metrics)
    else:
        recorder = Follower(run.checkpoint, model, optimizer, memories)
    check_same(group, _shared_facts(info, recorder.state))
    began = time.monotonic()
    if not options.untrained:
        extend = partial(_with_stored, recipe, teachers, model, data, device, progress)
        data = group.in_turn(extend)
    stored_in = time.monotonic() - began
    recorder.state.costs.store_seconds += stored_in
    if begun is not None and "steps" not in begun:
        raise LaminaError(f"{run.info}: steps is missing. Fix: copy the run folder again, or delete it to train from the start")
    known = begun["steps"] if begun else None
    if known is None:
        warn_of_spent_time(options.minutes, stored_in)
    _say_planning(recipe, known, progress)
    plan = make_plan(options, data.train, model, losses, data.holdout, known, spent=stored_in)
    warn_of_late_terms(memories, len(plan))
    warn_of_small_data(recipe, data, len(plan))
    info["steps"] = len(plan)
    group.once(partial(write_json, run.info, info))
    points = evaluation_points(plan, plan.epoch_items, options.evaluate_every)
    after: dict[int, list[Callable[[], None]]] = defaultdict(list)
    for step, name in checkpoint_names(options, plan).items():
        folder = Run(run.path / "checkpoints" / name)
        after[step].append(partial(_write_checkpoint, folder, recipe, data, tasks, model, info, recorder.state))
    if options.curves:
        curves = LearningCurves(recipe, data, tasks, losses)
        for step, epochs in curve_points(options, plan).items():
            after[step].append(partial(curves.record, model, recorder, epochs))
    evaluations = Evaluations(
        partial(tasks.evaluate, datasets=data.holdout, losses=losses),
        at=points if any(dataset.examples for dataset in data.holdout.values()) else set(),
        stop=calls.watch,
        after=after,
    )
    whole = {name for name, loss in losses.items() if loss.joint}
    with recorder:
        state = fit(
            Optimisation(model, losses, optimizer, options, choose_precision(options.precision, device)),
            [(epoch, partial(make_step, data.train, turn, options.memory_tokens, group, whole)) for epoch, turn in plan],
            evaluations,
            recorder,
            progress,
            group,
        )
    return model, state, data


def _with_stored(
    recipe: Recipe, teachers: Teachers, model: Model, data: TrainingData, device: torch.device, progress: Progress
) -> TrainingData:
    """Return the data with the stored states of frozen layers, and with the stored outputs of the teachers."""
    return with_teachers(recipe, teachers, with_stores(recipe, model, data, progress), device, progress)


def _shared_facts(info: RunInfo, state: State) -> dict[str, object]:
    """Return what must be equal in all processes of a training."""
    return {
        "the version of Lamina or of torch": info["versions"],
        "the checksum of the encoder": info["encoder"]["sha256"],
        "the checksum of the training texts": info["windows"],
        "the checksum of the synonyms": info["synonyms"],
        "the checksum of head.start": info["heads"],
        "the checksum of a teacher": info["teachers"],
        "the step of the checkpoint": state.step,
    }


def _say_planning(recipe: Recipe, known_steps: int | None, progress: Progress) -> None:
    """Say why the first step may take minutes to begin."""
    if any(task.augment.per_epoch for task in recipe.tasks.values()):
        progress.say("planning: augmenting the texts of every epoch once, to count its steps")
    if recipe.train.minutes is not None and known_steps is None:
        progress.say("planning: measuring the speed, to find the steps that fit into train.minutes")


def _finish(
    run: Run, recipe: Recipe, data: TrainingData, tasks: TaskGroup, model: Model, state: State, progress: Progress
) -> None:
    """Write the model, its decisions, scores and costs. The last file is run.json, which marks the run as finished."""
    decisions, sources = tasks.fit_and_score(model, data.holdout)
    costs = vars(state.costs) | peak_memory()
    began = time.monotonic()
    tasks.score(run, model, data.dev, decisions, progress)
    if any(dataset.examples for dataset in data.dev.values()):
        costs["dev_seconds"] = time.monotonic() - began
    if recipe.train.curves:
        draw_curves(run, recipe, progress)
    info = run.read_info()
    info["tasks"] = decisions_json(decisions)
    info["score"] = state.best_score if math.isfinite(state.best_score) else None
    info |= {"sources": sources} if sources else {}
    info["chosen_step"] = state.best_step if state.best else state.step
    info["stopped_early"] = state.stopped
    info["costs"] = costs
    write_run(run, recipe, data, model, info)
    run.checkpoint.unlink(missing_ok=True)


def _write_checkpoint(
    run: Run, recipe: Recipe, data: TrainingData, tasks: TaskGroup, model: Model, info: RunInfo, state: State
) -> None:
    """Write the model within a run as a run of its own, with its decisions and the outputs of its dev set."""
    began = time.monotonic()
    make_folder(run.path)
    remove_drafts(run.path)
    model.eval()
    decisions = tasks.fit(model, data.holdout)
    if recipe.train.checkpoint_outputs:
        tasks.score(run, model, data.dev, decisions, Silent())  # the progress stays that of the training
    state.costs.evaluate_seconds += time.monotonic() - began
    write_run(run, recipe, data, model, {**info, "tasks": decisions_json(decisions), "chosen_step": state.step})


def write_run(run: Run, recipe: Recipe, data: TrainingData, model: Model, info: RunInfo) -> None:
    """Write the files of a finished run. If the encoder can be loaded again, only the trained weights are written.

    The next version of Lamina may ship other weights. So a run that starts from a shipped model keeps all of them.
    """
    make_folder(run.path)
    lasts = data.source.weights and recipe.encoder.model not in SHIPPED
    weights = trained_weights(model) if lasts else dict(model.state_dict())
    with replacing(run.model) as temporary:
        save_file({name: value.detach().contiguous() for name, value in weights.items()}, temporary)
    run.write_recipe(recipe.model_dump(mode="json"))
    write_json(run.encoder, data.source.config.to_json())
    write_atomically(run.tokenizer, read_bytes(data.source.tokenizer))
    if (folder := encoders.folder_of(recipe.encoder.model)) is not None:
        below = os.path.relpath(folder.resolve(), run.path.resolve())  # so a folder of runs can be moved
        info = {**info, "encoder": {**info["encoder"], "folder": below}}
    run.finish(info)


def _check_folder(run: Run, *, resume: bool) -> None:
    """Raise LaminaError if a run would overwrite something."""
    if not is_file(run.recipe):
        if foreign(run.path, killed=(run.data.name,)):
            raise LaminaError(f"{run.path}: already exists and is not a run of Lamina. Fix: use another folder")
        return
    if not resume:
        fix = "use --resume (resume=True) to continue it, use another folder, or delete this one"
        raise LaminaError(f"{run.path}: already has a run. Fix: {fix}")


def _describe(recipe: Recipe, data: TrainingData, device: torch.device) -> RunInfo:
    edas = [task.augment.eda for task in recipe.tasks.values()]
    return {
        "format": FORMAT,
        "versions": versions(),
        "seed": recipe.train.seed,
        "encoder": {"name": data.source.name, "sha256": encoders.digest(data.source)},
        "synonyms": [sha256_of(synonyms_file(eda.synonyms)) for eda in edas if eda is not None and eda.synonyms],
        "windows": [one.windows.fingerprint for split in (data.train, data.holdout) for one in split.values()],
        "language": language_of_texts(data.train),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "tasks": decisions_json({name: kind_of(task).decision() for name, task in recipe.tasks.items()}),
    }
