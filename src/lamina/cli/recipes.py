"""`lamina recipes`: the recipes that come with Lamina."""

from __future__ import annotations

from itertools import groupby
from pathlib import PurePosixPath
from typing import Annotated

import typer

from lamina.cli.app import Json, print_json
from lamina.errors import LaminaError

commands = typer.Typer(help="List and print the recipes that come with Lamina.", no_args_is_help=True)


@commands.command("list")
def recipes_list(as_json: Json = False) -> None:
    """List the recipes that come with Lamina, each with a short description."""
    from lamina.config.bundled import recipe_descriptions

    found = recipe_descriptions()
    if as_json:
        print_json(found)
        return
    names = sorted(found, key=lambda name: ("/" in name, name))
    for number, (_, group) in enumerate(groupby(names, key=lambda name: PurePosixPath(name).parent)):
        members = list(group)
        if number:
            print()
        width = max(map(len, members))
        for name in members:
            print(f"{name:<{width}}  {found[name]}".rstrip())


@commands.command("show")
def recipes_show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name of `lamina recipes list`.")], as_json: Json = False
) -> None:
    """Print a recipe; with --json, print all of its fields, defaults included."""
    from lamina.config.bundled import recipe_path
    from lamina.config.parse import read_recipe, read_values
    from lamina.utils.files import read_text

    path = recipe_path(name)
    if path.suffix.lower() not in (".toml", ".json"):
        raise LaminaError(f"{name}: is no recipe. Fix: name one of `lamina recipes list`, a TOML file or a recipe.json")
    values = read_recipe(path).model_dump(mode="json") if as_json else read_values(path)
    print_json(values) if as_json else print(read_text(path), end="")
