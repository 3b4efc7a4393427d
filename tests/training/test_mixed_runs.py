"""Runs that train on several sets of questions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lamina as library
from lamina.config.parse import parse_recipe, read_recipe
from lamina.config.recipe import Recipe
from lamina.data.examples import Example
from lamina.data.squad import to_squad
from lamina.errors import LaminaError, LaminaWarning
from lamina.experiments.average import average
from lamina.experiments.compare import compare
from lamina.experiments.ensemble import ensemble
from lamina.reader.model_card import model_card
from lamina.tasks.checks import build_on_meta
from lamina.tasks.kind import FileCache
from lamina.tasks.spans import SPANS
from lamina.training.cost_estimate import inspect
from lamina.training.trainer import train
from lamina.utils.run_folder import Run
from tests import tiny
from tests.command import lamina
from tests.resuming import stopped_and_resumed
from tests.training.test_resume import assert_same, result


def write(path: Path, examples: Sequence[Example]) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(to_squad(examples)))
    return str(path)


def values(folder: Path, **tables: Any) -> dict[str, Any]:
    """Return a recipe of two sets of files with the same name, whose ids clash."""
    corpus = tiny.corpus(24)
    clashing = [replace(e, id=first.id, group=first.id) for e, first in zip(corpus[60:], corpus, strict=False)]
    one, other = write(folder / "one" / "train.json", corpus[:60]), write(folder / "other" / "train.json", clashing)
    options = {"epochs": 1, "batch_tokens": 512, "lr": 1e-3, "checkpoint_minutes": 0, "threads": 1, "device": "cpu"}
    return {
        "data": {
            "train": [one, {"name": other, "share": 0.5, "repeat": 2}],
            "dev": write(folder / "dev.json", tiny.corpus(27)[120:]),
            "holdout": 0.2,
        },
        "encoder": {"model": "tiny", "pretrained": False},
        "window": {"length": 64, "query": 16, "step": 16},
        "train": options,
    } | tables


def recipe(folder: Path, *settings: str, **tables: Any) -> Recipe:
    return parse_recipe(values(folder, **tables), settings)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train two seeds of a run on two sets."""
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "recipe.json").write_text(json.dumps(values(folder)))
    for seed in (0, 1):
        name = folder / f"run{seed}"
        done = lamina("train", folder / "recipe.json", "--out", name, "--set", f"train.seed={seed}")
        assert done.code == 0, done.err
        (folder / f"out{seed}.txt").write_text(done.out)
        (folder / f"err{seed}.txt").write_text(done.err)
    return folder


def test_held_out_scores_of_each_set_are_stored_and_printed(folder: Path) -> None:
    made = recipe(folder)
    names = [one.name for one in made.main.data.sets]
    splits = SPANS.splits(made.main, 0, FileCache(), dev=False)
    info, out = Run(folder / "run0").read_info(), (folder / "out0.txt").read_text()
    (tables,) = info["sources"].values()
    assert sorted(table["name"] for table in tables) == sorted(names)
    for table in tables:
        own = [example for example in splits.holdout if example.source == table["name"]]
        assert (table["total"], table["HasAns_total"]) == (len(own), sum(bool(example.answers) for example in own))
        line = f"held out of {table['name']}: EM {table['exact']:.2f}, F1 {table['f1']:.2f} ({len(own)} examples)\n"
        assert line in out
        assert f"of {table['name']}: " in (folder / "err0.txt").read_text()
    reader = library.load(folder / "run0", device="cpu", threads=1)
    for table in tables:
        scores = reader.evaluate([replace(e, source="") for e in splits.holdout if e.source == table["name"]])
        assert scores["tuned"]["f1"] == pytest.approx(table["f1"])
    assert "sources" not in json.loads((folder / "run0" / "scores.json").read_text()), "the dev set is one set"


def test_json_has_the_scores_of_each_set(folder: Path) -> None:
    done = lamina("train", folder / "recipe.json", "--out", folder / "run0", "--resume", "--json")
    assert json.loads(done.out)["sources"] == Run(folder / "run0").read_info()["sources"]


def test_a_run_on_one_set_has_no_scores_by_set(tmp_path: Path) -> None:
    made = recipe(tmp_path, f"data.train={tmp_path}/one/train.json", "data.dev=none", "train.epochs=0")
    assert "sources" not in train(made, tmp_path / "run").read_info()


def test_a_resumed_run_is_the_same(folder: Path, tmp_path: Path) -> None:
    made = read_recipe(folder / "recipe.json")
    stopped_and_resumed(made, tmp_path / "resumed", before=4)
    assert_same(result(tmp_path / "resumed"), result(folder / "run0"))
    other = read_recipe(folder / "recipe.json", ["data.train.1.share=0.6"])
    with pytest.raises(LaminaError, match=r"the recipe has changed since this run began \(data.train: "):
        train(other, tmp_path / "resumed", resume=True)


