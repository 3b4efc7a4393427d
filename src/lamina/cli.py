"""The commands. Each calls one plain function, imports what it needs when it runs, prints results to standard output and
everything else to standard error. Exit codes: 0, 2 for a mistake of the user's, 130 for Ctrl-C, 1 for anything else."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, cast

import typer

from lamina import __version__
from lamina.errors import LaminaError, LaminaWarning

if TYPE_CHECKING:
    from lamina.documents import Document
    from lamina.reader import Reader
    from lamina.recipe import Recipe

DEFAULT_MODEL = "runs/quickstart"
MODEL_HELP = "A run folder, or a question-answering checkpoint: a folder or a hub id."

app = typer.Typer(
    help="Fine-tunes BERT-family encoders for extractive question answering, and says what it cost.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
data_app = typer.Typer(help="Look at, check, repair and make data sets.", no_args_is_help=True)
recipes_app = typer.Typer(help="The recipes that come with Lamina.", no_args_is_help=True)
cache_app = typer.Typer(help="The stored states of frozen layers.", no_args_is_help=True)
app.add_typer(data_app, name="data")
app.add_typer(recipes_app, name="recipes")
app.add_typer(cache_app, name="cache")

RecipeArgument = Annotated[str, typer.Argument(help="A recipe: a TOML file, a run's recipe.json, or a name of `recipes list`.")]
Setting = Annotated[list[str], typer.Option("--set", metavar="TABLE.FIELD=VALUE", help="Change one field of the recipe.")]
ModelArgument = Annotated[str, typer.Argument(help=MODEL_HELP)]
Pickle = Annotated[bool, typer.Option("--allow-pickle", help="Read a checkpoint's pickled weights, which can hide code.")]
DataOption = Annotated[str, typer.Option("--data", help="A SQuAD JSON, CSV or JSONL file, or a name of `data list`.")]
Stores = Annotated[list[str] | None, typer.Argument(help="Stores, by the beginning of their names.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads to compute with; all cores if not given.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Duplicates = Annotated[
    Literal["error", "rename"], typer.Option("--duplicate-ids", help="What to do with ids that occur twice.")
]


def main() -> None:
    warnings.showwarning = _show_warning
    signal.signal(signal.SIGINT, lambda *_: _fail("lamina: interrupted", 130))
    try:
        app()
    except LaminaError as error:
        _fail(f"lamina: {error}", 2)
    except SystemExit as stop:
        if not isinstance(stop.__context__, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what the interpreter flushes at its end
        raise SystemExit(0) from None  # the reader of our output has gone, as in `lamina … | head`


def _fail(line: str, code: int) -> NoReturn:
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


@app.command()
def train(
    recipe: RecipeArgument,
    settings: Setting = [],  # noqa: B006 - typer reads the default
    out: Annotated[
        Path | None, typer.Option("--out", help="The run folder; runs/ and the recipe's last name if not given.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
    as_json: Json = False,
) -> None:
    """Train, evaluate and write a run folder."""
    from lamina import trainer
    from lamina.files import read_json
    from lamina.progress import shown

    read = _recipe(recipe, settings)
    try:
        with shown() as progress:
            run = trainer.train(read, out or Path("runs") / Path(recipe).stem, resume=resume, progress=progress)
    except KeyboardInterrupt:  # the loop has saved its state
        _fail("lamina: interrupted: the same command with --resume goes on from here", 130)
    info = read_json(run.info)
    scores = read_json(run.scores) if run.scores.exists() else {}
    result = {"run": str(run.path), "scores": scores, "threshold": info["threshold"], "costs": info["costs"]}
    if as_json:
        _print_json(result)
        return
    if scores:
        _print_scores(scores)
    costs = info["costs"]
    print(
        f"cost: {costs['train_seconds'] / 60:.1f} min of training on {costs['tokens']:,} tokens "
        f"({costs['tokens'] / costs['train_seconds']:,.0f} a second, "
        f"{100 * (1 - costs['read_seconds'] / costs['train_seconds']):.0f}% of the time computing), "
        f"{costs['store_seconds'] / 60:.1f} min of storing frozen layers, {costs['evaluate_seconds'] / 60:.1f} min of "
        f"evaluation, {costs['peak_memory_mb'] / 1000:.1f} GB of memory at most"
    )
    print(f"run: {run.path}")


@app.command()
def evaluate(
    model: ModelArgument,
    data: DataOption,
    duplicate_ids: Duplicates = "error",
    device: Device = "auto",
    threads: Threads = None,
    allow_pickle: Pickle = False,
    as_json: Json = False,
) -> None:
    """Score a model on a data set, at the model's own threshold, at 0 and at the best."""
    from lamina.data.sources import load_examples
    from lamina.progress import shown

    reader = _load(model, device, threads, allow_pickle=allow_pickle)
    examples = load_examples(data, duplicate_ids=duplicate_ids)
    with shown() as progress:
        scores = reader.evaluate(examples, progress)
    if as_json:
        _print_json(scores["tuned"] | {"zero": scores["zero"]})
    else:
        _print_scores(scores)


