"""The command that searches for settings."""

from __future__ import annotations

import signal
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.app import Json, RecipeArgument, Setting, fail, print_json

commands = typer.Typer()


@commands.command()
def tune(
    recipe: RecipeArgument,
    space: Annotated[
        str, typer.Option("--space", help="What to try: a TOML file, or a name: rates, minbert, minbert-tasks or korean-qa.")
    ],
    settings: Setting = [],  # noqa: B006 - typer reads the default
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder; runs/, the recipe's last name and -tune if not given.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a search that was stopped.")] = False,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Trials at the same time; else the space's.")] = None,
    trials: Annotated[int | None, typer.Option("--trials", min=1, help="How many trials; else the space's.")] = None,
    as_json: Json = False,
) -> None:
    """Search for a recipe's best settings by its held-out split: grid, random, TPE, halving. The dev set is never read."""
    from lamina.config.bundled import recipe_path, space_path
    from lamina.experiments.tuning.search import search_settings, trial_table
    from lamina.experiments.tuning.space import read_space
    from lamina.utils.progress import shown

    file = space_path(space)
    changed = {name: value for name, value in (("workers", workers), ("trials", trials)) if value is not None}
    read = read_space(file)
    read = read.model_copy(update={"search": read.search.model_copy(update=changed)})
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the trials at work save their state before the line below
    try:
        with shown() as progress:
            folder = out or Path("runs") / f"{Path(recipe).stem}-tune"
            found = search_settings(
                recipe_path(recipe), read, folder, settings=settings, resume=resume, name=str(file), progress=progress
            )
    except KeyboardInterrupt:
        fail("lamina: interrupted: the same command with --resume goes on from here", 130)
    if as_json:
        picture = None if found.picture is None else str(found.picture)
        files = {"out": str(found.folder), "best": str(found.best), "picture": picture}
        print_json(files | {"trials": [asdict(trial) for trial in found.trials]})
        return
    print("\n".join(trial_table(found.trials)))
    print(f"best: {found.best}, for `lamina train`")
    if found.picture is not None:
        print(f"picture: {found.picture}")
