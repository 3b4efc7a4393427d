"""The command that pretrains an encoder."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.app import OUTPUT, TRAINING, Json, Setting, end_interrupted, memory_text, print_json

commands = typer.Typer()


@commands.command()
def pretrain(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A TOML file, or sentences, spans, minbert, minbert-paper or korean.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", help="Write the encoder into this folder. A recipe names it in encoder.model.", rich_help_panel=OUTPUT
        ),
    ],
    settings: Setting = [],
    vocab_size: Annotated[
        int | None,
        typer.Option(
            "--vocab-size", min=1, help="Build a vocabulary of so many entries (vocabulary.size).", rich_help_panel=TRAINING
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", metavar="", help="Continue a pretraining that was stopped.", rich_help_panel=TRAINING)
    ] = False,
    as_json: Json = False,
) -> None:
    """Pretrain an encoder on masked words of your texts or on questions made from them (objective = "spans")."""
    from lamina.config.bundled import pretraining_folder, recipe_path
    from lamina.pretraining.pretrain_recipe import read_pretrain_recipe
    from lamina.pretraining.trainer import pretrain as run
    from lamina.utils.progress import shown
    from lamina.utils.run_folder import complete_costs

    sizes = [] if vocab_size is None else [f"vocabulary.size={vocab_size}"]
    read = read_pretrain_recipe(recipe_path(recipe, pretraining_folder()), [*settings, *sizes])
    try:
        with shown() as progress:
            folder = run(read, out, resume=resume, progress=progress)
    except KeyboardInterrupt as stop:  # the loop has saved its state
        end_interrupted(stop)
    info = folder.read_info()
    costs, scores = complete_costs(info.get("costs", {})), info.get("scores", {})
    if as_json:
        print_json({"folder": str(out), "scores": scores, "costs": costs})
        return
    for when, values in scores.items():
        print(f"held out {when}: " + ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in values.items()))
    print(
        f"cost: {costs['train_seconds'] / 60:.1f} min of training on {costs['tokens']:,} tokens "
        f"({costs['tokens'] / (costs['train_seconds'] or math.inf):,.0f} a second){memory_text(costs)}"
    )
    head = f" --set head.start={out}" if read.objective == "spans" else ""
    print(f"folder: {out} (start a recipe from it with --set encoder.model={out}{head})")
