"""Commands that answer questions, and that score answers."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from lamina.cli.app import (
    DEFAULT_MODEL,
    MODEL_HELP,
    DataOption,
    Device,
    Duplicates,
    Json,
    ModelArgument,
    Pickle,
    Threads,
    load_model,
    print_json,
    print_scores,
)
from lamina.errors import LaminaError

if TYPE_CHECKING:
    from lamina.reader.documents import Document
    from lamina.reader.load import Reader


commands = typer.Typer()


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
    from lamina.cli.conversation import Conversation, converse, reply_text
    from lamina.reader.replies import reply_json

    piped = sys.stdin is not None and not sys.stdin.isatty()
    files, texts = context or [], text or []
    if contexts:
        if files or texts:
            raise LaminaError("--contexts reads files one after the other, --context and --text keep theirs: give either")
        if not questions and not piped:
            raise LaminaError("--contexts: there is no question: name one, or pipe them in, one a line")
        asked = [questions] if questions else _lines_as_they_come()
        reader = load_model(model, device, threads, allow_pickle=allow_pickle)
        _search(reader, asked, contexts, threshold, top_k, "json" if as_json else "jsonl" if as_jsonl else "text")
        return
    if piped and questions and not files and not texts:
        files = ["-"]  # what is piped in is the text
    if files.count("-") > (1 if questions else 0):
        raise LaminaError("--context -: standard input is read once: name the questions, and other texts as files")
    documents = [*_documents(files), *_texts(texts)]
    if not questions and not piped:
        if as_json or as_jsonl or sys.stdin is None:
            raise LaminaError("there is no question: name one, or pipe them in, one a line")
        reader = load_model(model, device, threads, allow_pickle=allow_pickle)
        reader.check_answers()
        print("Ask away; :help says what else there is.", file=sys.stderr)
        converse(Conversation(reader, documents, threshold=threshold, top_k=top_k), _prompt(), print)
        return

    if not documents:
        raise LaminaError("there is no text to answer from: name one with --context FILE, or give it with --text")
    reader = load_model(model, device, threads, allow_pickle=allow_pickle)
    given = [document.text for document in documents]
    together = [questions] if questions else _lines_as_they_come()
    replies = (reply for some in together for reply in reader.replies(some, given, threshold=threshold, top_k=top_k))
    if as_json:
        print_json([reply_json(reply, documents) for reply in replies])
        return
    for reply in replies:
        print(_one_line_json(reply_json(reply, documents)) if as_jsonl else reply_text(reply, documents), flush=True)


@commands.command()
def evaluate(
    model: ModelArgument,
    data: DataOption,
    task: Annotated[str | None, typer.Option("--task", help="Of a model with several tasks: which.")] = None,
    duplicate_ids: Duplicates = "error",
    device: Device = "auto",
    threads: Threads = None,
    allow_pickle: Pickle = False,
    as_json: Json = False,
) -> None:
    """Score a model on a data set: answers at the model's own threshold, at 0 and at the best, of every context and, where
    questions have several, of every question; of sentences, classes and scores."""
    from lamina.data.sources import load_examples, load_sentences
    from lamina.utils.progress import shown

    reader = load_model(model, device, threads, allow_pickle=allow_pickle)
    if task not in (None, reader.question_task) or reader.question_task is None:
        name, options = reader.sentence_task(task)
        known = options.data.classes is not None
        sentences = load_sentences(data, options.data.columns, skip_broken=options.data.skip_broken, known_labels=known)
        with shown() as progress:
            found = reader.evaluate_sentences(sentences, task=name, progress=progress)
        print_json(found) if as_json else print_scores(found)
        return
    examples = load_examples(data, duplicate_ids=duplicate_ids)
    with shown() as progress:
        scores = reader.evaluate(examples, progress)
    if as_json:
        print_json(_tuned_first(scores) | ({"questions": _tuned_first(scores["questions"])} if "questions" in scores else {}))
    else:
        print_scores(scores)


@commands.command()
def predict(
    model: ModelArgument,
    data: DataOption,
    out: Annotated[Path, typer.Option("--out", help="Predictions by id: JSON, for questions as the official SQuAD script's.")],
    task: Annotated[str | None, typer.Option("--task", help="Of a model with several tasks: which.")] = None,
    nbest: Annotated[Path | None, typer.Option("--nbest", help="Also write the n best answers.")] = None,
    null_odds: Annotated[Path | None, typer.Option("--null-odds", help="Also write the odds of no answer.")] = None,
    by_question: Annotated[
        Path | None, typer.Option("--questions", help="Also write an answer a question, over all of its contexts.")
    ] = None,
    duplicate_ids: Duplicates = "error",
    device: Device = "auto",
    threads: Threads = None,
    allow_pickle: Pickle = False,
    as_json: Json = False,
) -> None:
    """Answer a whole data set, or judge its sentences. Gold answers and labels in it are not looked at."""
    from lamina.data.sources import check_writes

    files = [path for path in (out, nbest, null_odds, by_question) if path is not None]
    for path in files:
        if not path.absolute().parent.is_dir():
            raise LaminaError(f"{path}: the folder {path.parent} does not exist: make it first")
    check_writes(data, files)
    reader = load_model(model, device, threads, allow_pickle=allow_pickle)
    if task in (None, reader.question_task) and reader.question_task is not None:
        found, said = _predict_answers(reader, data, out, nbest, null_odds, by_question, duplicate_ids)
    elif nbest is not None or null_odds is not None or by_question is not None:
        raise LaminaError(
            "--nbest and --null-odds are of answers, as is --questions, but this task judges sentences: leave them out"
        )
    else:
        found, said = _predict_sentences(reader, data, out, task)
    print_json(found | {"out": str(out)}) if as_json else print(f"{said}, written to {out}")


@commands.command()
def score(
    data: DataOption,
    predictions: Annotated[Path, typer.Option("--predictions", help="Predictions in the official SQuAD format.")],
    null_odds: Annotated[Path | None, typer.Option("--null-odds", help="Odds of no answer, as `predict` writes them.")] = None,
    metric: Annotated[Literal["squad2", "squad1", "korquad"], typer.Option("--metric", help="Whose rules.")] = "squad2",
    threshold: Annotated[float, typer.Option("--threshold", help="With --null-odds: above it, no answer.")] = 1.0,
    missing: Annotated[Literal["error", "null"], typer.Option("--missing", help="Predictions that are not there.")] = "error",
    nfc: Annotated[bool, typer.Option("--nfc", help="With --metric korquad: compare both sides in NFC.")] = False,
    per: Annotated[
        Literal["context", "question"],
        typer.Option("--per", help="Of questions with several contexts: predictions by context, or by question."),
    ] = "context",
    duplicate_ids: Duplicates = "error",
    as_json: Json = False,
) -> None:
    """Score a file of predictions: the official scripts' keys and values, and their default threshold."""
    from lamina.data.sources import load_examples
    from lamina.scoring.korquad import score_composed, score_korquad
    from lamina.scoring.predictions import references, several_contexts, whole_questions
    from lamina.scoring.squad import score_squad1, score_squad2
    from lamina.utils.files import read_json

    if nfc and metric != "korquad":
        raise LaminaError("--nfc: only --metric korquad compares texts in NFC: leave it out")
    if missing == "null" and metric != "squad2":
        raise LaminaError("--missing null: only --metric squad2 asks for all predictions, the others count missing ones as 0")
    examples = load_examples(data, duplicate_ids=duplicate_ids)
    golds = references(examples if per == "context" else whole_questions(examples))
    if metric != "squad2" and per == "context" and several_contexts(examples) and not all(golds.values()):
        raise LaminaError(
            f"--metric {metric}: some contexts hold no answer: score with --per question, or with --metric squad2"
        )
    texts = _mapping(predictions, read_json(predictions))
    if metric != "squad2" and null_odds is not None:
        name = "SQuAD 1.1" if metric == "squad1" else "KorQuAD 1.0"
        raise LaminaError(f"--null-odds: {name} has no unanswerable questions: leave it out, or use --metric squad2")
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


