"""Commands that train, and that estimate the cost of a run."""

from __future__ import annotations

import math
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lamina.cli.app import (
    OUTPUT,
    TRAINING,
    Json,
    RecipeArgument,
    Setting,
    Threads,
    end_interrupted,
    fail,
    memory_text,
    open_recipe,
    print_json,
    print_scores,
    source_lines,
)

if TYPE_CHECKING:
    from lamina.config.train_options import TrainOptions
    from lamina.training.cost_estimate import CostReport

commands = typer.Typer()


@commands.command()
def train(
    recipe: RecipeArgument,
    settings: Setting = [],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Write this run folder. Without it: runs/ and the last name of the recipe.", rich_help_panel=OUTPUT
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", metavar="", help="Continue a run that was stopped.", rich_help_panel=TRAINING)
    ] = False,
    track: Annotated[
        Literal["tensorboard"] | None,
        typer.Option("--track", help="Write the metrics for this dashboard too, into the run folder.", rich_help_panel=OUTPUT),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a recipe, score it and write a run folder."""
    from lamina.training import trainer
    from lamina.training.processes import joined
    from lamina.training.tracking import TensorBoard
    from lamina.utils.files import is_file
    from lamina.utils.progress import shown
    from lamina.utils.run_folder import complete_costs, read_object

    try:
        with joined() as group, shown() as progress:
            read = open_recipe(recipe, settings)
            folder = out or Path("runs") / Path(recipe).stem
            with TensorBoard(folder) if track else nullcontext() as on_metrics:
                run = trainer.train(read, folder, resume=resume, progress=progress, on_metrics=on_metrics)
    except KeyboardInterrupt as stop:  # the loop has saved its state
        end_interrupted(stop)
    if not group.first:
        return
    info = run.read_info()
    scores = read_object(run.scores) if is_file(run.scores) else {}
    costs = complete_costs(info.get("costs", {}))
    result = {"run": str(run.path), "scores": scores, "tasks": info.get("tasks", {}), "costs": costs}
    sources = info.get("sources", {})
    if sources:
        result["sources"] = sources
    if as_json:
        print_json(result)
        return
    if scores:
        print_scores(scores)
    for line in source_lines(sources):
        print(line)
    if scores.get("tuned", {}).get("HasAns_f1") == 0:
        what = 'the model answers none of the answerable questions, perhaps "no answer" to all'
        print(f"lamina: warning: {run.path}: {what}. Fix: train longer or on more questions", file=sys.stderr)
    seconds = costs["train_seconds"] or math.inf  # a run of 0 epochs trains in 0 seconds
    print(
        f"cost: {costs['train_seconds'] / 60:.1f} min of training on {costs['tokens']:,} tokens "
        f"({costs['tokens'] / seconds:,.0f} a second, "
        f"{100 * (1 - costs['read_seconds'] / seconds):.0f}% of the time computing), "
        f"{costs['store_seconds'] / 60:.1f} min of storing states and outputs of teachers, "
        f"{costs['evaluate_seconds'] / 60:.1f} min of evaluation{memory_text(costs)}"
    )
    print(f"run: {run.path}")


@commands.command()
def inspect(
    recipe: RecipeArgument,
    settings: Setting = [],
    f1: Annotated[
        float | None,
        typer.Option("--f1", help="Compute the efficiency for this F1. Without it: the F1 of the run.", rich_help_panel=OUTPUT),
    ] = None,
    plot_schedule: Annotated[
        bool, typer.Option("--plot-schedule", metavar="", help="Draw the learning rate over the run.", rich_help_panel=OUTPUT)
    ] = False,
    as_json: Json = False,
    threads: Threads = None,
) -> None:
    """Estimate what a recipe costs: parameters, work, memory and time. Needs no weights."""
    import torch

    from lamina.config.bundled import recipe_path, recipes_folder
    from lamina.config.parse import settings_of
    from lamina.training import cost_estimate as inspection

    if threads:
        torch.set_num_threads(threads)
    if f1 is None and not settings:
        f1 = inspection.f1_beside(recipe_path(recipe))
    read = open_recipe(recipe, settings)
    report = inspection.inspect(read, f1)
    if plot_schedule:
        planned = report["training"]
        epochs = (planned and planned["epochs"]) or read.train.epochs
        report["schedule"] = inspection.schedule_points(read.train, epochs)
    note = report.get("note")
    if as_json:
        print_json(report)
    else:
        _print_costs(report, read.train, f1)
    if note is None:
        return
    data_is_chosen = any(name.split(".")[-2:-1] == ["data"] or name == "data" for name, _ in settings_of(settings))
    if data_is_chosen or not recipe_path(recipe).is_relative_to(recipes_folder()):
        fail(f"lamina: {note}", 2)
    print(note, file=sys.stderr)  # the data of a recipe of Lamina need not be here


def _print_costs(report: CostReport, options: TrainOptions, f1: float | None) -> None:
    parameters = report["parameters"]
    print(f"parameters: {parameters['total']:,}, of which {parameters['trainable']:,} train")
    for part, count in parameters["by_part"].items():
        print(f"  {part}: {count:,}, of which {parameters['trainable_by_part'].get(part, 0):,} train")
    if f1 is not None:
        print(f"efficiency: {report['efficiency']:.2f} = (F1 {f1:.1f} - 50) / log10(trained parameters)")
    if training := report["training"]:
        planned_epochs = "as many" if training["epochs"] is None else training["epochs"]
        print(
            f"training: {training['questions']:,} questions, {training['windows']:,} windows, "
            f"{training['tokens_per_epoch']:,} tokens an epoch, {planned_epochs} epochs"
        )
        if store := training["store"]:
            beyond = "" if store["fits"] else ", more than cache.max_gb: the encoder will run live"
            print(f"store: {store['gb']:g} GB of layers {', '.join(map(str, store['layers']))} in {store['dtype']}{beyond}")
        if teachers := training["teachers"]:
            print(f"teachers: {teachers['runs']}, {teachers['flops'] / 1e12:,.1f} TFLOP once, {teachers['gb']:g} GB of outputs")
        print(
            f"work: {training['flops'] / 1e12:,.0f} TFLOP in the encoder, about {training['estimated_minutes']:g} minutes here"
        )
    print(f"memory: about {report['memory_mb']:,} MB besides the libraries")
    if schedule := report.get("schedule"):
        from lamina.utils.drawing import curve

        epochs = (training and training["epochs"]) or options.epochs
        print(f"schedule: {options.schedule}, the learning rate over {epochs:g} epochs")
        print("\n".join(curve([point["lr"] for point in schedule], options.lr)))
