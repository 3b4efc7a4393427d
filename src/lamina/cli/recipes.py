"""`lamina recipes`: the recipes that come with Lamina."""

from __future__ import annotations

import typer

from lamina.cli.app import Json, print_json

commands = typer.Typer(help="The recipes that come with Lamina.", no_args_is_help=True)


@commands.command("list")
def recipes_list(as_json: Json = False) -> None:
    """List the recipes that come with Lamina."""
    from lamina.config.bundled import recipe_names

    if as_json:
        print_json(recipe_names())
    else:
        print("\n".join(recipe_names()))


@commands.command("show")
def recipes_show(name: str, as_json: Json = False) -> None:
    """Print a recipe; with --json, whole, defaults included."""
    from lamina.config.bundled import recipe_path
    from lamina.config.parse import read_recipe
    from lamina.utils.files import read_text

    path = recipe_path(name)
    if as_json:
        print_json(read_recipe(path).model_dump(mode="json"))
    else:
        print(read_text(path), end="")
