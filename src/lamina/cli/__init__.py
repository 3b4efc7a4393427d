"""The commands, one module for each subject.

Each command calls one function of another room and imports it when it runs. Results go to standard output, everything else to
standard error. Exit codes: 0, 2 for a mistake of the user or a failure of the system, 130 for Ctrl-C (143 for
SIGTERM, 129 for SIGHUP), 1 for anything else.
"""

from __future__ import annotations

from lamina.cli import (
    ask,
    cache,
    calibrate,
    data,
    evaluate,
    fitting,
    help,
    layers,
    pretraining,
    recipes,
    runs,
    sentences,
    serve,
    studies,
    training,
    tuning,
)
from lamina.cli.app import DEFAULT_MODEL, app, main

__all__ = ["DEFAULT_MODEL", "app", "main"]

for subject in (
    training,
    fitting,
    pretraining,
    tuning,
    studies,
    ask,
    serve,
    evaluate,
    calibrate,
    layers,
    sentences,
    runs,
):  # in the order of `lamina --help`
    app.add_typer(subject.commands)
app.add_typer(data.commands, name="data")
app.add_typer(recipes.commands, name="recipes")
app.add_typer(cache.commands, name="cache")
app.add_typer(help.commands)
