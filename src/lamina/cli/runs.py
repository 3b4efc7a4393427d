"""Commands that read finished runs: ensemble, average, compare, analyze, export."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from lamina.cli.app import DATA, OUTPUT, Json, ModelArgument, Pickle, TaskOption, load_model, print_json, print_scores
from lamina.errors import LaminaError

commands = typer.Typer()

DevSet = Annotated[
    str | None,
    typer.Option(
        "--data",
        help="Read the dev set from here. Without it: from where the recipe of the first run says.",
        rich_help_panel=DATA,
    ),
]


def above_zero(option: typer.CallbackParam, value: float | None) -> float | None:
    """Return the value of an option, or raise LaminaError if it is not a number above 0."""
    if value is not None and not 0 < value < math.inf:
        raise LaminaError(f"{option.opts[0]}: {value:g} is not a number above 0. Fix: give a margin, such as 0.5")
    return value


@commands.command()
def ensemble(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Finished runs that were scored on the same questions.")],
    out: Annotated[Path, typer.Option("--out", help="Write into this new folder.", rich_help_panel=OUTPUT)],
    how: Annotated[
        Literal["max", "mean"], typer.Option("--how", help="Combine the probabilities of the runs by this rule.")
    ] = "max",
    data: DevSet = None,
    as_json: Json = False,
) -> None:
    """Combine the saved outputs of several runs on their dev set into one prediction. No model is loaded."""
    from lamina.experiments.ensemble import ensemble
    from lamina.utils.progress import shown

    with shown() as progress:
        result = ensemble(runs, out, how=how, data=data, progress=progress)
    if as_json:
        print_json(result)
        return
    print_scores(result["scores"])
    if counts := result.get("counts"):
        print(f"{counts['wrong']} wrong, of which {counts['second_right']} have the right answer second")
    print(f"ensemble: {out}")


@commands.command()
def average(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Finished runs of one recipe; only the seed may differ.")],
    out: Annotated[Path, typer.Option("--out", help="Write into this new run folder.", rich_help_panel=OUTPUT)],
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            help="Fit the threshold on this data, which no run has seen. Without it: on what all runs held out.",
            rich_help_panel=DATA,
        ),
    ] = None,
    as_json: Json = False,
    allow_pickle: Pickle = False,
) -> None:
    """Average the weights of several runs into one run, and score it."""
    from lamina.experiments.average import average
    from lamina.utils.files import read_json
    from lamina.utils.progress import shown

    with shown() as progress:
        run = average(runs, out, data=data, progress=progress, allow_pickle=allow_pickle)
    info, scores = run.read_info(), read_json(run.scores) if run.scores.is_file() else {}
    if as_json:
        print_json({"run": str(out), "scores": scores, **{key: info[key] for key in ("tasks", "average")}})
        return
    if scores:
        print_scores(scores)
    print(f"run: {out}, the average of {len(runs)}")


@commands.command()
def compare(
    a: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run, or an ensemble.")],
    b: Annotated[Path, typer.Argument(metavar="RUN", help="A second one that was scored on the same questions.")],
    data: DevSet = None,
    metric: Annotated[Literal["f1", "exact"], typer.Option("--metric", help="Compare this official score of answers.")] = "f1",
    at: Annotated[
        Literal["tuned", "zero"], typer.Option("--at", help="Score at the threshold of each run, or at 0.")
    ] = "tuned",
    clusters: Annotated[
        Literal["context", "article", "question"],
        typer.Option("--clusters", help="Treat answers of one cluster as dependent on each other."),
    ] = "context",
    per: Annotated[
        Literal["context", "question"],
        typer.Option("--per", help="Score each context, or each question over all of its contexts."),
    ] = "context",
    equivalent_within: Annotated[
        float | None,
        typer.Option(
            "--equivalent-within",
            metavar="POINTS",
            callback=above_zero,
            help="Also test whether the two differ by less than so many points.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Test whether the second run is significantly better than the first, from their saved outputs."""
    from lamina.experiments.compare import compare, lines

    result = compare(a, b, data=data, metric=metric, at=at, clusters=clusters, per=per, equivalent_within=equivalent_within)
    if as_json:
        print_json(result)
    else:
        print("\n".join(lines(result)))


@commands.command()
def analyze(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Finished runs. Several runs must share a task and its dev set.")
    ],
    data: DevSet = None,
    task: TaskOption = None,
    plots: Annotated[
        Path | None,
        typer.Option(
            "--plots",
            metavar="DIR",
            help="Write pictures into this folder, as PNG and SVG (the extra plots). Without it: none.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show where runs are right and wrong, from their saved predictions. No model is run."""
    from dataclasses import asdict

    from lamina.experiments.analysis.pictures import draw
    from lamina.experiments.analysis.text import lines
    from lamina.experiments.analyze import analyze
    from lamina.utils.plots import check_plots

    if plots is not None:
        check_plots("--plots")
    result = analyze(runs, data=data, task=task)
    written = [] if plots is None else draw(result, plots)
    if as_json:
        print_json(asdict(result) | {"files": [str(path) for path in written]})
        return
    print("\n".join(lines(result)))
    if written:
        print(f"written: {', '.join(map(str, written))}")


@commands.command()
def export(
    model: ModelArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The new folder.")],
    to: Annotated[
        Literal["transformers", "int8", "onnx"],
        typer.Option(
            "--to",
            help="Write the format of transformers, a folder of Lamina with weights in 8 bits, or graphs for onnxruntime.",
            rich_help_panel=OUTPUT,
        ),
    ] = "transformers",
    int8: Annotated[
        bool, typer.Option("--int8", help="With --to onnx, also write graphs that compute in 8 bits.", rich_help_panel=OUTPUT)
    ] = False,
    calibrate: Annotated[
        str,
        typer.Option(
            "--calibrate",
            metavar="DATA|auto",
            help="With --int8, read ranges of values from this data. auto is the training data, or the bundled corpus.",
            rich_help_panel=DATA,
        ),
    ] = "auto",
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            help="With --int8, test on these questions whether the answers in 8 bits are equivalent. Without it: no test.",
            rich_help_panel=DATA,
        ),
    ] = None,
    as_json: Json = False,
    allow_pickle: Pickle = False,
) -> None:
    """Write a model as a folder that transformers or onnxruntime loads, or as a small folder for Lamina."""
    from lamina.reader.exporting import export_onnx
    from lamina.runs.export import export

    if to != "onnx" and (odd := [name for name, given in (("--int8", int8), ("--data", data)) if given]):
        raise LaminaError(f"{odd[0]}: is for --to onnx. Fix: leave it out, or add --to onnx")
    if data is not None and not int8:
        raise LaminaError("--data: tests graphs in 8 bits, but there are none. Fix: add --int8, or leave --data out")
    reader = load_model(model, "cpu", None, allow_pickle=allow_pickle, backend="torch")
    report: dict[str, Any] = {"out": str(out), "format": to}
    loads = "lamina.load"
    if to == "int8":
        reader.save(out, weights="int8")
    elif to == "onnx":
        report |= export_onnx(reader, out, int8=int8, calibrate=calibrate, data=data)
    else:
        loads = "AutoModelForQuestionAnswering.from_pretrained"
        export(reader.trained, out)
    if as_json:
        print_json(report)
        return
    print(f"{out}: {loads} loads it")
    if "equivalence" in report:
        print(report["equivalence"]["text"])
