"""A program of a user: it uses every public name of Lamina. `mypy --strict` must accept it; it is not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lamina


def train_on_rows(rows: list[dict[str, str | None]]) -> lamina.Run:
    recipe: lamina.Recipe = lamina.read_recipe("quickstart", {"train.epochs": 0.5})
    overrides: dict[str, Any] = {"train.seed": 3}
    named = lamina.train("quickstart", "runs/named", data="train.csv", dev=Path("dev.csv"), **overrides)
    several = lamina.train("sentences", "runs/several", data={"sentiment": rows, "similarity": "pairs.csv"}, dev=False)
    print(named.path, several.finished)
    return lamina.train(recipe, out="runs/mine", data=rows, dev=rows, settings={"train.lr": 1e-4}, on_metrics=print)


def train_a_table() -> float:
    table: lamina.StudyTable = lamina.study("minbert", size="smoke", out=Path("runs/table"), seeds=[0], jobs=2, minutes=5)
    row: lamina.StudyRow = table.rows[0]
    print(table, table.failed, table.left, table.to_pandas(), table.to_json()["size"], row.variant, row.seed, row.run)
    return row.scores["mean"]


def fit_to_rows(rows: list[dict[str, str | None]]) -> lamina.Run:
    fitted: lamina.Fitted = lamina.fit(rows, "runs/fitted", start="runs/mine", minutes=5)
    print(fitted, fitted.kept_start, fitted.comparison.scores["f1"].after, fitted.choice[0])
    return fitted.run


def answer(run: lamina.Run) -> str:
    reader: lamina.Reader = lamina.load(run.path, device="cpu", threads=2)
    document: lamina.Document = lamina.read_document("report.pdf")
    reply: lamina.Reply = reader.answer("Who signed it?", document.text, top_k=3)
    replies: list[lamina.Reply] = reader.answer(["Who?", "When?"], [document.text, "Another text."])
    quote: lamina.Quote | None = reply.answer
    if quote is not None:
        first, last = document.sentence(quote.start, quote.end)
        print(document.place(quote.start), document.text[first:last], quote.confidence)
    return f"{reply} {[one.text or 'no answer' for one in replies]}"


def read_sentences(reader: lamina.Reader) -> float:
    label: lamina.Label = reader.classify("What a day!", task="sentiment")
    labels: list[lamina.Label] = reader.classify(["One.", "Two."])
    pair: lamina.Label = reader.classify(("One.", "Two."))
    score: float = reader.similarity("One.", "Two.")
    vectors = reader.embed(["One.", "Two."])
    print(label.label, labels[0].confidence, pair.chances, vectors.shape)
    return score


def score(reader: lamina.Reader, examples: list[lamina.Example]) -> float:
    predictions: list[lamina.Prediction] = reader.predict(examples)
    tables = reader.predictions("dev.csv", wanted=["predictions"])
    scores = lamina.evaluate(reader, examples)
    print(predictions[0].null_odds, tables["predictions"])
    return float(scores["tuned"]["f1"])


def calibrate(reader: lamina.Reader, examples: list[lamina.Example]) -> lamina.Reader:
    fitted, report = reader.calibrate(examples, unanswerable=0.5)
    shifted, _ = fitted.calibrate(unanswerable=0.3)
    print(report["before"]["f1"], report["after"]["f1"], shifted.threshold)
    return shifted


def share(reader: lamina.Reader) -> str:
    saved: lamina.Run = reader.save("models/mine", license="apache-2.0")
    print(saved.path)
    return reader.push_to_hub("me/mine", private=True, commit_message="The first model")


def main() -> int:
    pipe = lamina.pipeline("question-answering", model="runs/mine", top_k=2)
    print(lamina.__version__, pipe(question="Who?", context="Ada."))
    try:
        run = train_on_rows([{"question": "Who?", "context": "Ada built it.", "answer": "Ada"}])
    except lamina.LaminaError as error:
        print(error)
        return 2
    except lamina.LaminaWarning:
        return 1
    print(answer(run))
    return 0
