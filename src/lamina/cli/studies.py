"""Commands that train all rows of a table, and that show their scores."""

from __future__ import annotations

import signal
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Literal

import typer

from lamina.cli.app import MACHINE, OUTPUT, TRAINING, Address, EngineOption, Json, Setting, fail, print_json
from lamina.errors import LaminaError

commands = typer.Typer()


@commands.command()
def study(
    file: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help="A TOML file, or layer-mixers, bertvision, minbert, parameter-efficiency or korean-qa.",
        ),
    ],
    size: Annotated[
        Literal["paper", "desk", "smoke"],
        typer.Option(
            "--size", help="Train at the paper's own size, at that of two cores, or only to test.", rich_help_panel=TRAINING
        ),
    ] = "desk",
    plan: Annotated[
        bool, typer.Option("--plan", help="Show what would run and what it costs. Train nothing.", rich_help_panel=TRAINING)
    ] = False,
    only: Annotated[
        list[str],
        typer.Option("--only", metavar="VARIANT", help="Train only this variant. Repeatable.", rich_help_panel=TRAINING),
    ] = [],
    seeds: Annotated[
        list[int],
        typer.Option(
            "--seed", help="Train with this seed. Repeatable. Without it: as the size says.", rich_help_panel=TRAINING
        ),
    ] = [],
    settings: Setting = [],
    encoders: Annotated[
        list[str],
        typer.Option(
            "--encoder",
            metavar="NAME=PATH",
            help="Use this folder or hub id for an encoder of the study. Repeatable.",
            rich_help_panel=TRAINING,
        ),
    ] = [],
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Train so many runs at once.", rich_help_panel=MACHINE)] = 1,
    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes", min=0, help="Stop after so many minutes. The same command continues.", rich_help_panel=MACHINE
        ),
    ] = None,
    engine: EngineOption = None,
    address: Address = None,
    cpus: Annotated[
        int, typer.Option("--cpus", min=1, help="With --engine ray, processors of each run.", rich_help_panel=MACHINE)
    ] = 1,
    memory: Annotated[
        float | None,
        typer.Option("--memory", min=0, help="With --engine ray, gigabytes to reserve for each run.", rich_help_panel=MACHINE),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Write this folder. Without it: runs/studies, the study and its size.", rich_help_panel=OUTPUT
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train all variants of a study and print the table of their scores. The same command continues a stopped study."""
    from lamina.experiments.studies.live_view import ShownStudy
    from lamina.experiments.studies.ray_jobs import OnRay
    from lamina.experiments.studies.run_study import make_plan, run_study

    if engine != "ray" and (address is not None or memory is not None or cpus != 1):
        option = "--address" if address is not None else "--memory" if memory is not None else "--cpus"
        raise LaminaError(f"{option}: only --engine ray has it. Fix: add --engine ray, or leave it out")
    cluster = OnRay(address, cpus, memory) if engine == "ray" else None
    named = dict(_pair(one) for one in encoders)
    planned = make_plan(file, size, out, only, seeds or None, settings, named)
    if plan:
        from lamina.experiments.studies.estimate import estimate, plan_lines

        found = estimate(planned)
        print_json(found) if as_json else print("\n".join(plan_lines(planned, found)))
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)  # running jobs save their state before the line below
    try:
        with ShownStudy() as watch, redirect_stdout(sys.stderr):  # Ray prints there that a node was lost
            table = run_study(planned, jobs=jobs, minutes=minutes, watch=watch, cluster=cluster)
    except KeyboardInterrupt:
        fail("lamina: interrupted. Fix: to continue, run the command again", 130)
    if as_json:
        print_json(table.to_json())
    else:
        print(table)
        print(f"study: {table.out}")
    for key, reason in table.failed.items():
        print(f"lamina: {key} failed: {reason}", file=sys.stderr)
    if table.left:
        jobs_left = "1 job is left" if table.left == 1 else f"{table.left} jobs are left"
        print(f"{jobs_left}. To continue, run the command again", file=sys.stderr)
    if table.failed:
        raise SystemExit(1)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not value:
        raise LaminaError(f"--encoder {text}: names no folder. Fix: write NAME=PATH")
    return name, value


@commands.command()
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="Folders that `lamina study` wrote.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Write into this folder. Without it: the folder report in the first study.", rich_help_panel=OUTPUT
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a page with the tables of papers and ours, tests of all differences, and pictures (the extra reports)."""
    from lamina.experiments.reports.report import report

    files = report(folders, out)
    if as_json:
        print_json({"page": str(files[0]), "files": [str(path) for path in files]})
    else:
        print(f"report: {files[0]}")