def test_the_recipe_of_a_run_is_that_of_the_list(folder: Path) -> None:
    assert read_recipe(folder / "run0" / "recipe.json") == read_recipe(folder / "recipe.json")
    report = inspect(read_recipe(folder / "run0" / "recipe.json"))
    assert report["training"] is not None
    assert report["training"]["questions"] == len(SPANS.splits(recipe(folder).main, 0, FileCache()).train)


def test_runs_on_several_sets_are_compared_and_combined(folder: Path, tmp_path: Path) -> None:
    runs = [folder / "run0", folder / "run1"]
    assert compare(*runs)
    ensemble(runs, tmp_path / "ensemble")
    assert average(runs, tmp_path / "average").read_info()["average"]["fitted_on"] is None
    assert average([runs[0]], tmp_path / "same").read_info()["average"]["fitted_on"] == "the held-out split"


def test_a_saved_model_names_all_sets(folder: Path, tmp_path: Path) -> None:
    reader = library.load(folder / "run0", device="cpu", threads=1)
    reader.save(tmp_path / "saved")
    card = (tmp_path / "saved" / "README.md").read_text()
    assert (
        "- `main`: a file of the author, train; a file of the author, train (50% of its questions, 2 times an epoch)." in card
    )
    for file in ("recipe.json", "run.json", "README.md"):
        assert str(folder) not in (tmp_path / "saved" / file).read_text()
    assert library.load(tmp_path / "saved", device="cpu", threads=1).answer("Who?", "The heron sleeps.") is not None


def test_the_card_lists_the_datasets_of_all_sets() -> None:
    sets = ["fables/train", {"name": "owner/name:train", "questions": 3000}]
    made = parse_recipe({"data": {"train": sets, "dev": "fables/dev"}})
    card = model_card(made, None, name="mine", parameters=1, version="1")
    assert "datasets:\n- fables\n- owner/name\n" in card
    assert "- `main`: fables; owner/name (at most 3,000 questions)." in card


def test_given_rows_replace_the_list(tmp_path: Path) -> None:
    rows = [{"question": e.question, "context": e.context, "answers": [a.text for a in e.answers]} for e in tiny.corpus(3)]
    made = recipe(tmp_path, "train.epochs=0")
    run = train(made, tmp_path / "run", data=rows, settings={"data.holdout": 0})
    assert json.loads(run.recipe.read_text())["tasks"]["main"]["data"]["train"] == "run:data/train.jsonl"
    (tmp_path / "moved").mkdir()
    shutil.move(run.path, tmp_path / "moved" / "run")
    listed = json.loads((tmp_path / "moved" / "run" / "recipe.json").read_text())
    data = listed["tasks"]["main"]["data"]
    data["train"] = ["run:data/train.jsonl", {"name": "run:data/train.jsonl", "share": 0.5}, "fables/train"]
    (tmp_path / "moved" / "run" / "list.json").write_text(json.dumps(listed))
    names = [one.name for one in read_recipe(tmp_path / "moved" / "run" / "list.json").main.data.sets]
    assert names == [str(tmp_path / "moved" / "run" / "data" / "train.jsonl")] * 2 + ["fables/train"]
    Run(tmp_path / "moved" / "run").write_recipe(
        listed | {"tasks": {"main": {"data": {"train": [{"name": names[0]}, names[2]]}}}}
    )
    written = json.loads((tmp_path / "moved" / "run" / "recipe.json").read_text())["tasks"]["main"]["data"]["train"]
    assert written == [{"name": "run:data/train.jsonl"}, "fables/train"]


def test_settings_in_python_take_a_list(tmp_path: Path) -> None:
    sets = values(tmp_path)["data"]["train"]
    single = recipe(tmp_path, f"data.train={tmp_path}/one/train.json", "data.dev=none")
    run = train(single, tmp_path / "run", settings={"data.train": sets, "train.epochs": 0})
    assert [one.name for one in read_recipe(run.recipe).main.data.sets] == [sets[0], sets[1]["name"]]
    assert len(run.read_info()["sources"]["main"]) == 2


