"""What the commands share: the program itself, the options that several commands have, and printing."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from lamina import __version__
from lamina.errors import LaminaError, LaminaWarning
from lamina.utils.extras import TORCH, is_of, missing_torch
from lamina.utils.files import exists, shortened
from lamina.utils.shipped import READER
from lamina.utils.signals import exit_code, handle_stops, leave_closed_terminal

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
    Literal["auto", "float32", "bfloat16", "int8"],
    typer.Option(
        "--precision",
        help="Compute in this number format: auto, float32, bfloat16 (torch only) or int8 (exported models).",
        rich_help_panel=MACHINE,
    ),
]
BackendOption = Annotated[
    Literal["auto", "torch", "onnx", "openvino"],
    typer.Option(
        "--backend",
        help="Compute with torch, or an exported model with onnx or openvino. auto takes the fastest in a short test.",
        rich_help_panel=MACHINE,
    ),
]
EngineOption = Annotated[
    Literal["local", "ray"] | None,
    typer.Option("--engine", help="Run on this machine, or as tasks of Ray (the extra ray).", rich_help_panel=MACHINE),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        help="With --engine ray, use the cluster at this address; auto finds the one of this machine. "
        "Without it: start one on this machine.",
        rich_help_panel=MACHINE,
    ),
]
Pickle = Annotated[
    bool,
    typer.Option(
        "--allow-pickle",
        metavar="",
        help="Read pickled weights of a checkpoint. A pickle can run hidden code.",
        rich_help_panel=MACHINE,
    ),
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print the result as JSON.", rich_help_panel=OUTPUT)]

_FLAGS = ("--json", "--jsonl", "--allow-pickle")  # of commands that take any number of words
_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "calculation overflowed", "multiplication overflow")  # torch's
_TRAIN_ON = "lamina train quickstart --set data.train={}"
_USAGE_ERROR = typer.BadParameter.__mro__[1]  # the base of all mistakes on a command line; typer does not export it


def main() -> None:
    """Run the command line. A mistake of the user, or a failure of the system, ends it with one line and exit code 2.

    `--debug` prints the traceback before that line. Ctrl-C, SIGTERM and SIGHUP end it with 128 and the signal's number.
    """
    warnings.showwarning = _show_warning
    words, debug = _without_debug(sys.argv[1:])
    _print_any_character()
    handle_stops(_stop)
    try:
        _check_flags(words)
        code = app(words, prog_name="lamina", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):
            _end_closed_pipe()
        raise
    except BrokenPipeError:
        _end_closed_pipe()
    except (KeyboardInterrupt, Exception) as error:
        ended = _last_line(error)
        if ended is None:
            raise
        if debug:
            traceback.print_exc()
        fail(*ended)
    raise SystemExit(code if isinstance(code, int) else 0)


def fail(line: str, code: int) -> NoReturn:
    """Print a line on standard error and end the program. A signal that comes now ends it at once, without another line."""
    handle_stops(lambda *_: os._exit(code))
    with suppress(OSError):  # a closed terminal
        print(line, file=sys.stderr, flush=True)
    raise SystemExit(code)


def end_interrupted(stop: KeyboardInterrupt) -> NoReturn:
    """End the program after a signal, once the state has been saved."""
    fail("lamina: interrupted. Fix: to continue, run the command again, with --resume", exit_code(stop))


def _stop(number: int, _: object) -> NoReturn:
    leave_closed_terminal()
    fail("lamina: interrupted", 128 + number)


def _without_debug(words: Sequence[str]) -> tuple[list[str], bool]:
    """Return the words of the command line without `--debug`, which may be anywhere before `--`, and whether it was there."""
    end = words.index("--") if "--" in words else len(words)
    return [word for place, word in enumerate(words) if word != "--debug" or place > end], "--debug" in words[:end]


def _check_flags(words: Sequence[str]) -> None:
    """Raise LaminaError if a value follows a flag: `lamina ask --json true` would ask the question "true"."""
    end = words.index("--") if "--" in words else len(words)
    for flag, value in pairwise(words[:end]):
        if flag in _FLAGS and value.lower() in ("true", "false"):
            raise LaminaError(f"{flag}: takes no value, but {value} follows. Fix: leave out {value}; put a question after --")


def _print_any_character() -> None:
    """Make standard output write `\\u1234` for a character that its encoding does not have, as standard error does."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _end_closed_pipe() -> NoReturn:
    """End the program after the reader of its output has gone, as in `lamina … | head`."""
    _drop_output()
    raise SystemExit(0) from None


def _drop_output() -> None:
    """Send standard output to nowhere: the interpreter writes at its end what could not be written before."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _last_line(error: BaseException) -> tuple[str, int] | None:
    """Return the line that ends the program after an error, and the exit code; None for a mistake of ours."""
    if isinstance(error, LaminaError):
        return f"lamina: {' '.join(str(error).split(chr(10)))}", 2
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":  # the second is typer's word for it
        return "lamina: interrupted", exit_code(error)
    if isinstance(error, _USAGE_ERROR):
        return _usage_line(error)
    if isinstance(error, ModuleNotFoundError) and is_of(error, TORCH):
        return f"lamina: {missing_torch(_command_path())}", 2
    failure = _system_failure(error)
    return None if failure is None else (f"lamina: {failure}", 2)


def _system_failure(error: BaseException) -> str | None:
    """Return a line about a failure of the system that no other code has explained; None for other errors."""
    text = " ".join(str(error).split())
    if isinstance(error, OSError):
        where = error.filename or "output"  # a file has been opened, or is standard output: the system does not say which
        _drop_output()
        fix = "free disk space" if error.errno == errno.ENOSPC else "check the path, its permissions and the disk"
        return f"{shortened(str(where))}: {error.strerror or text}. Fix: {fix}"
    if isinstance(error, MemoryError) or any(mark in text for mark in _OUT_OF_MEMORY):
        return "memory: there is not enough of it. Fix: give less text at once, or smaller sizes and batches in the recipe"
    if isinstance(error, RecursionError):
        return "input: it is nested too deeply. Fix: use fewer levels"
    if isinstance(error, UnicodeEncodeError):
        return f"text: it cannot be written as {error.encoding} ({error.reason}). Fix: set PYTHONIOENCODING=utf-8"
    if type(error).__name__ == "SafetensorError":  # importing safetensors would cost every command its time
        return f"weights: a safetensors file cannot be read or written ({text}). Fix: copy the file again, or free disk space"
    return None


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
def _version(
    version: Annotated[bool, typer.Option("--version", metavar="", help="Print the version and exit.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", metavar="", help="Print the traceback of an error, with any command.")
    ] = False,
) -> None:
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
    backend: Literal["auto", "torch", "onnx", "openvino"] = "auto",
    precision: Literal["auto", "float32", "bfloat16", "int8"] = "auto",
) -> Reader:
    """Return the reader of a model; name the command that trains it if a run of the documentation is missing."""
    if model in TRAINED_BY and not exists(Path(model)):
        raise LaminaError(f"{model}: there is no model yet. Fix: run `{TRAINED_BY[model]}`, or name a model with --model")
    from lamina.reader.load import load

    return load(model, backend=backend, device=device, threads=threads, precision=precision, allow_pickle=allow_pickle)


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
    print(json_text(value, indent=1))


def json_text(value: object, indent: int | None = None) -> str:
    """Return a value as JSON that standard output can write: with escapes if its encoding lacks a character."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


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
