"""`lamina help`: the help of a command."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any

import typer

from lamina.errors import LaminaError

commands = typer.Typer()


@commands.command("help")
def show_help(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="A command, such as `train` or `data check`.")
    ] = None,
) -> None:
    """Print the help of a command; without one, the list of commands."""
    here: Any = context.find_root()
    for word in words or []:
        known = getattr(here.command, "commands", {})
        if word not in known:
            close = get_close_matches(word, known, n=1)
            fix = f"did you mean {close[0]}?" if close else f"run `{here.command_path} -h` to see the commands"
            raise LaminaError(f"help: there is no command {word!r}. Fix: {fix}")
        here = here.command.context_class(known[word], info_name=word, parent=here)
    print(here.get_help())