@app.command()
def predict(
    model: ModelArgument,
    data: DataOption,
    out: Annotated[Path, typer.Option("--out", help="Predictions, in the official SQuAD format.")],
    nbest: Annotated[Path | None, typer.Option("--nbest", help="Also write the n best answers.")] = None,
    null_odds: Annotated[Path | None, typer.Option("--null-odds", help="Also write the odds of no answer.")] = None,
    duplicate_ids: Duplicates = "error",
    device: Device = "auto",
    threads: Threads = None,
    allow_pickle: Pickle = False,
    as_json: Json = False,
) -> None:
    """Answer a whole data set. Gold answers in it are not looked at."""
    from lamina.answers.formats import nbest_json, null_odds_json, predictions_json
    from lamina.data.sources import load_examples
    from lamina.files import write_json
    from lamina.progress import shown

    for path in (out, nbest, null_odds):
        if path is not None and not path.absolute().parent.is_dir():
            raise LaminaError(f"{path}: the folder {path.parent} does not exist: make it first")
    reader = _load(model, device, threads, allow_pickle=allow_pickle)
    examples = load_examples(data, duplicate_ids=duplicate_ids, answers="ignore")
    with shown() as progress:
        predictions = reader.predict(examples, progress)
    texts = predictions_json(predictions, reader.threshold)
    write_json(out, texts)
    if nbest is not None:
        write_json(nbest, nbest_json(predictions))
    if null_odds is not None:
        write_json(null_odds, null_odds_json(predictions))
    result = {
        "questions": len(texts),
        "answered": sum(map(bool, texts.values())),
        "threshold": reader.threshold,
        "out": str(out),
    }
    if as_json:
        _print_json(result)
    else:
        print(f"{result['questions']} questions, {result['answered']} answered, written to {out}")


@app.command()
def score(
    data: DataOption,
    predictions: Annotated[Path, typer.Option("--predictions", help="Predictions in the official SQuAD format.")],
    null_odds: Annotated[Path | None, typer.Option("--null-odds", help="Odds of no answer, as `predict` writes them.")] = None,
    metric: Annotated[Literal["squad2", "squad1"], typer.Option("--metric", help="Whose rules.")] = "squad2",
    threshold: Annotated[float, typer.Option("--threshold", help="With --null-odds: above it, no answer.")] = 1.0,
    missing: Annotated[Literal["error", "null"], typer.Option("--missing", help="Predictions that are not there.")] = "error",
    duplicate_ids: Duplicates = "error",
    as_json: Json = False,
) -> None:
    """Score a file of predictions: the official scripts' keys and values, and their default threshold."""
    from lamina.data.sources import load_examples
    from lamina.evaluation import references
    from lamina.files import read_json
    from lamina.scoring.squad import score_squad1, score_squad2

    golds = references(load_examples(data, duplicate_ids=duplicate_ids))
    texts = _mapping(predictions, read_json(predictions))
    if metric == "squad1":
        if null_odds is not None:
            raise LaminaError("--null-odds: SQuAD 1.1 has no unanswerable questions: leave it out, or use --metric squad2")
        scores = score_squad1(golds, texts)
    else:
        odds = None if null_odds is None else _mapping(null_odds, read_json(null_odds))
        scores = score_squad2(golds, texts, odds, threshold=threshold, missing=missing)
    if as_json:
        _print_json(scores)
        return
    for key, value in scores.items():
        print(f"{key}: {value:g}")


