"""Commands about finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from lamina.cli.app import Json, ModelArgument, Pickle, load_model, print_json, print_scores

commands = typer.Typer()


@commands.command()
def ensemble(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Finished runs, scored on the same questions.")],
    out: Annotated[Path, typer.Option("--out", help="The new folder.")],
    how: Annotated[Literal["max", "mean"], typer.Option("--how", help="Of the runs' probabilities.")] = "max",
    data: Annotated[
        str | None, typer.Option("--data", help="The runs' dev set, if it is not where the first run's recipe says.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Let several runs answer their dev set together, from what they saved: no model is loaded."""
    from lamina.experiments.ensemble import ensemble
    from lamina.utils.progress import shown

    with shown() as progress:
        result = ensemble(runs, out, how=how, data=data, progress=progress)
    if as_json:
        print_json(result)
        return
    print_scores(result["scores"])
    counts = result["counts"]
    print(f"{counts['wrong']} wrong, of which {counts['second_right']} have the right answer second")
    print(f"ensemble: {out}")


@commands.command()
def average(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Finished runs of one recipe, apart from the seed.")],
    out: Annotated[Path, typer.Option("--out", help="The new run folder.")],
    data: Annotated[
        str | None,
        typer.Option("--data", help="Questions that no run has seen, to tune the threshold on, in place of what all held out."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Average the weights of several runs into one run, and score it."""
    from lamina.experiments.average import average
    from lamina.utils.files import read_json
    from lamina.utils.progress import shown

    with shown() as progress:
        run = average(runs, out, data=data, progress=progress)
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
    b: Annotated[Path, typer.Argument(metavar="RUN", help="Another, scored on the same questions. Is it better?")],
    data: Annotated[
        str | None, typer.Option("--data", help="Their dev set, if it is not where the first run's recipe says.")
    ] = None,
    metric: Annotated[Literal["f1", "exact"], typer.Option("--metric", help="The official score to compare.")] = "f1",
    at: Annotated[Literal["tuned", "zero"], typer.Option("--at", help="Their own thresholds for no answer, or 0.")] = "tuned",
    clusters: Annotated[
        Literal["context", "article", "question"],
        typer.Option("--clusters", help="Answers that depend on each other."),
    ] = "context",
    per: Annotated[
        Literal["context", "question"],
        typer.Option("--per", help="Of questions with several contexts: score each context, or the question over all of them."),
    ] = "context",
    as_json: Json = False,
) -> None:
    """Say whether the second run is better than the first, or whether it may be chance, from what they saved."""
    from lamina.experiments.compare import compare, lines

    result = compare(a, b, data=data, metric=metric, at=at, clusters=clusters, per=per)
    if as_json:
        print_json(result)
    else:
        print("\n".join(lines(result)))


@commands.command()
def export(
    model: ModelArgument,
    out: Annotated[Path, typer.Argument(help="The new folder.")],
    to: Annotated[Literal["transformers"], typer.Option("--to", help="Whose format.")] = "transformers",
    allow_pickle: Pickle = False,
    as_json: Json = False,
) -> None:
    """Write a model as a folder that other libraries load."""
    from lamina.runs.export import export

    export(load_model(model, "cpu", None, allow_pickle=allow_pickle).trained, out)
    if as_json:
        print_json({"out": str(out), "format": to})
    else:
        print(f"{out}: AutoModelForQuestionAnswering.from_pretrained loads it")
