"""`lamina.train` on data in memory: the same model as from a file, in a run that describes itself."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pandas
import pytest

import lamina
from lamina.data.examples import Sentence
from lamina.data.sources import load_examples, load_sentences
from lamina.data.squad import to_squad
from lamina.experiments.average import average
from lamina.utils.locks import alone
from tests import tiny

EXAMPLES = tiny.corpus(6)
ROWS: list[dict[str, Any]] = [
    {
        "id": example.id,
        "question": example.question,
        "context": example.context,
        "answer": example.answers[0].text if example.answers else None,
        "title": example.article,
    }
    for example in EXAMPLES
]
MOODS = [{"id": str(n), "sentence": f"tale {n} is {'good' if n % 2 else 'bad'}", "label": n % 2} for n in range(40)]
PAIRS = [Sentence(str(n), f"tale {n}", f"story {n + n % 3}", str(n % 2)) for n in range(40)]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe whose own data does not exist: only data of the caller can be trained on."""
    folder = tmp_path_factory.mktemp("given data")
    (folder / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=folder / "nowhere"))
    return folder / "small.toml"


@pytest.fixture(scope="module")
def run(recipe: Path) -> lamina.Run:
    overrides: dict[str, Any] = {"train.epochs": 0.5}
    return lamina.train(recipe, recipe.parent / "run", data=ROWS, dev=ROWS, **overrides)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(pandas.DataFrame, id="DataFrame"),
        pytest.param(datasets.Dataset.from_list, id="Dataset"),
        pytest.param(iter, id="iterator"),
        pytest.param(lambda rows: {name: [row[name] for row in rows] for name in rows[0]}, id="columns"),
        pytest.param(lambda rows: EXAMPLES, id="examples"),
    ],
)
def test_every_form_trains_the_same_model(run: lamina.Run, recipe: Path, tmp_path: Path, make: Any) -> None:
    again = lamina.train(recipe, tmp_path / "run", data=make(ROWS), dev=make(ROWS), settings={"train.epochs": 0.5})
    assert again.model.read_bytes() == run.model.read_bytes()
    assert again.scores.read_bytes() == run.scores.read_bytes()


