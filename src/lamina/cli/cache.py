"""`lamina cache`: the stored states of frozen layers and outputs of teachers."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from lamina.cli.app import Json, print_json
from lamina.errors import LaminaError

commands = typer.Typer(help="List, check and remove stored states and teachers' outputs.", no_args_is_help=True)

Stores = Annotated[list[str] | None, typer.Argument(help="The first letters of the names of stores.")]


@commands.command("list")
def cache_list(as_json: Json = False) -> None:
    """List the stores, the last used first."""
    from lamina.state_cache.maintenance import ago, list_stores

    stores = list_stores()
    if as_json:
        print_json([asdict(store) for store in stores])
        return
    for store in stores:
        whole = "" if store.share == 1 else f", {store.share:.0%} written"
        what = f"layers {', '.join(map(str, store.layers))}" if store.layers else "outputs"
        print(
            f"{store.name}  {store.bytes / 1e6:,.0f} MB  {what} of {store.model} on {store.data} in {store.dtype}"
            f"{whole}, used {ago(store.used)} ago"
        )
    print(f"{len(stores)} stores, {sum(store.bytes for store in stores) / 1e9:.2f} GB", file=sys.stderr)


@commands.command("verify")
def cache_verify(names: Stores = None) -> None:
    """Verify the checksums of some stores, or of all. The next run that needs a damaged shard computes it again."""
    from lamina.state_cache.maintenance import list_stores, verify_store

    problems = 0
    for name in names or [store.name for store in list_stores()]:
        found = verify_store(name)
        problems += len(found)
        print("\n".join(found) if found else f"{name}: sound")
    if problems:
        raise LaminaError(
            f"cache: {problems} shards are missing or damaged. Fix: nothing; the next run that needs them computes them again"
        )


@commands.command("clear")
def cache_clear(
    names: Stores = None,
    everything: Annotated[bool, typer.Option("--all", metavar="", help="Remove every store.")] = False,
) -> None:
    """Remove stores. The next run that needs them computes them again."""
    from lamina.state_cache.maintenance import clear_store, list_stores

    if bool(names) == everything:
        raise LaminaError("cache clear: no stores are named. Fix: name some of `lamina cache list`, or use --all alone")
    for name in names or [store.name for store in list_stores()]:
        print(f"{name}: {clear_store(name) / 1e6:,.0f} MB cleared")
