"""Commands for sentences: their classes, and how similar they are."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.cli.app import (
    ANSWERS,
    SENTENCE_MODEL,
    TEXTS,
    BackendOption,
    Device,
    Json,
    Pickle,
    Threads,
    decode_line,
    load_model,
    print_json,
)
from lamina.errors import LaminaError

if TYPE_CHECKING:
    from lamina.reader.load import Text

commands = typer.Typer()

SentenceModel = Annotated[
    str,
    typer.Option("--model", help="Use this run folder, whose recipe has heads for sentences.", rich_help_panel=ANSWERS),
]
TaskName = Annotated[
    str | None, typer.Option("--task", help="Choose the task, if the model has several that fit.", rich_help_panel=ANSWERS)
]
Texts = Annotated[
    list[str] | None,
    typer.Argument(metavar="TEXT", help="Texts. Without them: lines of standard input, pairs with a tab between."),
]


@commands.command()
def classify(
    texts: Texts = None,
    model: SentenceModel = SENTENCE_MODEL,
    task: TaskName = None,
    second: Annotated[
        list[str] | None,
        typer.Option(
            "--second",
            metavar="TEXT",
            help="Make pairs: the second text of each, in the order of the first ones. Repeatable.",
            rich_help_panel=TEXTS,
        ),
    ] = None,
    as_json: Json = False,
    device: Device = "auto",
    threads: Threads = None,
    backend: BackendOption = "auto",
    allow_pickle: Pickle = False,
) -> None:
    """Print the class of each text or pair of texts, with its confidence."""
    given = _given(texts, second)
    reader = load_model(model, device, threads, allow_pickle=allow_pickle, backend=backend)
    labels = reader.classify(given, task=task)
    if as_json:
        print_json([{"text": text} | asdict(label) for text, label in zip(given, labels, strict=True)])
        return
    for text, label in zip(given, labels, strict=True):
        print(f"{label.label}  ({label.confidence:.0%})  {text if isinstance(text, str) else ' | '.join(text)}")


@commands.command()
def similar(
    texts: Texts = None,
    model: SentenceModel = SENTENCE_MODEL,
    task: TaskName = None,
    as_json: Json = False,
    device: Device = "auto",
    threads: Threads = None,
    backend: BackendOption = "auto",
    allow_pickle: Pickle = False,
) -> None:
    """Print how similar the first text is to each of the others.

    Piped lines hold two texts each, with a tab between.
    """
    if texts is not None and len(texts) == 1:
        raise LaminaError("similar: there is one text and nothing to compare it with. Fix: name two texts or more")
    pairs: list[Text] = [(texts[0], other) for other in texts[1:]] if texts else _given(None, None)
    firsts, seconds = [], []
    for pair in pairs:
        if isinstance(pair, str):
            raise LaminaError(f"{pair[:40]!r}: is one text. Fix: put a tab between the two texts of a line")
        firsts.append(pair[0])
        seconds.append(pair[1])
    reader = load_model(model, device, threads, allow_pickle=allow_pickle, backend=backend)
    scores = reader.similarity(firsts, seconds, task=task)
    if as_json:
        print_json([{"first": a, "second": b, "score": s} for a, b, s in zip(firsts, seconds, scores, strict=True)])
        return
    for a, b, score in zip(firsts, seconds, scores, strict=True):
        print(f"{score:.3f}  {a} | {b}")


def _given(texts: list[str] | None, second: list[str] | None) -> list[Text]:
    """Return the texts of the command line, or the lines of standard input."""
    if texts:
        if second and len(second) != len(texts):
            raise LaminaError(
                f"--second: {len(second)} second texts for {len(texts)} first ones. Fix: give one --second for each text"
            )
        return list(zip(texts, second, strict=True)) if second else [*texts]
    if second:
        raise LaminaError("--second: there are no first texts. Fix: name them before --second")
    if sys.stdin is None or sys.stdin.isatty():
        raise LaminaError("TEXT: there is no text. Fix: name one, or pipe them in, one a line")
    found: list[Text] = []
    for number, line in enumerate(sys.stdin.buffer.read().split(b"\n"), 1):
        text = decode_line(line, number)
        if text:
            first, tab, other = text.partition("\t")
            found.append((first.strip(), other.strip()) if tab else text)
    if not found:
        raise LaminaError("standard input: there is no text. Fix: pipe in one text or pair a line")
    return found
