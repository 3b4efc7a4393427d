"""Commands that say something of sentences: their class, or how alike they are."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.cli.app import SENTENCE_MODEL, Device, Json, Threads, load_model, print_json
from lamina.errors import LaminaError

if TYPE_CHECKING:
    from lamina.reader.load import Text

commands = typer.Typer()

SentenceModel = Annotated[str, typer.Option("--model", help="A run folder of a recipe with heads of sentences.")]
TaskName = Annotated[str | None, typer.Option("--task", help="Which of the model's tasks, if it has several that fit.")]
Texts = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TEXT]...", help="Texts; none: they are read one a line, pairs with a tab between."),
]


@commands.command()
def classify(
    texts: Texts = None,
    model: SentenceModel = SENTENCE_MODEL,
    task: TaskName = None,
    second: Annotated[
        list[str] | None, typer.Option("--second", metavar="TEXT", help="Of pairs: the second text of each, in order.")
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Say which class texts or pairs of texts are of, and how sure that is."""
    given = _given(texts, second)
    reader = load_model(model, device, threads, allow_pickle=False)
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
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Say how alike texts are: the first is compared with each of the others; piped in, the two of each line."""
    if texts is not None and len(texts) == 1:
        raise LaminaError("there is one text, and nothing to compare it with: name two or more")
    pairs: list[Text] = [(texts[0], other) for other in texts[1:]] if texts else _given(None, None)
    firsts, seconds = [], []
    for pair in pairs:
        if isinstance(pair, str):
            raise LaminaError(f"{pair[:40]!r} is one text: put a tab between the two texts of a line")
        firsts.append(pair[0])
        seconds.append(pair[1])
    reader = load_model(model, device, threads, allow_pickle=False)
    scores = reader.similarity(firsts, seconds, task=task)
    if as_json:
        print_json([{"first": a, "second": b, "score": s} for a, b, s in zip(firsts, seconds, scores, strict=True)])
        return
    for a, b, score in zip(firsts, seconds, scores, strict=True):
        print(f"{score:.3f}  {a} | {b}")


def _given(texts: list[str] | None, second: list[str] | None) -> list[Text]:
    """The texts of the command line, or the lines of standard input."""
    if texts:
        if second and len(second) != len(texts):
            raise LaminaError(f"--second: {len(second)} second texts for {len(texts)} first ones: give one to each")
        return list(zip(texts, second, strict=True)) if second else [*texts]
    if second:
        raise LaminaError("--second: there are no first texts: name them before")
    if sys.stdin is None or sys.stdin.isatty():
        raise LaminaError("there is no text: name one, or pipe them in, one a line")
    found: list[Text] = []
    for number, line in enumerate(sys.stdin.buffer.read().split(b"\n"), 1):
        try:
            text = line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise LaminaError(f"standard input, line {number}, byte {error.start}: not UTF-8") from None
        if text:
            first, tab, other = text.partition("\t")
            found.append((first.strip(), other.strip()) if tab else text)
    if not found:
        raise LaminaError("there is no text: standard input is empty")
    return found
