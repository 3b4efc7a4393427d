"""What the commands share: the program itself, the options that several have, and printing."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from lamina import __version__
from lamina.errors import LaminaError, LaminaWarning

if TYPE_CHECKING:
    from lamina.config.recipe import Recipe
    from lamina.reader.load import Reader

DEFAULT_MODEL = "runs/quickstart"
SENTENCE_MODEL = "runs/sentences"
DEFAULTS = {DEFAULT_MODEL: "make quickstart", SENTENCE_MODEL: "lamina train sentences"}
MODEL_HELP = "A run folder, or a question-answering checkpoint: a folder or a hub id."

app = typer.Typer(
    help="Fine-tunes BERT-family encoders to answer questions and to judge sentences, and says what it cost.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

RecipeArgument = Annotated[str, typer.Argument(help="A recipe: a TOML file, a run's recipe.json, or a name of `recipes list`.")]
Setting = Annotated[list[str], typer.Option("--set", metavar="TABLE.FIELD=VALUE", help="Change one field of the recipe.")]
ModelArgument = Annotated[str, typer.Argument(help=MODEL_HELP)]
Pickle = Annotated[bool, typer.Option("--allow-pickle", help="Read a checkpoint's pickled weights, which can hide code.")]
DataOption = Annotated[
    str, typer.Option("--data", help="A SQuAD JSON, CSV or JSONL file, a table of sentences, or a name of `data list`.")
]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads to compute with; all cores if not given.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Duplicates = Annotated[
    Literal["error", "rename"], typer.Option("--duplicate-ids", help="What to do with ids that occur twice.")
]


def main() -> None:
    warnings.showwarning = _show_warning
    signal.signal(signal.SIGINT, lambda *_: fail("lamina: interrupted", 130))
    try:
        app()
    except LaminaError as error:
        fail(f"lamina: {error}", 2)
    except SystemExit as stop:
        if not isinstance(stop.__context__, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what the interpreter flushes at its end
        raise SystemExit(0) from None  # the reader of our output has gone, as in `lamina … | head`


def fail(line: str, code: int) -> NoReturn:
    print(line, file=sys.stderr)
    raise SystemExit(code)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    if issubclass(category, LaminaWarning):
        print(f"lamina: warning: {message}", file=sys.stderr)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(f"lamina {__version__}")
        raise typer.Exit


def open_recipe(name: str, settings: list[str]) -> Recipe:
    from lamina.config.bundled import recipe_path
    from lamina.config.parse import read_recipe

    return read_recipe(recipe_path(name), settings)


def load_model(model: str, device: str, threads: int | None, *, allow_pickle: bool) -> Reader:
    if model in DEFAULTS and not Path(model).exists():
        raise LaminaError(f"{model}: there is no model yet: run `{DEFAULTS[model]}`, or name one with --model")
    from lamina.reader.load import load

    return load(model, device=device, threads=threads, allow_pickle=allow_pickle)


def a_number(option: typer.CallbackParam, value: float | None) -> float | None:
    """Return the value of an option for a threshold, or raise LaminaError if it is nan."""
    if value is not None and math.isnan(value):
        name = option.opts[0]
        raise LaminaError(f"{name}: nan is not a number. Fix: give a number; inf always answers and -inf never")
    return value


def print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=1))


def print_scores(scores: Mapping[str, Any]) -> None:
    """Of answers, a line a threshold; of several tasks, those of each; of anything else, a line of its numbers."""
    if not all(isinstance(values, Mapping) for values in scores.values()):
        numbers = {name: value for name, value in scores.items() if not isinstance(value, Mapping)}
        shown = {name: str(value) if isinstance(value, int) else f"{value:.3f}" for name, value in numbers.items()}
        print(", ".join(f"{name} {value}" for name, value in shown.items()))
        return
    if "questions" in scores:
        print("per context:")
        print_scores({name: values for name, values in scores.items() if name != "questions"})
        print("per question, over all of its contexts:")
        print_scores(scores["questions"])
        return
    if "zero" not in scores:
        for name, values in scores.items():
            print(f"{name}:", end="\n" if "zero" in values else " ")
            print_scores(values)
        return
    print(f"{'threshold':<18}{'EM':>7}{'F1':>7}{'HasAns EM':>11}{'F1':>7}{'NoAns':>8}")
    for name, values in scores.items():
        label = f"{name} ({values['threshold']:.2f})" if name in ("tuned", "best") else name.replace("zero", "0")
        values = {"exact": values["exact_match"], **values} if "exact_match" in values else values  # as KorQuAD names it
        cells = [("exact", 7), ("f1", 7), ("HasAns_exact", 11), ("HasAns_f1", 7), ("NoAns_f1", 8)]
        print(f"{label:<18}" + "".join(f"{values[k]:>{w}.2f}" if k in values else " " * w for k, w in cells))


def memory_text(costs: Mapping[str, Any]) -> str:
    """The peak of memory, where the system tells it."""
    peak = costs.get("peak_memory_mb")
    return "" if peak is None else f", {peak / 1000:.1f} GB of memory at most"