@app.command()
def ask(
    questions: Annotated[
        list[str] | None, typer.Argument(metavar="[QUESTION]...", help="Questions; none: they are read one a line.")
    ] = None,
    context: Annotated[
        list[str] | None,
        typer.Option("--context", metavar="FILE|-", help="A .txt, .md, .html, .pdf or .docx file, or - for standard input."),
    ] = None,
    text: Annotated[list[str] | None, typer.Option("--text", help="A text, here on the command line.")] = None,
    model: Annotated[str, typer.Option("--model", help=MODEL_HELP)] = DEFAULT_MODEL,
    top_k: Annotated[int, typer.Option("--top-k", min=1, help="How many answers to show.")] = 1,
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="Replaces the model's own; greater answers more.")
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
    from lamina.asking import Conversation, converse, reply_json, reply_text

    piped = sys.stdin is not None and not sys.stdin.isatty()
    files, texts = context or [], text or []
    if piped and questions and not files and not texts:
        files = ["-"]  # what is piped in is the text
    if files.count("-") > (1 if questions else 0):
        raise LaminaError("--context -: standard input is read once: name the questions, and other texts as files")
    documents = [*_documents(files), *_texts(texts)]
    if not questions and not piped:
        if as_json or as_jsonl or sys.stdin is None:
            raise LaminaError("there is no question: name one, or pipe them in, one a line")
        reader = _load(model, device, threads, allow_pickle=allow_pickle)
        print("Ask away; :help says what else there is.", file=sys.stderr)
        converse(Conversation(reader, documents, threshold=threshold, top_k=top_k), _prompt(), print)
        return

    if not documents:
        raise LaminaError("there is no text to answer from: name one with --context FILE, or give it with --text")
    reader = _load(model, device, threads, allow_pickle=allow_pickle)
    contexts = [document.text for document in documents]
    together = [questions] if questions else _lines_as_they_come()
    replies = (reply for some in together for reply in reader.replies(some, contexts, threshold=threshold, top_k=top_k))
    if as_json:
        _print_json([reply_json(reply, documents) for reply in replies])
        return
    for reply in replies:
        print(_one_line_json(reply_json(reply, documents)) if as_jsonl else reply_text(reply, documents), flush=True)


@app.command()
def export(
    model: ModelArgument,
    out: Annotated[Path, typer.Argument(help="The new folder.")],
    to: Annotated[Literal["transformers"], typer.Option("--to", help="Whose format.")] = "transformers",
    allow_pickle: Pickle = False,
    as_json: Json = False,
) -> None:
    """Write a model as a folder that other libraries load."""
    from lamina.export import export

    export(_load(model, "cpu", None, allow_pickle=allow_pickle), out)
    if as_json:
        _print_json({"out": str(out), "format": to})
    else:
        print(f"{out}: AutoModelForQuestionAnswering.from_pretrained loads it")


