"""Commands that score models and predictions, and that predict whole datasets."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lamina.cli.app import (
    DATA,
    MACHINE,
    OUTPUT,
    Address,
    BackendOption,
    DataOption,
    Device,
    Duplicates,
    EngineOption,
    Json,
    ModelArgument,
    Pickle,
    Precision,
    TaskOption,
    Threads,
    a_number,
    load_model,
    print_json,
    print_scores,
)
from lamina.errors import LaminaError
from lamina.utils.files import is_folder

if TYPE_CHECKING:
    from lamina.reader.distributed import Answerer
    from lamina.utils.spreading import Workers

commands = typer.Typer()

SCORES = "Scores"  # a panel of `lamina score`


@commands.command()
def evaluate(
    model: ModelArgument,
    data: DataOption,
    task: TaskOption = None,
    duplicate_ids: Duplicates = "error",
    as_json: Json = False,
    device: Device = "auto",
    threads: Threads = None,
    precision: Precision = "auto",
    backend: BackendOption = "auto",
    allow_pickle: Pickle = False,
) -> None:
    """Score a model on a dataset.

    Answers are scored at the model's threshold, at 0 and at the best threshold. Questions with several contexts are scored
    per context and per question. Sentences are scored by accuracy or by correlation.
    """
    from lamina.utils.progress import shown

    reader = load_model(model, device, threads, allow_pickle=allow_pickle, backend=backend, precision=precision)
    examples = reader.read(data, task=task, duplicate_ids=duplicate_ids)
    with shown() as progress:
        scores = reader.evaluate(examples, task=task, progress=progress)
    print_json(_tuned_first(scores)) if as_json else print_scores(scores)


PredictionsFile = Annotated[
    Path,
    typer.Option(
        "--out",
        help="Write the predictions by id as JSON, as the official SQuAD script reads them. For a folder of shards, a folder.",
        rich_help_panel=OUTPUT,
    ),
]
NbestFile = Annotated[Path | None, typer.Option("--nbest", help="Also write the n best answers.", rich_help_panel=OUTPUT)]
NullOddsFile = Annotated[Path | None, typer.Option("--null-odds", help="Also write the null odds.", rich_help_panel=OUTPUT)]
QuestionsFile = Annotated[
    Path | None,
    typer.Option(
        "--questions", help="Also write one answer for each question, over all of its contexts.", rich_help_panel=OUTPUT
    ),
]

PredictData = Annotated[
    str,
    typer.Option(
        "--data",
        help="Read questions or sentences: a file or the name of a dataset; or a folder of shards, each a file of questions.",
        rich_help_panel=DATA,
    ),
]
WorkerCount = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="Answer so many shards at once. Without it: one for each processor.",
        rich_help_panel=MACHINE,
    ),
]


@commands.command()
def predict(
    model: ModelArgument,
    data: PredictData,
    out: PredictionsFile,
    task: TaskOption = None,
    duplicate_ids: Duplicates = "error",
    nbest: NbestFile = None,
    null_odds: NullOddsFile = None,
    by_question: QuestionsFile = None,
    as_json: Json = False,
    device: Device = "auto",
    threads: Threads = None,
    precision: Precision = "auto",
    backend: BackendOption = "auto",
    allow_pickle: Pickle = False,
    engine: EngineOption = None,
    address: Address = None,
    workers: WorkerCount = None,
) -> None:
    """Write the predictions for a whole dataset: answers, answerability, or classes and scores of sentences.

    Answers and labels in the data are ignored. For a folder of shards, or a pattern of their names with --engine, each file
    of questions becomes a parquet file of answers. The same command continues where it stopped.
    """
    if engine is not None or is_folder(Path(data)):
        tables = {"--nbest": nbest, "--null-odds": null_odds, "--questions": by_question, "--task": task}
        if given := [name for name, value in tables.items() if value is not None]:
            raise LaminaError(
                f"{given[0]}: a folder of shards has none. Fix: leave it out; a shard's answers have the null odds"
            )
        if address is not None and engine != "ray":
            raise LaminaError("--address: only --engine ray has one. Fix: add --engine ray")
        from lamina.reader.distributed import Answerer
        from lamina.utils.spreading import Workers

        answerer = Answerer(
            model, threads=threads or 1, backend=backend, precision=precision, device=device, allow_pickle=allow_pickle
        )
        _predict_shards(
            data, out, answerer, Workers(engine or "local", workers, threads or 1, address), duplicate_ids, as_json=as_json
        )
        return
    if address is not None or workers is not None:
        option = "--workers" if address is None else "--address"
        raise LaminaError(f"{option}: only a folder of shards has it. Fix: leave it out, or add --engine")
    from lamina.data.sources import check_writes
    from lamina.tasks.kind import counted
    from lamina.tasks.registry import kind_of
    from lamina.utils.files import write_json
    from lamina.utils.progress import shown

    asked = {"predictions": out, "nbest": nbest, "null_odds": null_odds, "questions": by_question}
    files = {name: path for name, path in asked.items() if path is not None}
    for path in files.values():
        if not path.absolute().parent.is_dir():
            raise LaminaError(f"{path}: the folder {path.parent} does not exist. Fix: create it first")
    check_writes(data, list(files.values()))
    reader = load_model(model, device, threads, allow_pickle=allow_pickle, backend=backend, precision=precision)
    name, options = reader.task(task)
    kind = kind_of(options)
    if odd := [file for file in files if file not in kind.predicts]:
        option = f"--{odd[0].replace('_', '-')}"
        raise LaminaError(
            f"{option}: task {name!r} (head.type {options.head.type!r}) has no such predictions. Fix: leave the option out"
        )
    examples = reader.read(data, task=name, labelled=False, duplicate_ids=duplicate_ids)
    with shown() as progress:
        found = reader.predictions(examples, task=name, wanted=files, progress=progress)
    for file, path in files.items():
        write_json(path, found[file])
    counts, more = kind.counts(examples), kind.summary(found, reader.trained.decision(name))
    if as_json:
        print_json({**counts, **more, "task": name, "out": str(out)})
        return
    words = [counted(counts), *(f"{value} {what}" for what, value in more.items() if isinstance(value, int))]
    print(f"{', '.join(words)}, written to {out}")


def _predict_shards(
    data: str, out: Path, answerer: Answerer, workers: Workers, duplicate_ids: Literal["error", "rename"], *, as_json: bool
) -> None:
    from lamina.reader.shards import answer_shards
    from lamina.utils.progress import shown

    with shown() as progress, redirect_stdout(sys.stderr):  # Ray prints there that a worker was lost
        found = answer_shards(data, out, answerer, workers, duplicate_ids=duplicate_ids, progress=progress)
    if as_json:
        print_json({**asdict(found), "out": str(out)})
    else:
        before = f", {found.kept} of them before" if found.kept else ""
        print(f"{found.questions} questions in {found.shards - len(found.failed)} shards{before}, ", end="")
        print(f"{found.answered} answered, written to {out}")
    if found.failed:
        first, reason = next(iter(found.failed.items()))
        more = f" and {len(found.failed) - 1} more" if len(found.failed) > 1 else ""
        raise LaminaError(f"{first}{more}: not answered: {reason}" + ("" if "Fix: " in reason else ". Fix: run it again"))


Predictions = Annotated[
    Path, typer.Option("--predictions", help="Read these predictions, in the official SQuAD format.", rich_help_panel=DATA)
]
NullOdds = Annotated[
    Path | None,
    typer.Option("--null-odds", help="Read the null odds that `lamina predict` wrote.", rich_help_panel=DATA),
]
Metric = Annotated[
    Literal["squad2", "squad1", "korquad"],
    typer.Option("--metric", help="Score by the rules of this benchmark.", rich_help_panel=SCORES),
]
Threshold = Annotated[
    float,
    typer.Option(
        "--threshold",
        callback=a_number,
        help="With --null-odds, count greater odds as no answer.",
        rich_help_panel=SCORES,
    ),
]
Missing = Annotated[
    Literal["error", "null"],
    typer.Option("--missing", help="Refuse missing predictions, or count them as no answer.", rich_help_panel=SCORES),
]
Nfc = Annotated[
    bool, typer.Option("--nfc", metavar="", help="With --metric korquad, compare both sides in NFC.", rich_help_panel=SCORES)
]
Per = Annotated[
    Literal["context", "question"],
    typer.Option("--per", help="Read predictions by context, or by question over all of its contexts.", rich_help_panel=SCORES),
]


@commands.command()
def score(
    data: DataOption,
    predictions: Predictions,
    null_odds: NullOdds = None,
    metric: Metric = "squad2",
    threshold: Threshold = 1.0,
    missing: Missing = "error",
    nfc: Nfc = False,
    per: Per = "context",
    duplicate_ids: Duplicates = "error",
    as_json: Json = False,
) -> None:
    """Score a file of predictions as the official scripts do: their keys, their values, their default threshold."""
    from lamina.data.sources import load_examples
    from lamina.scoring.korquad import score_composed, score_korquad
    from lamina.scoring.predictions import references, several_contexts, whole_questions
    from lamina.scoring.squad import score_squad1, score_squad2
    from lamina.utils.files import read_json

    if nfc and metric != "korquad":
        raise LaminaError("--nfc: only --metric korquad compares texts in NFC. Fix: leave it out")
    if missing == "null" and metric != "squad2":
        raise LaminaError(
            "--missing null: only --metric squad2 needs all predictions; the others count missing ones as 0. Fix: leave it out"
        )
    examples = load_examples(data, duplicate_ids=duplicate_ids)
    golds = references(examples if per == "context" else whole_questions(examples))
    if metric != "squad2" and per == "context" and several_contexts(examples) and not all(golds.values()):
        raise LaminaError(
            f"--metric {metric}: some contexts hold no answer. Fix: score with --per question, or with --metric squad2"
        )
    texts = _mapping(predictions, read_json(predictions))
    if metric != "squad2" and null_odds is not None:
        name = "SQuAD 1.1" if metric == "squad1" else "KorQuAD 1.0"
        raise LaminaError(f"--null-odds: {name} has no unanswerable questions. Fix: leave it out, or use --metric squad2")
    if metric == "squad1":
        scores = score_squad1(golds, texts)
    elif metric == "korquad":
        scores = score_composed(golds, texts) if nfc else score_korquad(golds, texts)
    else:
        odds = None if null_odds is None else _mapping(null_odds, read_json(null_odds))
        scores = score_squad2(golds, texts, odds, threshold=threshold, missing=missing)
    if as_json:
        print_json(scores)
        return
    for key, value in scores.items():
        print(f"{key}: {value:g}")


def _tuned_first(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scores at the tuned threshold on the top level, as the official script has them."""
    if "tuned" not in scores:
        return dict(scores)
    also = {name: values for name, values in scores.items() if name not in ("tuned", "best", "questions")}
    questions = {"questions": _tuned_first(scores["questions"])} if "questions" in scores else {}
    return {**scores["tuned"], **also, **questions}


def _mapping(path: Path, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise LaminaError(
            f"{path}: expected a JSON object of question ids, found a {type(value).__name__}. Fix: name the file that "
            "`lamina predict --out` wrote"
        )
    return value
