"""The commands that open the page in the browser: serve and label."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.cli.app import DATA, DEFAULT_MODEL, MODEL_HELP, OUTPUT, BackendOption, Threads
from lamina.errors import LaminaError
from lamina.utils.extras import needs

if TYPE_CHECKING:
    from lamina.serving.settings import Settings

commands = typer.Typer()

ACCESS = "Access"

Host = Annotated[str, typer.Option("--host", help="Listen on this address.", rich_help_panel=ACCESS)]
Port = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="Listen on this port; 0 chooses a free one.", rich_help_panel=ACCESS)
]
Project = Annotated[
    Path, typer.Option("--project", metavar="DIR", help="Keep corrections and improved models here.", rich_help_panel=OUTPUT)
]
RunsFolder = Annotated[
    Path, typer.Option("--runs", metavar="DIR", help="List the runs in this folder on the page.", rich_help_panel=OUTPUT)
]
KeyFile = Annotated[
    str | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help="Ask for an API key: one of the lines of FILE. Without it: those in $LAMINA_SERVE_KEYS.",
        rich_help_panel=ACCESS,
    ),
]
Open = Annotated[
    bool,
    typer.Option(
        "--anyone-may-use-it",
        help="Listen beyond this machine without a key. Everybody there may use it.",
        rich_help_panel=ACCESS,
    ),
]
HostNames = Annotated[
    list[str] | None,
    typer.Option("--name", metavar="HOST", help="Answer under this host name too. Repeatable.", rich_help_panel=ACCESS),
]
Cors = Annotated[
    list[str] | None,
    typer.Option(
        "--cors", metavar="ORIGIN", help="Let pages of this origin use the service. Repeatable.", rich_help_panel=ACCESS
    ),
]
LogTexts = Annotated[
    bool, typer.Option("--log-texts", help="Log questions and texts too, not only counts and times.", rich_help_panel=OUTPUT)
]

Opens = Annotated[bool, typer.Option("--open", help="Open the page in your browser.", rich_help_panel=OUTPUT)]


@commands.command()
def serve(
    models: Annotated[list[str] | None, typer.Argument(metavar="MODEL", help=f"{MODEL_HELP} Several may be named.")] = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    project: Project = Path("lamina-project"),
    runs: RunsFolder = Path("runs"),
    key_file: KeyFile = None,
    open_to_all: Open = False,
    names: HostNames = None,
    cors: Cors = None,
    log_texts: LogTexts = False,
    backend: BackendOption = "auto",
    threads: Threads = None,
    opens: Opens = False,
) -> None:
    """Serve a page for the browser to ask, see, correct and improve; other programs call the same service.

    It listens on this machine only. Beyond it, clients need a key.
    """
    settings = _settings(host, project, runs, key_file, open_to_all, names, cors, log_texts)
    _serve(models or [], host, port, replace(settings, backend=backend, threads=threads), opens=opens)


@commands.command()
def label(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Questions with their texts: a file, or the name of a dataset.")],
    model: Annotated[str, typer.Option("--model", help=MODEL_HELP, rich_help_panel=DATA)] = DEFAULT_MODEL,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    project: Project = Path("lamina-project"),
    backend: BackendOption = "auto",
    threads: Threads = None,
    opens: Opens = False,
) -> None:
    """Serve the page to label questions: those whose replies are least certain come first."""
    settings = _settings(host, project, Path("runs"), None, False, None, None, False)
    _serve([model], host, port, replace(settings, backend=backend, threads=threads), opens=opens, label=data)


def _settings(
    host: str,
    project: Path,
    runs: Path,
    key_file: str | None,
    open_to_all: bool,
    names: list[str] | None,
    cors: list[str] | None,
    log_texts: bool,
) -> Settings:
    """Return the settings, or raise LaminaError if everybody could use the service unasked."""
    with needs("lamina serve", "fastapi", "uvicorn", extra="serve"):
        import_module("fastapi")
        import_module("uvicorn")
    from lamina.serving.server import is_loopback
    from lamina.serving.settings import KEYS_VARIABLE, Settings, read_keys
    from lamina.utils.files import expanded

    keys = read_keys(key_file)
    if not is_loopback(host) and not keys and not open_to_all:
        fix = f"set {KEYS_VARIABLE}, name a file with --key-file, or add --anyone-may-use-it"
        raise LaminaError(f"--host {host}: other machines could use the service without a key. Fix: {fix}")
    for origin in cors or []:
        if origin == "*" or "://" not in origin or origin.endswith("/"):
            raise LaminaError(f"--cors {origin}: is no origin. Fix: write it like https://example.org, without a path")
    return Settings(
        keys=keys,
        names=tuple(name.lower() for name in names or ()),
        origins=tuple(cors or ()),
        project=expanded(project),
        runs=expanded(runs),
        log_texts=log_texts,
    )


def _serve(models: list[str], host: str, port: int, settings: Settings, *, opens: bool, label: str | None = None) -> None:
    from lamina.serving.app import create_app
    from lamina.serving.improving import accepted
    from lamina.serving.server import listen, run

    given = models or [*accepted(settings.project), DEFAULT_MODEL]
    app = create_app(given, settings, label=label)
    run(app, listen(host, port), "#label" if label else "", opens=opens)
