"""The command that searches for settings."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.app import OUTPUT, TRAINING, Json, RecipeArgument, Setting, end_interrupted, print_json
from lamina.errors import LaminaError
from lamina.utils.signals import handle_stops, stop_at_once

commands = typer.Typer()


Space = Annotated[
    str,
    typer.Option(
        "--space",
        help="Try these values: a TOML file, or rates, minbert, minbert-tasks or korean-qa.",
        rich_help_panel=TRAINING,
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--out", help="Write this folder. Without it: runs/, the last name of the recipe and -tune.", rich_help_panel=OUTPUT
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", metavar="", help="Continue a search that was stopped.", rich_help_panel=TRAINING)
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, help="Run so many trials at once. Without it: as the space says.", rich_help_panel=TRAINING
    ),
]
Trials = Annotated[
    int | None,
    typer.Option("--trials", min=1, help="Run so many trials. Without it: as the space says.", rich_help_panel=TRAINING),
]
StorageUrl = Annotated[
    str | None,
    typer.Option(
        "--storage",
        metavar="URL",
        help="With --worker, store the trials here: sqlite:///FILE, journal:FILE, or the URL of a database.",
        rich_help_panel=TRAINING,
    ),
]
JoinsSearch = Annotated[
    bool,
    typer.Option(
        "--worker",
        metavar="",
        help="Join the search in --storage, beside any number of processes on any machines.",
        rich_help_panel=TRAINING,
    ),
]
LostAfter = Annotated[
    float,
    typer.Option(
        "--lost-after",
        min=1,
        metavar="SECONDS",
        help="With --worker, take a trial again when its process has been silent for so long.",
        rich_help_panel=TRAINING,
    ),
]


@commands.command()
def tune(
    recipe: RecipeArgument,
    space: Space,
    settings: Setting = [],
    out: Folder = None,
    resume: Resume = False,
    workers: Workers = None,
    trials: Trials = None,
    storage: StorageUrl = None,
    worker: JoinsSearch = False,
    lost_after: LostAfter = 120,
    as_json: Json = False,
) -> None:
    """Search for the best settings of a recipe: grid, random, TPE or halving.

    Trials are scored on the held-out split. The dev set is never read.
    """
    from lamina.config.bundled import recipe_path, space_path
    from lamina.experiments.tuning.search import search_settings, trial_table
    from lamina.experiments.tuning.shared_trials import Shared
    from lamina.experiments.tuning.space import read_space
    from lamina.utils.progress import shown

    if worker != (storage is not None):
        given, other = ("--worker", "--storage URL") if worker else ("--storage", "--worker")
        raise LaminaError(f"{given}: needs {other}. Fix: give both, or neither for a search of this process alone")
    file = space_path(space)
    changed = {name: value for name, value in (("workers", workers), ("trials", trials)) if value is not None}
    read = read_space(file)
    read = read.model_copy(update={"search": read.search.model_copy(update=changed)})
    handle_stops(stop_at_once)  # the trials at work save their state before the line below
    try:
        with shown() as progress:
            folder = out or Path("runs") / f"{Path(recipe).stem}-tune"
            found = search_settings(
                recipe_path(recipe),
                read,
                folder,
                settings=settings,
                resume=resume,
                name=str(file),
                progress=progress,
                shared=None if storage is None else Shared(storage, lost_after),
            )
    except KeyboardInterrupt as stop:
        end_interrupted(stop)
    if as_json:
        picture = None if found.picture is None else str(found.picture)
        files = {"out": str(found.folder), "best": str(found.best), "picture": picture}
        print_json(files | {"trials": [asdict(trial) for trial in found.trials]})
        return
    print("\n".join(trial_table(found.trials)))
    print(f"best: {found.best}, for `lamina train`")
    if found.picture is not None:
        print(f"picture: {found.picture}")