@commands.command()
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
    from lamina.data.sources import load_examples
    from lamina.data.splits import first_questions
    from lamina.experiments import layer_weights as looking
    from lamina.utils.files import expanded
    from lamina.utils.progress import shown

    reader = load_model(run, device, threads, allow_pickle=False)
    examples = first_questions(load_examples(data, duplicate_ids=duplicate_ids, answers="ignore"), questions)
    with shown() as progress:
        seen = looking.look(reader, examples, example=example, progress=progress)
    files = looking.write(seen, expanded(run) / "layers" if out is None else out)
    if as_json:
        strip = asdict(seen.example) | {"weights": seen.example.weights.tolist()}
        print_json(asdict(seen) | {"example": strip, "files": [str(file) for file in files]})
        return
    print("\n".join(looking.table_lines(seen)))
    print(f"\nquestion {seen.example.id}: {seen.example.question}")
    print(f"answer: {'no answer' if seen.example.answer is None else seen.example.answer}")
    print("\n".join(looking.strip_lines(seen.example)))
    print(f"written: {', '.join(map(str, files))}")


def _predict_answers(
    reader: Reader,
    data: str,
    out: Path,
    nbest: Path | None,
    null_odds: Path | None,
    by_question: Path | None,
    duplicate_ids: Literal["error", "rename"],
) -> tuple[dict[str, Any], str]:
    """Writes what was asked for; what came of it, in numbers and in words."""
    from lamina.answers.formats import nbest_json, null_odds_json, predictions_json
    from lamina.data.sources import load_examples
    from lamina.data.splits import counted, questions_of
    from lamina.scoring import predictions as evaluation
    from lamina.utils.files import write_json
    from lamina.utils.progress import shown

    examples = load_examples(data, duplicate_ids=duplicate_ids, answers="ignore")
    with shown() as progress:
        predictions = reader.predict(examples, progress)
    texts = predictions_json(predictions, reader.threshold)
    write_json(out, texts)
    if nbest is not None:
        write_json(nbest, nbest_json(predictions))
    if null_odds is not None:
        write_json(null_odds, null_odds_json(predictions))
    if by_question is not None:
        grouped = evaluation.by_question(predictions, examples, reader.recipe.answer.across)[0]
        several = evaluation.several_contexts(examples)
        write_json(by_question, predictions_json(grouped, reader.question_threshold if several else reader.threshold))
    answered = sum(map(bool, texts.values()))
    found = {"questions": len(questions_of(examples)), "contexts": len(texts), "answered": answered}
    return found | {"threshold": reader.threshold}, f"{counted(examples)}, {answered} answered"


