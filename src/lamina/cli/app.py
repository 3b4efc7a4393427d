"""What the commands share: the program itself, the options that several commands have, and printing."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from lamina import __version__
from lamina.errors import LaminaError, LaminaWarning
from lamina.utils.shipped import READER

if TYPE_CHECKING:
    from lamina.config.recipe import Recipe
    from lamina.reader.load import Reader

DEFAULT_MODEL = READER
SENTENCE_MODEL = "runs/sentences"
TRAINED_BY = {"runs/quickstart": "lamina train quickstart", SENTENCE_MODEL: "lamina train sentences"}
MODEL_HELP = "A run folder, a question-answering checkpoint (a folder or a hub id), or reader, the model in the package."

# The panels of `--help`. An option that several commands have is in the same panel everywhere.
TEXTS, ANSWERS, DATA, TRAINING, OUTPUT, MACHINE = "Texts", "Answers", "Data", "Training", "Output", "Machine"

app = typer.Typer(
    help="Train small encoders on a CPU to answer questions from your texts and to classify sentences.",
    epilog="Run `lamina help COMMAND` or `lamina COMMAND -h` for the options of a command.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

RecipeArgument = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A TOML file, the recipe.json of a run, or a name of `lamina recipes list`.")
]
Setting = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="TABLE.FIELD=VALUE", help="Change one field of the recipe. Repeatable.", rich_help_panel=TRAINING
    ),
]
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)]
DataOption = Annotated[
    str,
    typer.Option(
        "--data",
        help="Read questions or sentences: a JSON, JSONL, CSV, TSV or parquet file, or the name of a dataset.",
        rich_help_panel=DATA,
    ),
]
TaskOption = Annotated[
    str | None, typer.Option("--task", help="Choose the task, if the model has several that fit.", rich_help_panel=DATA)
]
Duplicates = Annotated[
    Literal["error", "rename"],
    typer.Option("--duplicate-ids", help="Refuse ids that occur twice, or rename the later ones.", rich_help_panel=DATA),
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", min=1, help="Compute with so many threads. Without it: all cores.", rich_help_panel=MACHINE),
]
Device = Annotated[str, typer.Option("--device", help="Compute on auto, cpu, cuda or mps.", rich_help_panel=MACHINE)]
Precision = Annotated[
    Literal["float32", "bfloat16"],
    typer.Option(
        "--precision",
        help="Compute in this number format. bfloat16 rounds more; it is faster on processors with AVX512-BF16.",
        rich_help_panel=MACHINE,
    ),
]
Pickle = Annotated[
    bool,
    typer.Option(
        "--allow-pickle", help="Read pickled weights of a checkpoint. A pickle can run hidden code.", rich_help_panel=MACHINE
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=OUTPUT)]

_TRAIN_ON = "lamina train quickstart --set data.train={}"
_USAGE_ERROR = typer.BadParameter.__mro__[1]  # the base of all mistakes on a command line; typer does not export it


def main() -> None:
    """Run the command line; a mistake of the user ends it with one line and exit code 2."""
    warnings.showwarning = _show_warning
    signal.signal(signal.SIGINT, lambda *_: fail("lamina: interrupted", 130))
    try:
        code = app(prog_name="lamina", standalone_mode=False)
    except LaminaError as error:
        fail(f"lamina: {error}", 2)
    except SystemExit as stop:
        if not isinstance(stop.__context__, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what the interpreter flushes at its end
        raise SystemExit(0) from None  # the reader of our output has gone, as in `lamina … | head`
    except Exception as error:
        if not isinstance(error, _USAGE_ERROR):
            raise
        fail(*_usage_line(error))
    raise SystemExit(code if isinstance(code, int) else 0)


def fail(line: str, code: int) -> NoReturn:
    """Print a line on standard error and end the program."""
    print(line, file=sys.stderr)
    raise SystemExit(code)


def _usage_line(error: Any) -> tuple[str, int]:
    """Return the line for a mistake on the command line, and the exit code."""
    message = str(error.format_message()).strip()
    path = error.ctx.command_path if error.ctx is not None else _command_path()
    if not message:  # a group without a command: its help has been printed
        raise SystemExit(2)
    what, hint = message, ""
    for marker in (" Did you mean ", " (Possible options: "):  # of commands, and of options
        if marker in message:
            what, _, hint = message.partition(marker)
    names = hint.rstrip("?)").replace("'", "").replace(", ", " or ")
    fix = f"did you mean {names}?" if names else f"run `{path} -h` to see what it takes"
    if path == "lamina train" and getattr(error, "option_name", "") == "--data":
        fix = f"run {_TRAIN_ON.format(_word_after('--data'))}"
    return f"{path}: {what[:1].lower()}{what[1:].rstrip('. ')}. Fix: {fix}", 2


def _command_path() -> str:
    """Return the names of the command on the command line, such as "lamina data check"."""
    path, command = "lamina", typer.main.get_command(app)
    for word in sys.argv[1:]:
        inner = getattr(command, "commands", {})
        if word not in inner:
            break
        path, command = f"{path} {word}", inner[word]
    return path


def _word_after(option: str) -> str:
    """Return the value of an option on the command line, or FILE."""
    given = [word for word in sys.argv if word.startswith(f"{option}=")]
    following = sys.argv[sys.argv.index(option) + 1 :] if option in sys.argv else []
    return given[0].partition("=")[2] if given else (following or ["FILE"])[0]


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    if issubclass(category, LaminaWarning):
        print(f"lamina: warning: {message}", file=sys.stderr)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        print(f"lamina {__version__}")
        raise typer.Exit


def open_recipe(name: str, settings: list[str]) -> Recipe:
    """Return the recipe of that path or bundled name, changed by `--set`."""
    from lamina.config.bundled import recipe_path
    from lamina.config.parse import read_recipe
    from lamina.data.split_files import has_data_ending

    if has_data_ending(Path(name).name) and Path(name).suffix.lower() != ".json":
        raise LaminaError(f"{name}: is data, not a recipe. Fix: run {_TRAIN_ON.format(name)}")
    return read_recipe(recipe_path(name), settings)


def load_model(
    model: str,
    device: str,
    threads: int | None,
    *,
    allow_pickle: bool,
    precision: Literal["float32", "bfloat16"] = "float32",
) -> Reader:
    """Return the reader of a model; name the command that trains it if a run of the documentation is missing."""
    if model in TRAINED_BY and not Path(model).exists():
        raise LaminaError(f"{model}: there is no model yet. Fix: run `{TRAINED_BY[model]}`, or name a model with --model")
    from lamina.reader.load import load

    return load(model, device=device, threads=threads, precision=precision, allow_pickle=allow_pickle)


def a_number(option: typer.CallbackParam, value: float | None) -> float | None:
    """Return the value of an option for a threshold, or raise LaminaError if it is nan."""
    if value is not None and math.isnan(value):
        name = option.opts[0]
        raise LaminaError(f"{name}: nan is not a number. Fix: give a number; inf always answers and -inf never")
    return value


def decode_line(line: bytes, number: int) -> str:
    """Return a line of standard input without space around it; anything but UTF-8 raises LaminaError."""
    try:
        return line.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        where = f"standard input, line {number}, byte {error.start}"
        raise LaminaError(f"{where}: not UTF-8. Fix: pipe the lines as UTF-8 text") from None


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    print(json.dumps(value, ensure_ascii=False, indent=1))


def print_scores(scores: Mapping[str, Any]) -> None:
    """Print scores: span scores with a line for each threshold, several tasks one by one, others in one line."""
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


def source_lines(sources: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Return a line with the held-out scores of each training set of each task."""
    shown = {"exact": "EM", "f1": "F1", "accuracy": "accuracy"}
    lines = []
    for task, tables in sources.items():
        which = f"{task}: " if len(sources) > 1 else ""
        for table in tables:
            numbers = ", ".join(f"{title} {table[key]:.2f}" for key, title in shown.items() if key in table)
            lines.append(f"{which}held out of {table['name']}: {numbers} ({table['total']} examples)")
    return lines


def memory_text(costs: Mapping[str, Any]) -> str:
    """Return the peak memory as text; empty if the system does not report it."""
    peak = costs.get("peak_memory_mb")
    return "" if peak is None else f", {peak / 1000:.1f} GB of memory at most"
