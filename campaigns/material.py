"""Good files for the campaigns to damage: data, recipes, a small run, its graphs, and documents."""

from __future__ import annotations

import io
import json
import shutil
from functools import cache
from pathlib import Path

from tests import tiny
from tests.golden import TRAINED
from tests.reader.test_documents import pdf

import lamina
from lamina.data.squad import to_squad
from lamina.data.table_formats import TABLES

CONTEXT = "The mill of Harrowmere was built by Ada Thorn in 1823. It burned down in 1901, and nobody rebuilt it."
QUESTION = "Who built the mill?"

RECIPE = """
[data]
train = "{folder}/train.json"
dev = "{folder}/dev.json"
holdout = 0.2
[encoder]
model = "{encoder}"
[window]
length = 48
query = 16
step = 16
[train]
epochs = 0.5
threads = 1
device = "cpu"
lr = 1e-3
batch_tokens = 512
checkpoint_minutes = 0
evaluate_every = 0.25
"""

SPACE = """
[search]
method = "grid"
seed = 1
[space]
train.lr = [1e-3, 1e-2]
train.batch_tokens = [256, 512]
"""

STUDY = """
title = "A study of two rates"
recipe = "{folder}/recipe.toml"
baseline = "slow"
[sizes.desk]
set = ["train.epochs=0.25"]
seeds = [0]
[variants.slow]
[variants.fast]
set = ["train.lr=1e-2"]
"""

HTML = """<!doctype html><html><head><title>The mill</title><style>p { color: red }</style></head>
<body><h1>The mill</h1><p>Built by <b>Ada Thorn</b> &amp; her sons in&nbsp;1823.</p><!-- a note -->
<table><tr><td>one</td><td>two &#233;</td></tr></table><pre>  a
  b</pre><script>if (a < b) { x() }</script><ul><li title="a > b">last</ul></body></html>"""


def rows() -> list[dict[str, object]]:
    """Return questions as rows of a table, three of them unanswerable."""
    found: list[dict[str, object]] = []
    for example in tiny.corpus(3):
        answers = {"text": [a.text for a in example.answers], "answer_start": [a.start for a in example.answers]}
        texts = {"id": example.id, "question": example.question, "context": example.context, "title": example.article}
        found.append({**texts, "answers": answers})
    return found


def plain_rows() -> list[dict[str, object]]:
    """Return questions as rows with one text as the answer."""
    return [
        {
            "id": e.id,
            "question": e.question,
            "context": e.context,
            "answer": e.answers[0].text if e.answers else "",
            "answer_start": e.answers[0].start if e.answers else "",
        }
        for e in tiny.corpus(3)
    ]


def table(ending: str) -> bytes:
    """Return a table of questions in a format."""
    made = rows() if ending in (".jsonl", ".json", ".parquet") else plain_rows()
    write = TABLES[ending].write
    assert write is not None
    return write(list(made[0]), made)


def squad_json() -> bytes:
    """Return questions as SQuAD JSON."""
    return json.dumps(to_squad(tiny.corpus(3)), ensure_ascii=False).encode()


def contexts_jsonl() -> bytes:
    """Return questions with several contexts each."""
    found = []
    for example in tiny.corpus(2):
        qa = {"id": example.id, "question": example.question, "answers": [a.text for a in example.answers]}
        paragraphs = [{"title": "one", "contents": example.context}, {"title": "two", "contents": CONTEXT}]
        found.append(json.dumps({"qa": qa, "paragraphs": paragraphs}))
    return "\n".join(found).encode()


def sentences_csv() -> bytes:
    """Return labelled sentences."""
    lines = [f"The feast of tale {n} was {('fine', 'dreadful')[n % 2]}.,{('good', 'bad')[n % 2]}" for n in range(8)]
    return "\n".join(["sentence,label", *lines]).encode()


@cache
def docx() -> bytes:
    """Return a Word file with paragraphs and a table."""
    import docx as library

    document = library.Document()
    document.add_heading("The mill", 1)
    document.add_paragraph(CONTEXT)
    cells = document.add_table(2, 2)
    cells.cell(0, 0).merge(cells.cell(0, 1)).text = "wide"
    cells.cell(1, 1).text = "Ada Thorn"
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def pdf_file() -> bytes:
    """Return a PDF with two pages."""
    return pdf(CONTEXT, "It is red.")


def write_recipe(folder: Path) -> Path:
    """Write the data and the recipe of a small training, and return the recipe's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, articles in (("train", 12), ("dev", 3)):
        (folder / f"{name}.json").write_text(json.dumps(to_squad(tiny.corpus(articles))), encoding="utf-8")
    shutil.copytree(TRAINED, folder / "encoder", dirs_exist_ok=True)
    path = folder / "recipe.toml"
    path.write_text(RECIPE.format(folder=folder, encoder=folder / "encoder"), encoding="utf-8")
    return path


def train_run(folder: Path) -> Path:
    """Train a small run that needs no other folder for its weights, and return its folder."""
    recipe = write_recipe(folder)
    return lamina.train(recipe, folder / "run", settings={"train.epochs": 0.25}).path


def copied(source: Path, target: Path, name: str, data: bytes) -> Path:
    """Make a folder with links to the files of another, except one that gets other bytes."""
    for path in source.rglob("*"):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.hardlink_to(path)
    (target / name).unlink()
    (target / name).write_bytes(data)
    return target


def pretraining(folder: Path) -> dict[str, object]:
    """Write texts, and return a recipe that pretrains a tiny encoder on them from scratch."""
    texts = list(dict.fromkeys(example.context for example in tiny.corpus(24)))
    (folder / "tales.txt").write_text("\n\n".join(texts), encoding="utf-8")
    return {
        "texts": [str(folder / "tales.txt")],
        "length": 32,
        "holdout": 0.1,
        "shape": {"layers": 1, "hidden": 32, "heads": 2, "dropout": 0.1},
        "vocabulary": {"size": 400},
        "train": {
            "batch_tokens": 512,
            "lr": 3e-3,
            "checkpoint_minutes": 0,
            "threads": 1,
            "device": "cpu",
            "epochs": 2,
            "evaluate_every": 1,
        },
    }