def test_a_file_of_the_same_rows_trains_the_same_model(run: lamina.Run, recipe: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    named = lamina.train(recipe, tmp_path / "run", data=file, dev=str(file), settings={"train.epochs": 0.5})
    assert named.model.read_bytes() == run.model.read_bytes() and not named.data.exists()


def test_the_run_holds_its_data_and_its_recipe_trains_again(run: lamina.Run, tmp_path: Path) -> None:
    data = json.loads(run.recipe.read_text())["tasks"]["main"]["data"]
    assert (data["train"], data["dev"]) == ("run:data/train.jsonl", "run:data/dev.jsonl")
    assert load_examples(lamina.read_recipe(run.recipe).main.data.train_name) == EXAMPLES
    again = lamina.train(run.recipe, tmp_path / "again")
    assert again.model.read_bytes() == run.model.read_bytes()


def test_a_stopped_run_resumes_with_the_same_rows_only(run: lamina.Run, recipe: Path, tmp_path: Path) -> None:
    def stop(share: float, score: float) -> bool:
        raise KeyboardInterrupt

    settings = {"train.epochs": 0.5, "train.evaluate_every": 0.2}
    whole = lamina.train(recipe, tmp_path / "whole", data=ROWS, settings=settings)
    with pytest.raises(KeyboardInterrupt):
        lamina.train(recipe, tmp_path / "run", data=ROWS, settings=settings, watch=stop)
    with pytest.raises(lamina.LaminaError, match=r"train\.jsonl: the rows have changed.* Fix: give the same rows, or use"):
        lamina.train(recipe, tmp_path / "run", data=ROWS[:-1], settings=settings, resume=True)
    with pytest.raises(lamina.LaminaError, match=r"to continue it, use another folder, or delete this one$"):
        lamina.train(recipe, tmp_path / "run", data=ROWS, settings=settings)
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    resumed = lamina.train(recipe, tmp_path / "run", data=ROWS, settings=settings, resume=True)
    assert resumed.model.read_bytes() == whole.model.read_bytes()
    by_recipe = lamina.train(tmp_path / "copy" / "recipe.json", tmp_path / "copy", resume=True)
    assert by_recipe.model.read_bytes() == whole.model.read_bytes(), "without the rows, from the files of the run"


def test_a_moved_run_finds_its_rows(recipe: Path, tmp_path: Path) -> None:
    settings = {"train.epochs": 0.5, "train.checkpoints": 0.25}
    run = lamina.train(recipe, tmp_path / "first" / "run", data=ROWS, dev=ROWS, settings=settings)
    shutil.move(tmp_path / "first", tmp_path / "second")
    assert not run.path.exists()
    moved = lamina.Run(tmp_path / "second" / "run")
    for folder in (moved.path, moved.path / "checkpoints" / "0.25"):
        assert str(tmp_path) not in (folder / "recipe.json").read_text()
        found = lamina.load(folder, device="cpu").recipe.main.data
        assert (found.train, found.dev) == (str(moved.data.resolve() / "train.jsonl"), str(moved.data.resolve() / "dev.jsonl"))
    again = lamina.train(moved.recipe, tmp_path / "again")
    assert again.model.read_bytes() == moved.model.read_bytes()
    assert lamina.train(recipe, moved.path, data=ROWS, dev=ROWS, settings=settings, resume=True).path == moved.path
    average([moved.path, again.path], tmp_path / "average")
    assert lamina.load(tmp_path / "average").recipe.main.data.train == str(moved.data.resolve() / "train.jsonl")


KILLED = """
import json, os, signal, sys
import lamina
from lamina.utils.progress import Silent

class Killer(Silent):
    def start(self, *_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    say = start

recipe, out, rows = sys.argv[1:]
lamina.train(recipe, out, data=json.loads(rows), dev=json.loads(rows), progress=Killer())
"""


def test_a_run_killed_before_it_began_does_not_block_its_folder(recipe: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(recipe), str(tmp_path / "run"), json.dumps(ROWS)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert {file.name for file in (tmp_path / "run").iterdir()} == {".lock", "data"}
    run = lamina.train(recipe, tmp_path / "run", data=ROWS[:-1], settings={"train.epochs": 0.1})
    assert run.finished and [file.name for file in run.data.iterdir()] == ["train.jsonl"]


def test_another_process_keeps_its_rows(recipe: Path, tmp_path: Path) -> None:
    run = lamina.Run(tmp_path / "run")
    with alone(run.path):
        run.data.mkdir()
        (run.data / "train.jsonl").write_text("mine")
        with pytest.raises(lamina.LaminaError, match="another process is writing here"):
            lamina.train(recipe, run.path, data=ROWS)
        assert (run.data / "train.jsonl").read_text() == "mine"
    with pytest.raises(lamina.LaminaError, match=r"already exists and is not a run of Lamina\. Fix: use another folder$"):
        lamina.train(recipe, run.path, data=ROWS)
    assert (run.data / "train.jsonl").read_text() == "mine", "without a lock file the folder is not Lamina's"


def test_a_path_may_begin_at_the_home_folder(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    shutil.copy(recipe, tmp_path / "mine.toml")
    assert lamina.read_recipe("~/mine.toml") == lamina.read_recipe(recipe)
    run = lamina.train("~/mine.toml", "~/run", data=ROWS, settings={"train.epochs": 0.1})
    assert run.path == tmp_path / "run" and run.finished and not (tmp_path / "~").exists()


@pytest.mark.parametrize("dev", [None, False])
def test_without_a_dev_set_nothing_is_scored(recipe: Path, tmp_path: Path, dev: Any) -> None:
    run = lamina.train(recipe, tmp_path / "run", data=ROWS, dev=dev, settings={"train.epochs": 0.1})
    assert not run.scores.exists() and lamina.read_recipe(run.recipe).main.data.dev is None
    (tmp_path / "train.json").write_text(json.dumps(to_squad(EXAMPLES)))
    settings = {"train.epochs": 0.1, "data.train": str(tmp_path / "train.json"), "data.dev": str(tmp_path / "nowhere.json")}
    assert not lamina.train(recipe, tmp_path / "other", dev=dev, settings=settings).scores.exists()


@pytest.mark.parametrize(("recipe", "out"), [(None, "run"), (3, "run"), ("quickstart", None), ({"data": {}}, "run")])
def test_recipe_and_folder_of_a_wrong_type(recipe: Any, out: Any) -> None:
    with pytest.raises(TypeError, match=r"^(recipe must be a Recipe, a path or a name|out must be the path of a folder), not "):
        lamina.train(recipe, out)


def test_the_dev_set_of_the_recipe_is_not_scored_on_other_training_data(recipe: Path, tmp_path: Path) -> None:
    run = lamina.train(recipe, tmp_path / "run", data=ROWS, settings={"train.epochs": 0.1})
    assert not run.scores.exists() and json.loads(run.recipe.read_text())["tasks"]["main"]["data"]["dev"] is None


def test_a_mistake_names_the_row_and_leaves_nothing_behind(recipe: Path, tmp_path: Path) -> None:
    broken = [*ROWS[:3], ROWS[3] | {"answer": "a dragon"}]
    with pytest.raises(lamina.LaminaError, match=r"data, row 4.*'a dragon'.*Fix: ") as caught:
        lamina.train(recipe, tmp_path / "run", data=broken)
    assert "lamina data clean" not in str(caught.value)
    with pytest.raises(lamina.LaminaError, match=r"dev: data, row 4"):
        lamina.train(recipe, tmp_path / "run", data=ROWS, dev=broken)
    with pytest.raises(lamina.LaminaError, match="holds no rows"):
        lamina.train(recipe, tmp_path / "run", data=[])
    with pytest.raises(lamina.LaminaError, match=r"window\.length"):
        lamina.train(recipe, tmp_path / "run", data=ROWS, settings={"window.length": 4000})
    with pytest.raises(TypeError, match="row 1 must be a dict, not int"):
        lamina.train(recipe, tmp_path / "run", data=[1, 2])
    with pytest.raises(TypeError, match="unexpected keyword argument 'resum'"):
        lamina.train(recipe, tmp_path / "run", data=ROWS, resum=True)
    assert not (tmp_path / "run").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(lamina.LaminaError, match="not a run"):
        lamina.train(recipe, tmp_path / "mine", data=ROWS)
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def several_tasks(folder: Path) -> Path:
    values = {
        "tasks": {
            "mood": {"data": {"train": "nowhere", "classes": ["0", "1"]}, "head": {"type": "classification"}},
            "same": {
                "data": {"train": "nowhere", "columns": {"first": "one", "second": "two", "label": "alike"}},
                "head": {"type": "cosine"},
            },
        },
        "encoder": {"model": "tiny", "pretrained": False},
        "window": {"length": 32, "query": 16},
        "train": {"epochs": 0.1, "threads": 1},
    }
    (folder / "tasks.json").write_text(json.dumps(values))
    return folder / "tasks.json"


def test_several_tasks_take_a_mapping(tmp_path: Path) -> None:
    recipe = several_tasks(tmp_path)
    run = lamina.train(recipe, tmp_path / "run", data={"mood": MOODS, "same": PAIRS}, dev={"mood": pandas.DataFrame(MOODS)})
    assert {file.name for file in run.data.iterdir()} == {"mood-train.jsonl", "mood-dev.jsonl", "same-train.jsonl"}
    assert set(json.loads(run.scores.read_text())) == {"mood"}
    reader = lamina.load(run.path, device="cpu")
    assert reader.read(PAIRS, task="same") == reader.read(str(run.data / "same-train.jsonl"), task="same") == PAIRS
    assert reader.evaluate(MOODS, task="mood") == reader.evaluate(str(run.data / "mood-dev.jsonl"), task="mood")
    assert load_sentences(str(run.data / "mood-train.jsonl"))[1] == Sentence("1", "tale 1 is good", None, "1")
    with pytest.raises(lamina.LaminaError, match=r"data: the task 'same' has no data. Fix: add 'same' to the mapping"):
        lamina.train(recipe, tmp_path / "other", data={"mood": MOODS})
    with pytest.raises(lamina.LaminaError, match=r"data: the recipe has the tasks mood, same. Fix: give a mapping"):
        lamina.train(recipe, tmp_path / "other", data=MOODS)


def test_examples_keep_their_order_ids_articles_and_groups(recipe: Path, tmp_path: Path) -> None:
    """Examples of one group may have different questions and articles, and need not follow each other."""
    groups = ["b", "a", "b", "c", "a"]
    examples = [
        replace(example, id=f"own-{number}", group=groups[number % len(groups)], article=f"article {number % 3}")
        for number, example in enumerate(EXAMPLES)
    ]
    run = lamina.train(recipe, tmp_path / "run", data=examples, settings={"train.epochs": 0.1})
    assert load_examples(str(run.data / "train.jsonl")) == examples


def test_a_reader_scores_and_predicts_rows(run: lamina.Run) -> None:
    reader = lamina.load(run.path, device="cpu")
    file = str(run.data / "dev.jsonl")
    for data in (ROWS, pandas.DataFrame(ROWS), EXAMPLES):
        assert lamina.evaluate(reader, data) == reader.evaluate(data) == reader.evaluate(file) == reader.evaluate(Path(file))
        assert reader.predictions(data) == reader.predictions(file)
    unlabelled = [{"question": row["question"], "context": row["context"], "id": row["id"]} for row in ROWS]
    assert reader.predictions(unlabelled) == reader.predictions(file), "answers are ignored"
    assert reader.predictions([])["predictions"] == {}


def test_unused_columns_of_dates_bytes_and_half_characters_do_not_stop_a_run(recipe: Path, tmp_path: Path) -> None:
    frame = pandas.DataFrame(ROWS).assign(day=pandas.Timestamp("2026-01-02"), photo=b"\xff")
    rows = [{**row, "note": "\ud800"} for row in frame.to_dict("records")]
    with pytest.warns(lamina.LaminaWarning, match="not stored in the run folder, because JSON cannot hold it: 'photo'"):
        run = lamina.train(recipe, tmp_path / "run", data=rows, settings={"train.epochs": 0.1})
    stored = json.loads((run.path / "data" / "train.jsonl").read_text().split("\n")[0])
    assert stored["day"] == "2026-01-02T00:00:00" and stored["note"] == "?" and "photo" not in stored


def test_a_half_character_in_a_column_that_is_read_is_one_line(recipe: Path, tmp_path: Path) -> None:
    rows = [*ROWS[:2], {**ROWS[2], "question": "Who \ud800?"}]
    with pytest.raises(lamina.LaminaError, match=r"row 3 .*: question holds half a character \(a lone surrogate\) at 4"):
        lamina.train(recipe, tmp_path / "run", data=rows)
    assert not (tmp_path / "run").exists()