def _predict_sentences(reader: Reader, data: str, out: Path, task: str | None) -> tuple[dict[str, Any], str]:
    from lamina.data.sources import load_sentences
    from lamina.utils.files import write_json
    from lamina.utils.progress import shown

    name, options = reader.sentence_task(task)
    sentences = load_sentences(data, options.data.columns, skip_broken=options.data.skip_broken, labelled=False)
    with shown() as progress:
        labels = reader.predict_sentences(sentences, task=name, progress=progress)
    write_json(out, {sentence.id: label for sentence, label in zip(sentences, labels, strict=True)})
    return {"sentences": len(labels), "task": name}, f"{len(labels)} sentences judged"


def _search(
    reader: Reader,
    asked: Iterable[list[str]],
    places: list[str],
    threshold: float | None,
    top_k: int,
    shape: Literal["text", "json", "jsonl"],
) -> None:
    """Puts questions to many files and prints what comes of it; all files are read again for those that come later."""
    from lamina.cli.conversation import reply_text
    from lamina.reader.replies import reply_json
    from lamina.reader.search import files_in, search
    from lamina.utils.progress import shown

    files = files_in(places)
    answers: list[object] = []
    for questions in asked:
        with shown() as progress:
            found = search(reader, questions, files, threshold=threshold, top_k=top_k, progress=progress)
        print(found.pace, file=sys.stderr)
        for reply in found.replies:
            if shape == "text":
                print(reply_text(reply, found.documents), flush=True)
            elif shape == "jsonl":
                print(_one_line_json(reply_json(reply, found.documents)), flush=True)
            else:
                answers.append(reply_json(reply, found.documents))
    if shape == "json":
        print_json(answers)


def _tuned_first(scores: dict[str, Any]) -> dict[str, Any]:
    tuned: dict[str, Any] = scores["tuned"]
    return tuned | {name: scores[name] for name in ("zero", "korquad", "korquad_always") if name in scores}


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


def _mapping(path: Path, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise LaminaError(f"{path}: expected a JSON object of question ids, found a {type(value).__name__}")
    return value


def _one_line_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
