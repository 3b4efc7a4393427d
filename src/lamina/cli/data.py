"""`lamina data`: data sets."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from lamina.cli.app import Duplicates, Json, print_json

commands = typer.Typer(help="Look at, check, repair and make data sets.", no_args_is_help=True)


@commands.command("list")
def data_list(as_json: Json = False) -> None:
    """List the bundled data sets and those in $LAMINA_DATA."""
    from lamina.data.sources import available

    found = available()
    if as_json:
        print_json([{"name": item.name, "format": item.format, "bytes": item.size} for item in found])
        return
    for item in found:
        print(f"{item.name}  {item.format}" + (f"  {item.size:,} bytes" if item.size is not None else ""))


@commands.command("check")
def data_check(file: Annotated[Path, typer.Argument(help="The file to check.")], as_json: Json = False) -> None:
    """List all problems of a file of questions or of sentences, and count what is in it. Exits with 2 if there are
    problems."""
    from lamina.data import multi_context, squad
    from lamina.data.sentences import check_sentences, holds_sentences

    if holds_sentences(file):
        found = check_sentences(file)
        if as_json:
            print_json(asdict(found))
        else:
            for line, what in found.broken.items():
                print(f"{file}: line {line}: {what}")
            print(found)
        if found.broken:
            raise typer.Exit(2)
        return
    report = multi_context.check_multi_context(file) if multi_context.holds_contexts(file) else squad.check(file)
    if as_json:
        print_json({"counts": asdict(report.counts), "problems": [str(problem) for problem in report.problems]})
    else:
        for problem in report.problems:
            print(problem)
        print(report.counts)
    if report.problems:
        raise typer.Exit(2)


@commands.command("clean")
def data_clean(
    file: Annotated[Path, typer.Argument(help="The file to repair; it is never changed.")],
    out: Annotated[Path, typer.Option("--out", help="The repaired copy, as SQuAD JSON.")],
    as_json: Json = False,
) -> None:
    """Write a repaired copy: answers re-aligned, duplicate ids renamed, what cannot be repaired left out and named."""
    from lamina.data.squad import clean

    report = clean(file, out)
    if as_json:
        print_json(
            {
                "out": str(out),
                "kept": report.kept,
                "repaired": [str(problem) for problem in report.repaired],
                "dropped": [str(problem) for problem in report.dropped],
            }
        )
        return
    for problem in report.repaired:
        print(f"repaired: {problem}")
    for problem in report.dropped:
        print(f"left out: {problem}")
    print(f"{out}: {report.kept} questions, {len(report.repaired)} problems mended, {len(report.dropped)} that could not be")


@commands.command("make")
def data_make(
    name: Annotated[Literal["fables"], typer.Argument(help="Which corpus.")],
    out: Annotated[Path, typer.Option("--out", help="The folder for train.json and dev.json, and tables of sentences.")],
    articles: Annotated[int | None, typer.Option("--articles", min=1, help="Articles of the training set.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Write the bundled corpus, a fictional encyclopaedia: questions as SQuAD 2.0 files, sentences as tables."""
    from lamina.data import fables
    from lamina.data.fables.sentences import write_sentences
    from lamina.utils.files import make_folder, write_json

    make_folder(out)
    written = {}
    for split in ("train", "dev"):
        corpus = fables.make(split, articles=articles if split == "train" else None, seed=seed)
        write_json(out / f"{split}.json", corpus)
        written[str(out / f"{split}.json")] = sum(len(p["qas"]) for a in corpus["data"] for p in a["paragraphs"])
    tables = write_sentences(out, seed)
    if as_json:
        print_json(written | {str(path): rows for path, rows in tables.items()})
        return
    for path, questions in written.items():
        print(f"{path}: {questions} questions")
    for table, rows in tables.items():
        print(f"{table}: {rows} sentences or pairs")


@commands.command("contexts")
def data_contexts(
    file: Annotated[str, typer.Argument(help="Questions with one context each: a file, or a name of `data list`.")],
    bm25: Annotated[int, typer.Option("--bm25", min=1, metavar="K", help="Contexts a question, its own among them.")],
    out: Annotated[Path, typer.Option("--out", help="The new file: .jsonl or .json, alone or with .gz or .xz after it.")],
    hits: Annotated[
        Literal["drop", "answerable", "impossible"],
        typer.Option("--hits", help="Other paragraphs that hold an answer's text by chance: pass over, or count as either."),
    ] = "drop",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Draws the order of a question's contexts.")] = 0,
    duplicate_ids: Duplicates = "error",
    as_json: Json = False,
) -> None:
    """Put every question to its own paragraph and to others of the file that look most like it (BM25)."""
    from lamina.data import multi_context
    from lamina.data.bm25 import with_neighbours
    from lamina.data.sources import check_writes, load_examples
    from lamina.utils.files import make_folder
    from lamina.utils.progress import shown

    multi_context.check_name(out)
    check_writes(file, [out])
    make_folder(out.parent)
    examples = load_examples(file, duplicate_ids=duplicate_ids)
    with shown() as progress:
        made = with_neighbours(examples, bm25, seed=seed, hits=hits, progress=progress)
    multi_context.write_questions(out, made.questions)
    result = {"out": str(out), "questions": len(made.questions), "contexts": made.paragraphs, "hits": made.hits}
    if as_json:
        print_json(result)
        return
    became = {"drop": "were passed over", "answerable": "count as answerable", "impossible": "count as impossible"}[hits]
    print(f"{out}: {len(made.questions)} questions with {made.paragraphs} contexts")
    print(f"{made.hits} other paragraphs hold an answer's text by chance and {became}")
