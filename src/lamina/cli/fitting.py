"""The command that fits a model to a few of your own questions or sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.app import OUTPUT, TRAINING, Json, Setting, Threads, print_json

commands = typer.Typer()


@commands.command("fit")
def fit_data(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="At least 30 questions, or 8 sentences of each class: a file or a name.")
    ],
    minutes: Annotated[
        float, typer.Option("--minutes", min=0.05, help="Time to plan with, on this machine.", rich_help_panel=TRAINING)
    ] = 10.0,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="MODEL",
            help="Start from this run or checkpoint; for sentences also an encoder. Without it: the default.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write this run folder. Without it: runs/ and the name of DATA.", rich_help_panel=OUTPUT),
    ] = None,
    settings: Setting = [],
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Fit a model to your questions or labelled sentences, and compare it with its start on held-out ones.

    If the trained model is not better, the run holds the start.
    """
    import torch

    from lamina.fitting.fit import fit
    from lamina.utils.progress import shown

    if threads:
        torch.set_num_threads(threads)
    with shown() as progress:
        fitted = fit(data, out, start=start, minutes=minutes, settings=settings, progress=progress)
    if as_json:
        print_json(fitted.to_json())
        return
    print(fitted)
