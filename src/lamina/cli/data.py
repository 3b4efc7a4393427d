"""The commands of `lamina data`: look at, check, repair, convert and generate datasets."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from lamina.cli.app import Duplicates, Json, print_json

ANY_DATA = "a file, a pattern such as train-*.parquet, or a name on the hub."

commands = typer.Typer(
    help="Look at, check, repair, convert and generate datasets. Formats: JSON (SQuAD, rows, Label Studio, Haystack), JSONL, "
    "CSV, TSV and parquet, each also with .gz or .xz after it.",
    no_args_is_help=True,
)


@commands.command("list")
def data_list(as_json: Json = False) -> None:
    """List the bundled datasets and those in $LAMINA_DATA."""
    from lamina.data.sources import available

    found = available()
    if as_json:
        print_json([{"name": item.name, "format": item.format, "bytes": item.size} for item in found])
        return
    for item in found:
        print(f"{item.name}  {item.format}" + (f"  {item.size:,} bytes" if item.size is not None else ""))


@commands.command("check")
def data_check(data: Annotated[str, typer.Argument(help=f"Questions or sentences: {ANY_DATA}")], as_json: Json = False) -> None:
    """List all problems of questions or sentences, and count what the data holds. Exits with 2 if there are problems."""
    from lamina.data.sentences import SentenceReport
    from lamina.data.sources import check_data, locate_data

    report = check_data(data)
    if isinstance(report, SentenceReport):
        problems = report.problems(str(locate_data(data))) if report.broken else []
        holds, result = str(report), asdict(report)
    else:
        problems, holds = report.problems, str(report.counts)
        result = {"counts": asdict(report.counts), "problems": [str(problem) for problem in problems]}
    if as_json:
        print_json(result)
    else:
        for problem in problems:
            print(problem)
        print(holds)
    if problems:
        raise typer.Exit(2)


@commands.command("clean")
def data_clean(
    data: Annotated[str, typer.Argument(help=f"Questions to repair, never changed: {ANY_DATA}")],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write the repaired copy here, as SQuAD JSON. Without it: FILE-clean.json beside FILE."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a repaired copy of questions: answers aligned, duplicate ids renamed. What cannot be repaired is left out and
    listed."""
    from lamina.data.problems import number
    from lamina.data.sources import clean_data

    out, report = clean_data(data, out)
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
        print(f"repaired: {problem.fact}")
    for problem in report.dropped:
        print(f"left out: {problem.fact}")
    kept, repaired = number(report.kept, "question"), number(len(report.repaired), "problem")
    print(f"{out}: {kept}, {repaired} repaired, {len(report.dropped)} left out")


@commands.command("convert")
def data_convert(
    data: Annotated[str, typer.Argument(metavar="IN", help=f"Questions or sentences: {ANY_DATA}")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Write here, in the format of the ending. Replaces a file.")],
    duplicate_ids: Duplicates = "error",
    as_json: Json = False,
) -> None:
    """Convert questions or sentences to another format: .json (SQuAD), .jsonl, .csv, .tsv or .parquet, alone or with .gz or
    .xz."""
    from lamina.data.convert import convert
    from lamina.data.problems import number

    done = convert(data, out, duplicate_ids=duplicate_ids)
    if as_json:
        print_json({"out": str(out), **asdict(done)})
        return
    print(f"{out}: {number(done.rows, done.kind.removesuffix('s'))}")
    if done.not_copied:
        why = "examples do not have these fields" if done.kind == "questions" else "only parquet holds bytes"
        print(f"not copied, because {why}: {', '.join(done.not_copied)}")


@commands.command("make")
def data_make(
    name: Annotated[Literal["fables"], typer.Argument(help="The corpus to generate.")],
    out: Annotated[Path, typer.Option("--out", help="Write train.json, dev.json and tables of sentences into this folder.")],
    articles: Annotated[int | None, typer.Option("--articles", min=1, help="Number of articles in train.json.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of all random choices.")] = 0,
    as_json: Json = False,
) -> None:
    """Generate the synthetic corpus, a fictional encyclopaedia: questions as SQuAD 2.0 files, sentences as tables."""
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
    file: Annotated[str, typer.Argument(help=f"Questions with one context each: {ANY_DATA}")],
    bm25: Annotated[int, typer.Option("--bm25", min=1, metavar="K", help="Number of contexts a question, with its own.")],
    out: Annotated[Path, typer.Option("--out", help="Write here: .jsonl or .json, alone or with .gz or .xz after it.")],
    hits: Annotated[
        Literal["drop", "answerable", "impossible"],
        typer.Option("--hits", help="Other paragraphs with the text of an answer: drop them, or count them as either."),
    ] = "drop",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the order of contexts.")] = 0,
    duplicate_ids: Duplicates = "error",
    as_json: Json = False,
) -> None:
    """Give every question its own paragraph and the most similar other paragraphs of the file (BM25)."""
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
        found = with_neighbours(examples, bm25, seed=seed, hits=hits, progress=progress)
    multi_context.write_questions(out, found.questions)
    result = {"out": str(out), "questions": len(found.questions), "contexts": found.paragraphs, "hits": found.hits}
    if as_json:
        print_json(result)
        return
    became = {"drop": "are left out", "answerable": "count as answerable", "impossible": "count as impossible"}[hits]
    print(f"{out}: {len(found.questions)} questions with {found.paragraphs} contexts")
    print(f"{found.hits} other paragraphs hold the text of an answer by chance and {became}")