@app.command()
def ensemble(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Finished runs, scored on the same questions.")],
    out: Annotated[Path, typer.Option("--out", help="The new folder.")],
    how: Annotated[Literal["max", "mean"], typer.Option("--how", help="Of the runs' probabilities.")] = "max",
    data: Annotated[
        str | None, typer.Option("--data", help="The runs' dev set, if it is not where the first run's recipe says.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Let several runs answer their dev set together, from what they saved: no model is loaded."""
    from lamina.ensembling import ensemble
    from lamina.progress import shown

    with shown() as progress:
        result = ensemble(runs, out, how=how, data=data, progress=progress)
    if as_json:
        _print_json(result)
        return
    _print_scores(result["scores"])
    counts = result["counts"]
    print(f"{counts['wrong']} wrong, of which {counts['second_right']} have the right answer second")
    print(f"ensemble: {out}")


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run, or an ensemble.")],
    b: Annotated[Path, typer.Argument(metavar="RUN", help="Another, scored on the same questions. Is it better?")],
    data: Annotated[
        str | None, typer.Option("--data", help="Their dev set, if it is not where the first run's recipe says.")
    ] = None,
    metric: Annotated[Literal["f1", "exact"], typer.Option("--metric", help="The official score to compare.")] = "f1",
    at: Annotated[Literal["tuned", "zero"], typer.Option("--at", help="Their own thresholds for no answer, or 0.")] = "tuned",
    clusters: Annotated[
        Literal["context", "article", "question"], typer.Option("--clusters", help="Questions that depend on each other.")
    ] = "context",
    as_json: Json = False,
) -> None:
    """Say whether the second run is better than the first, or whether it may be chance, from what they saved."""
    from lamina.comparing import compare, lines

    result = compare(a, b, data=data, metric=metric, at=at, clusters=clusters)
    if as_json:
        _print_json(result)
    else:
        print("\n".join(lines(result)))


@app.command()
def inspect(
    recipe: RecipeArgument,
    settings: Setting = [],  # noqa: B006 - typer reads the default
    f1: Annotated[float | None, typer.Option("--f1", help="The F1 it reached; a run's own if not given.")] = None,
    plot_schedule: Annotated[bool, typer.Option("--plot-schedule", help="Draw the learning rate over the training.")] = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Say what a recipe will cost: parameters, work, memory, time. Needs no weights."""
    import torch

    from lamina import inspection
    from lamina.bundled import recipe_path

    if threads:
        torch.set_num_threads(threads)
    if f1 is None and not settings:
        f1 = inspection.f1_beside(recipe_path(recipe))
    read = _recipe(recipe, settings)
    report = inspection.inspect(read, f1)
    if plot_schedule:
        epochs = (report["training"] or {}).get("epochs") or read.train.epochs
        report["schedule"] = inspection.schedule_points(read.train, epochs)
    if as_json:
        _print_json(report)
        return
    parameters = report["parameters"]
    print(f"parameters: {parameters['total']:,}, of which {parameters['trainable']:,} train")
    for part, count in parameters["by_part"].items():
        print(f"  {part}: {count:,}, of which {parameters['trainable_by_part'].get(part, 0):,} train")
    if f1 is not None:
        print(f"efficiency: {report['efficiency']:.2f} = (F1 {f1:.1f} - 50) / log10(trained parameters)")
    if training := report["training"]:
        print(
            f"training: {training['questions']:,} questions, {training['windows']:,} windows, "
            f"{training['tokens_per_epoch']:,} tokens an epoch, {training['epochs'] or 'as many'} epochs"
        )
        if store := training["store"]:
            beyond = "" if store["fits"] else ", more than cache.max_gb: the encoder will run live"
            print(f"store: {store['gb']:g} GB of layers {', '.join(map(str, store['layers']))} in {store['dtype']}{beyond}")
        print(
            f"work: {training['flops'] / 1e12:,.0f} TFLOP in the encoder, about {training['estimated_minutes']:g} minutes here"
        )
    else:
        print(report["note"])
    print(f"memory: about {report['memory_mb']:,} MB besides the libraries")
    if plot_schedule:
        from lamina.drawing import curve

        print(f"schedule: {read.train.schedule}, the learning rate over {epochs:g} epochs")
        print("\n".join(curve([point["lr"] for point in report["schedule"]], read.train.lr)))


@app.command()
def layers(
    run: ModelArgument,
    data: DataOption,
    example: Annotated[str | None, typer.Option("--example", help="The id of the question to show token by token.")] = None,
    questions: Annotated[int | None, typer.Option("--questions", min=1, help="Look at the first so many only.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The folder for what is written; RUN/layers if not given.")] = None,
    duplicate_ids: Duplicates = "error",
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Say which layers answer which questions, for the mixers learned, dot, multiplicative and encoder."""
    from lamina import layers as looking
    from lamina.data.sources import load_examples
    from lamina.files import expanded
    from lamina.progress import shown

    reader = _load(run, device, threads, allow_pickle=False)
    examples = load_examples(data, duplicate_ids=duplicate_ids, answers="ignore")[:questions]
    with shown() as progress:
        seen = looking.look(reader, examples, example=example, progress=progress)
    files = looking.write(seen, expanded(run) / "layers" if out is None else out)
    if as_json:
        strip = asdict(seen.example) | {"weights": seen.example.weights.tolist()}
        _print_json(asdict(seen) | {"example": strip, "files": [str(file) for file in files]})
        return
    print("\n".join(looking.table_lines(seen)))
    print(f"\nquestion {seen.example.id}: {seen.example.question}")
    print(f"answer: {'no answer' if seen.example.answer is None else seen.example.answer}")
    print("\n".join(looking.strip_lines(seen.example)))
    print(f"written: {', '.join(map(str, files))}")


@data_app.command("list")
def data_list(as_json: Json = False) -> None:
    """List the bundled data sets and those in $LAMINA_DATA."""
    from lamina.data.sources import available

    found = available()
    if as_json:
        _print_json([{"name": item.name, "format": item.format, "bytes": item.size} for item in found])
        return
    for item in found:
        print(f"{item.name}  {item.format}" + (f"  {item.size:,} bytes" if item.size is not None else ""))


@data_app.command("check")
def data_check(file: Annotated[Path, typer.Argument(help="The file to check.")], as_json: Json = False) -> None:
    """List all problems of a file, and count what is in it. Exits with 2 if there are problems."""
    from dataclasses import asdict

    from lamina.data.squad import check

    report = check(file)
    if as_json:
        _print_json({"counts": asdict(report.counts), "problems": [str(problem) for problem in report.problems]})
    else:
        for problem in report.problems:
            print(problem)
        print(report.counts)
    if report.problems:
        raise typer.Exit(2)


@data_app.command("clean")
def data_clean(
    file: Annotated[Path, typer.Argument(help="The file to repair; it is never changed.")],
    out: Annotated[Path, typer.Option("--out", help="The repaired copy, as SQuAD JSON.")],
    as_json: Json = False,
) -> None:
    """Write a repaired copy: answers re-aligned, duplicate ids renamed, what cannot be repaired left out and named."""
    from lamina.data.squad import clean

    report = clean(file, out)
    if as_json:
        _print_json(
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


@data_app.command("make")
def data_make(
    name: Annotated[Literal["fables"], typer.Argument(help="Which corpus.")],
    out: Annotated[Path, typer.Option("--out", help="The folder for train.json and dev.json.")],
    articles: Annotated[int | None, typer.Option("--articles", min=1, help="Articles of the training set.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Write the bundled corpus, a fictional encyclopaedia with questions, as SQuAD 2.0 files."""
    from lamina.data import fables
    from lamina.files import make_folder, write_json

    make_folder(out)
    written = {}
    for split in ("train", "dev"):
        corpus = fables.make(split, articles=articles if split == "train" else None, seed=seed)
        write_json(out / f"{split}.json", corpus)
        written[str(out / f"{split}.json")] = sum(len(p["qas"]) for a in corpus["data"] for p in a["paragraphs"])
    if as_json:
        _print_json(written)
        return
    for path, questions in written.items():
        print(f"{path}: {questions} questions")


@cache_app.command("list")
def cache_list(as_json: Json = False) -> None:
    """List the stores, the last used first."""
    from lamina.cache.housekeeping import ago, list_stores

    stores = list_stores()
    if as_json:
        _print_json([asdict(store) for store in stores])
        return
    for store in stores:
        whole = "" if store.share == 1 else f", {store.share:.0%} written"
        layers = ", ".join(map(str, store.layers))
        print(
            f"{store.name}  {store.bytes / 1e6:,.0f} MB  layers {layers} of {store.model} on {store.data} in {store.dtype}"
            f"{whole}, used {ago(store.used)} ago"
        )
    print(f"{len(stores)} stores, {sum(store.bytes for store in stores) / 1e9:.2f} GB", file=sys.stderr)


@cache_app.command("verify")
def cache_verify(
    names: Annotated[list[str] | None, typer.Argument(help="Stores, by the beginning of their names.")] = None,
) -> None:
    """Check the checksums of some stores, or of all. What is damaged is computed again when it is next needed."""
    from lamina.cache.housekeeping import list_stores, verify_store

    problems = 0
    for name in names or [store.name for store in list_stores()]:
        found = verify_store(name)
        problems += len(found)
        print("\n".join(found) if found else f"{name}: sound")
    if problems:
        raise LaminaError(f"{problems} shards are missing or damaged: the next training computes them again")


@cache_app.command("clear")
def cache_clear(
    names: Stores = None,
    everything: Annotated[bool, typer.Option("--all", help="Every store.")] = False,
) -> None:
    """Remove stores. All they hold can be computed again."""
    from lamina.cache.housekeeping import clear_store, list_stores

    if bool(names) == everything:
        raise LaminaError("name the stores to clear, or say --all: `lamina cache list` shows them")
    for name in names or [store.name for store in list_stores()]:
        print(f"{name}: {clear_store(name) / 1e6:,.0f} MB cleared")


@recipes_app.command("list")
def recipes_list(as_json: Json = False) -> None:
    """List the recipes that come with Lamina."""
    from lamina.bundled import recipe_names

    if as_json:
        _print_json(recipe_names())
    else:
        print("\n".join(recipe_names()))


@recipes_app.command("show")
def recipes_show(name: str, as_json: Json = False) -> None:
    """Print a recipe; with --json, whole, defaults included."""
    from lamina.bundled import recipe_path
    from lamina.files import read_text
    from lamina.recipe import read_recipe

    path = recipe_path(name)
    if as_json:
        _print_json(read_recipe(path).model_dump(mode="json"))
    else:
        print(read_text(path), end="")


def _recipe(name: str, settings: list[str]) -> Recipe:
    from lamina.bundled import recipe_path
    from lamina.recipe import read_recipe

    return read_recipe(recipe_path(name), settings)


def _load(model: str, device: str, threads: int | None, *, allow_pickle: bool) -> Reader:
    if model == DEFAULT_MODEL and not Path(model).exists():
        raise LaminaError(f"{model}: there is no model yet: run `make quickstart`, or `lamina train`, or name one")
    from lamina.reader import load

    return load(model, device=device, threads=threads, allow_pickle=allow_pickle)


def _documents(names: list[str]) -> list[Document]:
    from lamina.documents import make_document, read_document

    return [
        make_document("standard input", sys.stdin.buffer.read()) if name == "-" else read_document(Path(name)) for name in names
    ]


def _texts(texts: list[str]) -> list[Document]:
    from lamina.documents import Document

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

        from lamina.files import make_folder
        from lamina.paths import cache_folder

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


def _mapping(path: Path, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise LaminaError(f"{path}: expected a JSON object of question ids, found a {type(value).__name__}")
    return value


def _one_line_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=1))


def _print_scores(scores: Mapping[str, Any]) -> None:
    """Of answers, a line a threshold; of anything else, a line a score."""
    if not all(isinstance(values, Mapping) for values in scores.values()):
        print(", ".join(f"{name} {value:.2f}" for name, value in scores.items()))
        return
    print(f"{'threshold':<18}{'EM':>7}{'F1':>7}{'HasAns EM':>11}{'F1':>7}{'NoAns':>8}")
    for name, values in scores.items():
        label = f"{name} ({values['threshold']:.2f})" if name in ("tuned", "best") else name.replace("zero", "0")
        cells = [("exact", 7), ("f1", 7), ("HasAns_exact", 11), ("HasAns_f1", 7), ("NoAns_f1", 8)]
        print(f"{label:<18}" + "".join(f"{values[k]:>{w}.2f}" if k in values else " " * w for k, w in cells))