@pytest.mark.parametrize(
    "tables", [{"head": {"type": "answerability"}}, {"augment": {"unanswerable": {"share": 0.4}, "eda": {"alpha": 0.2}}}]
)
def test_other_heads_and_augmented_sets_have_scores_by_set(tmp_path: Path, tables: dict[str, Any]) -> None:
    run = train(recipe(tmp_path, "data.dev=none", **tables), tmp_path / "run")
    tables_of_sets = run.read_info()["sources"]["main"]
    assert len(tables_of_sets) == 2 and all(table["total"] > 0 for table in tables_of_sets)
    shown = lamina("train", run.recipe, "--out", run.path, "--resume").out
    assert shown.count("held out of ") == 2
    assert ("accuracy" in shown) == ("head" in tables)


def test_each_of_several_tasks_has_scores_by_set(tmp_path: Path) -> None:
    made = values(tmp_path)
    data = made.pop("data")
    one = {"data": data}
    other = {"data": data | {"train": data["train"][0]}, "head": {"type": "answerability"}}
    run = train(parse_recipe(made | {"tasks": {"spans": one, "other": other}}), tmp_path / "run")
    assert run.read_info()["sources"].keys() == {"spans"}


def test_settings_change_the_list(folder: Path) -> None:
    file = folder / "recipe.json"
    with pytest.warns(LaminaWarning, match=r"data.dev: .* is left out, because data.train is now fables/train, fables/dev"):
        changed = read_recipe(file, ['data.train=["fables/train", {name="fables/dev", questions=5}]'])
    assert changed.main.data.dev is None
    assert [one.questions for one in changed.main.data.sets] == [None, 5]
    with pytest.warns(LaminaWarning, match=r"data.train is now fables/train\."):
        assert read_recipe(file, ["data.train=fables/train"]).main.data.train == "fables/train"
    same = read_recipe(file, ["data.train.1.share=0.25"])
    assert same.main.data.dev is not None, "the sets are the same"
    assert same.main.data.sets[1].share == 0.25


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("data.train=[]", r"data.train: is an empty list. Fix: name at least one set"),
        ('data.train=["", ""]', r'data.train: one of its names is "".* Fix: name a file or a dataset'),
        ("data.train=[3]", r"data.train.0: is no set \(given: 3\). Fix: give a name in quotes, or a table with a name"),
        ('data.train=["a", {nam="b"}]', r"data.train.1.nam: no such field. Fix: did you mean data.train.1.name\?"),
        ('data.train=[{name="a", share=1.5}]', r"data.train.0.share: .* Fix: give a number of at most 1"),
        ('data.train=[{name="a", share=0.0}]', r"data.train.0.share: .* Fix: give a number greater than 0"),
        ('data.train=[{name="a", questions=0}]', r"data.train.0.questions: .* Fix: give a number of at least 1"),
        ('data.train=[{name="a", share=0.5, questions=3}]', r"data.train.0: share and questions both limit the set. Fix: give"),
        ("data.train=[a, b]", r'data.train: looks like a list, .* Fix: write \["NAME", "NAME"\]'),
        ("data.train=3", r"data.train: .* Fix: give a text in quotes"),
        ("data.train.0=a", r"data.train.0: data.train is a list of 2 items. Fix: set data.train itself"),
        ("data.train.0.share=0.5", r"data.train.0.share: data.train.0 is not a table. Fix: set data.train itself"),
        ("data.train.share=0.5", r"data.train.share: data.train is a list of 2 items. Fix: set data.train itself"),
    ],
)
@pytest.mark.filterwarnings("ignore::lamina.errors.LaminaWarning")
def test_mistakes_in_a_list(folder: Path, setting: str, message: str) -> None:
    with pytest.raises(LaminaError, match=message):
        read_recipe(folder / "recipe.json", [setting])


def test_sets_that_cannot_be_read_together(tmp_path: Path) -> None:
    twice = recipe(tmp_path, 'data.train=["fables/train", "fables/train"]', "data.dev=none")
    with pytest.raises(LaminaError, match=r"data.train: names fables/train twice. Fix: name it once; repeat = 2"):
        build_on_meta(twice)
    with pytest.raises(LaminaError, match=r"nowhere: no such data: .* Fix: "):
        train(recipe(tmp_path, 'data.train=["fables/train", "nowhere"]', "data.dev=none"), tmp_path / "run")
    with pytest.raises(LaminaError, match=r"fables/sentiment/train: holds labelled sentences, .* Fix: "):
        train(recipe(tmp_path, 'data.train=["fables/train", "fables/sentiment/train"]', "data.dev=none"), tmp_path / "run")
    sentences = {"data": {"train": ["fables/sentiment/train"]}, "head": {"type": "classification"}}
    with pytest.raises(LaminaError, match=r"data.train: a list of sets is for questions, .* Fix: name one set"):
        parse_recipe(sentences)
    assert not (tmp_path / "run" / "recipe.json").exists()
