"""The command that answers questions."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from lamina.cli.app import (
    DEFAULT_MODEL,
    MODEL_HELP,
    Device,
    Json,
    Pickle,
    Threads,
    a_number,
    load_model,
    print_json,
)
from lamina.errors import LaminaError

if TYPE_CHECKING:
    from lamina.reader.documents import Document
    from lamina.reader.load import Reader
    from lamina.reader.replies import Reply


commands = typer.Typer()

OutputForm = Literal["text", "json", "jsonl"]  # of what is printed


@commands.command()
def ask(
    questions: Annotated[
        list[str] | None, typer.Argument(metavar="[QUESTION]...", help="Questions; none: they are read one a line.")
    ] = None,
    context: Annotated[
        list[str] | None,
        typer.Option("--context", metavar="FILE|-", help="A .txt, .md, .html, .pdf or .docx file, or - for standard input."),
    ] = None,
    contexts: Annotated[
        list[str] | None,
        typer.Option("--contexts", metavar="DIR|FILE", help="Files without number, read one after the other; may be repeated."),
    ] = None,
    text: Annotated[list[str] | None, typer.Option("--text", help="A text, here on the command line.")] = None,
    model: Annotated[str, typer.Option("--model", help=MODEL_HELP)] = DEFAULT_MODEL,
    top_k: Annotated[int, typer.Option("--top-k", min=1, help="How many answers to show.")] = 1,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", callback=a_number, help="Replaces the model's own; greater answers more, inf always."),
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    allow_pickle: Pickle = False,
    as_json: Json = False,
    as_jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Print each answer as a line of JSON, as soon as it is known.")
    ] = False,
) -> None:
    """Answer questions from texts, with a quoted span or an honest "no answer"."""
    piped = sys.stdin is not None and not sys.stdin.isatty()
    form: OutputForm = "json" if as_json else "jsonl" if as_jsonl else "text"
    files, texts = context or [], text or []
    if contexts and (files or texts):
        raise LaminaError("--contexts reads files one after the other, --context and --text keep theirs: give either")
    if contexts and not questions and not piped:
        raise LaminaError("--contexts: there is no question: name one, or pipe them in, one a line")
    if piped and questions and not files and not texts and not contexts:
        files = ["-"]  # what is piped in is the text
    if files.count("-") > (1 if questions else 0):
        raise LaminaError("--context -: standard input is read once: name the questions, and other texts as files")
    documents = [*_documents(files), *_texts(texts)]
    talking = not questions and not piped
    if talking and (form != "text" or sys.stdin is None):
        raise LaminaError("there is no question: name one, or pipe them in, one a line")
    if not talking and not contexts and not documents:
        raise LaminaError("there is no text to answer from: name one with --context FILE, or give it with --text")
    reader = load_model(model, device, threads, allow_pickle=allow_pickle)
    if talking:
        _converse(reader, documents, threshold, top_k)
        return
    asked = [questions] if questions else _lines_as_they_come()
    if contexts:
        _print_replies(_search(reader, asked, contexts, threshold, top_k), form)
        return
    given = [document.text for document in documents]
    replies = (reply for some in asked for reply in reader.replies(some, given, threshold=threshold, top_k=top_k))
    _print_replies(((reply, documents) for reply in replies), form)


def _converse(reader: Reader, documents: list[Document], threshold: float | None, top_k: int) -> None:
    from lamina.cli.conversation import Conversation, converse

    _ = reader.trained.span_task  # refuses a model that does not answer questions
    print("Ask away; :help says what else there is.", file=sys.stderr)
    converse(Conversation(reader, documents, threshold=threshold, top_k=top_k), _prompt(), print)


def _search(
    reader: Reader, asked: Iterable[list[str]], places: list[str], threshold: float | None, top_k: int
) -> Iterator[tuple[Reply, list[Document]]]:
    """The replies from many files, with the files that they quote; all files are read again for each group of questions."""
    from lamina.reader.search import files_in, search
    from lamina.utils.progress import shown

    files = files_in(places)
    for questions in asked:
        with shown() as progress:
            found = search(reader, questions, files, threshold=threshold, top_k=top_k, progress=progress)
        print(found.pace, file=sys.stderr)
        for reply in found.replies:
            yield reply, found.documents


def _print_replies(replies: Iterable[tuple[Reply, list[Document]]], form: OutputForm) -> None:
    """Prints each reply as soon as it is known; as JSON, all of them in one list."""
    from lamina.cli.conversation import reply_text
    from lamina.reader.replies import reply_json

    if form == "json":
        print_json([reply_json(reply, documents) for reply, documents in replies])
        return
    for reply, documents in replies:
        as_text = reply_text(reply, documents) if form == "text" else _one_line_json(reply_json(reply, documents))
        print(as_text, flush=True)


def _documents(names: list[str]) -> list[Document]:
    from lamina.reader.documents import make_document, read_document

    return [
        make_document("standard input", sys.stdin.buffer.read()) if name == "-" else read_document(Path(name)) for name in names
    ]


def _texts(texts: list[str]) -> list[Document]:
    from lamina.reader.documents import Document

    return [Document(f"text {number}" if len(texts) > 1 else "the text", text) for number, text in enumerate(texts, 1)]


def _lines_as_they_come() -> Iterator[list[str]]:
    """The lines of standard input, in groups: all that are there already, so that a lonely one is not kept waiting."""
    number, rest = 0, b""
    while True:
        data = cast(io.BufferedReader, sys.stdin.buffer).read1(1 << 16)
        *lines, rest = (rest + data).split(b"\n") if data else (rest, b"")
        found = []
        for line in lines:
            number += 1
            try:
                found.append(line.decode("utf-8").strip())
            except UnicodeDecodeError as error:
                raise LaminaError(f"standard input, line {number}, byte {error.start}: not UTF-8") from None
        if questions := [line for line in found if line]:
            yield questions
        if not data:
            return


def _prompt() -> Callable[[], str]:
    """`input` with a history that is kept between conversations, where the platform and the disk have room for one."""
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


def _one_line_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
