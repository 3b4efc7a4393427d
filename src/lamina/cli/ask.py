"""The command that answers questions: which arguments are texts, which are questions, and what is printed."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from typer.core import TyperCommand

from lamina.cli.app import (
    ANSWERS,
    DEFAULT_MODEL,
    MODEL_HELP,
    OUTPUT,
    TEXTS,
    BackendOption,
    Device,
    Json,
    Pickle,
    Threads,
    a_number,
    decode_line,
    json_text,
    load_model,
    print_json,
)
from lamina.cli.ask_arguments import Asked, sort_arguments
from lamina.errors import LaminaError
from lamina.utils.files import limited_to

if TYPE_CHECKING:
    from lamina.reader.documents import Document
    from lamina.reader.load import Reader
    from lamina.reader.replies import Reply


commands = typer.Typer()

OutputForm = Literal["text", "json", "jsonl"]
AFTER_DASHES = "lamina.ask.questions"  # where the context of the command keeps what follows `--`


class AskCommand(TyperCommand):
    """Keeps the words after `--` apart, which are questions even if files of these names exist."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[AFTER_DASHES] = args[at + 1 :]
        rest: list[str] = super().parse_args(ctx, args[:at])
        return rest


Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE|DIR|-|QUESTION",
        help="Name texts and ask questions. A name that exists is a text, - is standard input, the rest are questions.",
    ),
]
ContextOption = Annotated[
    list[str] | None,
    typer.Option(
        "--context",
        metavar="FILE|-",
        help="Read a .txt, .md, .html, .pdf or .docx file, or - for standard input. Repeatable.",
        rich_help_panel=TEXTS,
    ),
]
ContextsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--contexts",
        metavar="DIR|FILE",
        help="Read any number of files or folders, one file after the other. Repeatable.",
        rich_help_panel=TEXTS,
    ),
]
TextOption = Annotated[
    list[str] | None,
    typer.Option("--text", help="Answer from this text on the command line. Repeatable.", rich_help_panel=TEXTS),
]
TopK = Annotated[int, typer.Option("--top-k", min=1, help="Show so many answers to each question.", rich_help_panel=ANSWERS)]
Threshold = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        callback=a_number,
        help="Replace the model's threshold for no answer. A greater one answers more often, inf always.",
        rich_help_panel=ANSWERS,
    ),
]
MaxBytes = Annotated[
    int | None,
    typer.Option(
        "--max-bytes",
        min=1,
        metavar="N",
        help="Refuse files of more bytes, after unpacking. Without it: 268435456.",
        rich_help_panel=TEXTS,
    ),
]
JsonLines = Annotated[
    bool,
    typer.Option(
        "--jsonl", metavar="", help="Print each answer as a line of JSON, as soon as it is known.", rich_help_panel=OUTPUT
    ),
]


@commands.command(cls=AskCommand)
def ask(
    command: typer.Context,
    words: Words = None,
    context: ContextOption = None,
    contexts: ContextsOption = None,
    text: TextOption = None,
    max_bytes: MaxBytes = None,
    model: Annotated[str, typer.Option("--model", help=MODEL_HELP, rich_help_panel=ANSWERS)] = DEFAULT_MODEL,
    top_k: TopK = 1,
    threshold: Threshold = None,
    as_json: Json = False,
    as_jsonl: JsonLines = False,
    device: Device = "auto",
    threads: Threads = None,
    backend: BackendOption = "auto",
    allow_pickle: Pickle = False,
) -> None:
    """Answer questions from texts, with a quoted span or "no answer".

    lamina ask report.pdf "Who signed it?" answers from one file.
    lamina ask docs/ "Who signed it?" searches all files of a folder.
    lamina ask report.pdf opens a conversation on a terminal.

    Up to 32 files are read at once; an unreadable file is an error.
    A folder or more files are read one by one, in bounded memory.
    There, an unreadable file is skipped with a warning.
    Piped lines are questions if texts are named, else they are the text.
    Words after -- are always questions.
    """
    if max_bytes is not None:
        command.with_resource(limited_to(max_bytes))
    piped = sys.stdin is not None and not sys.stdin.isatty()
    form: OutputForm = "json" if as_json else "jsonl" if as_jsonl else "text"
    asked = sort_arguments(words or [], command.meta[AFTER_DASHES], context or [], contexts or [], text or [], piped=piped)
    talking = not asked.questions and not piped
    if talking and (form != "text" or sys.stdin is None or asked.streamed):
        raise LaminaError(_no_question(asked))
    documents = [] if asked.streamed else [*_documents(asked.files), *_texts(asked.texts)]
    if not talking and not asked.streamed and not documents:
        raise LaminaError("ask: there is no text to answer from. Fix: name a file or a folder, or give a text with --text")
    reader = load_model(model, device, threads, allow_pickle=allow_pickle, backend=backend)
    if talking:
        _converse(reader, documents, threshold, top_k)
        return
    _print_replies(_replies(reader, asked, documents, threshold, top_k), form)


def _replies(
    reader: Reader, asked: Asked, documents: list[Document], threshold: float | None, top_k: int
) -> Iterator[tuple[Reply, list[Document]]]:
    """Yield each reply with the documents that its quotes count."""
    groups = [asked.questions] if asked.questions else _some(_piped_questions(), asked)
    if asked.streamed:
        yield from _search(reader, groups, asked.files, threshold, top_k)
        return
    texts = [document.text for document in documents]
    for questions in groups:
        for reply in reader.replies(questions, texts, threshold=threshold, top_k=top_k):
            yield reply, documents


def _some(groups: Iterable[list[str]], asked: Asked) -> Iterator[list[str]]:
    """Yield the groups of questions. If there are none, raise LaminaError."""
    empty = True
    for group in groups:
        empty = False
        yield group
    if empty:
        raise LaminaError(_no_question(asked))


def _no_question(asked: Asked) -> str:
    files = [name for name in asked.files if name != "-"]
    shown = ", ".join(files[:3]) + (" …" if len(files) > 3 else "")
    taken = f" ({shown} {'exist, so they are texts' if len(files) > 1 else 'exists, so it is a text'})" if files else ""
    fix = "name one, or pipe them in, one a line" + ("; put a question that is also a name of a file after --" if files else "")
    return f"ask: there is no question{taken}. Fix: {fix}"


def _converse(reader: Reader, documents: list[Document], threshold: float | None, top_k: int) -> None:
    from lamina.cli.conversation import Conversation, converse

    _ = reader.trained.span_task  # refuses a model that does not answer questions
    print("Type a question; :help lists the commands.", file=sys.stderr)
    converse(Conversation(reader, documents, threshold=threshold, top_k=top_k), _prompt(), print)


def _search(
    reader: Reader, groups: Iterable[list[str]], places: list[str], threshold: float | None, top_k: int
) -> Iterator[tuple[Reply, list[Document]]]:
    """Yield the replies from many files, with the files that they quote. Each group of questions reads all files again."""
    from lamina.reader.search import files_in, search
    from lamina.utils.progress import shown

    files = files_in(places)
    for questions in groups:
        with shown() as progress:
            found = search(reader, questions, files, threshold=threshold, top_k=top_k, progress=progress)
        print(found.pace, file=sys.stderr)
        for reply in found.replies:
            yield reply, found.documents


def _print_replies(replies: Iterable[tuple[Reply, list[Document]]], form: OutputForm) -> None:
    """Print each reply as soon as it is known; with `--json`, all of them in one list."""
    from lamina.cli.conversation import reply_text
    from lamina.reader.replies import reply_json

    if form == "json":
        print_json([reply_json(reply, documents) for reply, documents in replies])
        return
    for reply, documents in replies:
        as_text = reply_text(reply, documents) if form == "text" else json_text(reply_json(reply, documents))
        print(as_text, flush=True)


def _documents(names: list[str]) -> list[Document]:
    from lamina.reader.documents import read_document

    return [_piped_document() if name == "-" else read_document(Path(name)) for name in names]


def _piped_document() -> Document:
    from lamina.reader.documents import make_document

    data = sys.stdin.buffer.read()
    if not data.strip():
        raise LaminaError("standard input: is empty, so there is no text to answer from. Fix: name a file or a folder")
    return make_document("standard input", data)


def _texts(texts: list[str]) -> list[Document]:
    from lamina.reader.documents import Document

    return [Document(f"text {number}" if len(texts) > 1 else "the text", text) for number, text in enumerate(texts, 1)]


def _piped_questions() -> Iterator[list[str]]:
    """Yield the lines of standard input in groups: all that have arrived, so that a single line is answered at once."""
    number, rest = 0, b""
    while True:
        data = cast(io.BufferedReader, sys.stdin.buffer).read1(1 << 16)
        *lines, rest = (rest + data).split(b"\n") if data else (rest, b"")
        found = []
        for line in lines:
            number += 1
            found.append(_piped_question(line, number))
        if questions := [line for line in found if line]:
            yield questions
        if not data:
            return


def _piped_question(line: bytes, number: int) -> str:
    question = decode_line(line, number)
    if question.startswith(":"):
        raise LaminaError(
            f"standard input, line {number}: {question.split()[0]} is a command of the conversation, not a question. "
            "Fix: leave the line out; --top-k 6 shows the runners-up of every answer"
        )
    return question


def _prompt() -> Callable[[], str]:
    """Return `input` with a history that lasts between conversations, if the platform and the disk allow one."""
    from contextlib import suppress

    with suppress(ImportError, OSError, LaminaError):
        import atexit
        import readline

        from lamina.utils.files import make_folder
        from lamina.utils.paths import cache_folder

        history = cache_folder() / "history"
        make_folder(history.parent)
        with suppress(FileNotFoundError):
            readline.read_history_file(history)
        readline.set_history_length(1000)

        @atexit.register
        def keep() -> None:
            with suppress(OSError):
                readline.write_history_file(history)

    return lambda: input("? ")
