"""A held-out split of its own, `data.held_out`, instead of a share of the training data."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lamina as library
from lamina.config.parse import parse_recipe, read_recipe
from lamina.config.recipe import Recipe
from lamina.data.examples import Answer, Example
from lamina.data.splits import without_texts_of
from lamina.data.squad import to_squad
from lamina.errors import LaminaError, LaminaWarning
from lamina.reader.model_card import model_card
from lamina.tasks.kind import FileCache
from lamina.tasks.sentences import SENTENCES
from lamina.tasks.spans import SPANS
from lamina.training.given_data import with_data
from lamina.training.trainer import train
from lamina.utils.run_folder import Run
from tests import tiny

CORPUS = tiny.corpus(24)
HELD_OUT = CORPUS[:30]


def write(path: Path, examples: Sequence[Example]) -> str:
    path.write_text(json.dumps(to_squad(examples)))
    return str(path)


def recipe(folder: Path, **data: Any) -> Recipe:
    """Return a recipe whose training data contains the held-out set."""
    given = {"train": write(folder / "train.json", CORPUS), "held_out": write(folder / "held-out.json", HELD_OUT)} | data
    return parse_recipe(
        {
            "data": given,
            "encoder": {"model": "tiny", "pretrained": False},
            "window": {"length": 64, "query": 16, "step": 16},
            "train": {"epochs": 1, "batch_tokens": 512, "threads": 1, "device": "cpu"},
        }
    )


def test_the_set_is_held_out_and_its_texts_are_not_trained_on(tmp_path: Path) -> None:
    splits = SPANS.splits(recipe(tmp_path).main, 0, FileCache())
    assert [example.id for example in splits.holdout] == [example.id for example in HELD_OUT]
    texts = {example.context for example in HELD_OUT}
    assert {e.id for e in splits.train} == {e.id for e in CORPUS if e.context not in texts}
    assert 0 < len(splits.train) < len(CORPUS)


def test_every_seed_has_the_same_held_out_split(tmp_path: Path) -> None:
    task = recipe(tmp_path).main
    assert SPANS.splits(task, 0, FileCache()).holdout == SPANS.splits(task, 1, FileCache()).holdout


def test_several_training_sets_leave_out_the_texts_too(tmp_path: Path) -> None:
    sets = [write(tmp_path / "one.json", CORPUS[:60]), {"name": write(tmp_path / "other.json", CORPUS[20:]), "repeat": 2}]
    splits = SPANS.splits(recipe(tmp_path, train=sets).main, 0, FileCache())
    assert {e.context for e in splits.train}.isdisjoint(e.context for e in HELD_OUT)
    assert {e.source for e in splits.train} == {str(tmp_path / "one.json"), str(tmp_path / "other.json")}


def test_a_run_chooses_and_fits_on_the_set(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    train(recipe(tmp_path, holdout=0.0), run.path)
    evaluations = [json.loads(line) for line in run.metrics.read_text().splitlines() if "evaluation" in line]
    assert evaluations
    assert run.read_info()["tasks"]["main"]["unanswerable"] == sum(not e.answers for e in HELD_OUT) / len(HELD_OUT)
    card = model_card(parse_recipe(run.read_recipe()), None, name="mine", parameters=1, version="1")
    assert "The set held-out was held out to choose the checkpoint" in card


def test_a_shared_text_that_answers_nothing_is_left_out_alone() -> None:
    texts = [Example(id=f"q{n}", question="Who?", context=f"Text {n}.", answers=(), article="A", group="q") for n in range(3)]
    answered = replace(texts[0], answers=(Answer("Text", 0),))
    several = [answered, texts[1], texts[2]]
    assert without_texts_of(several, [replace(texts[1], group="other")]) == [answered, texts[2]]
    other = replace(texts[2], id="p", group="p", context="Another text.")
    assert without_texts_of([*several, other], [replace(texts[0], group="other")]) == [other]


def test_a_set_that_settings_name_stays_with_data_in_memory(tmp_path: Path) -> None:
    made = recipe(tmp_path)
    named = made.main.data.held_out
    assert named is not None
    rows = [{"question": e.question, "context": e.context, "answer": e.answers[0].text} for e in CORPUS[60:] if e.answers]
    library.train(made, tmp_path / "kept", data=rows, settings={"data.held_out": named})
    assert Run(tmp_path / "kept").read_recipe()["tasks"]["main"]["data"]["held_out"] == named


def test_fit_refuses_the_set(tmp_path: Path) -> None:
    with pytest.raises(LaminaError, match=r"data\.held_out: fit holds out a part of the data itself\. Fix: "):
        library.fit(write(tmp_path / "mine.json", CORPUS), tmp_path / "run", settings={"data.held_out": "other.json"})


def test_a_set_with_all_texts_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LaminaError, match=r"data\.held_out: holds all texts to train on\. Fix: "):
        SPANS.splits(recipe(tmp_path, held_out=write(tmp_path / "all.json", CORPUS)).main, 0, FileCache())


def test_rows_that_share_a_text_with_held_out_rows_are_not_trained_on(tmp_path: Path) -> None:
    def table(name: str, numbers: range) -> str:
        with (tmp_path / name).open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["text", "label"])
            rows.writerows([f"The sea is calm on day {number}.", "good" if number % 2 else "bad"] for number in numbers)
        return str(tmp_path / name)

    values = {"data": {"train": table("train.csv", range(40)), "held_out": table("held-out.csv", range(30, 44))}}
    task = parse_recipe(values | {"head": {"type": "classification"}, "encoder": {"model": "tiny", "pretrained": False}}).main
    splits = SENTENCES.splits(SENTENCES.resolve(task, FileCache()), 0, FileCache())
    assert (len(splits.train), len(splits.holdout)) == (30, 14)


def test_other_training_data_leave_the_set_out(tmp_path: Path) -> None:
    file = tmp_path / "recipe.json"
    file.write_text(json.dumps(recipe(tmp_path).model_dump(mode="json")))
    with pytest.warns(LaminaWarning, match=r"data\.held_out: .* is left out, because data\.train is now mine\.csv\. Fix: "):
        assert read_recipe(str(file), ["data.train=mine.csv"]).main.data.held_out is None
    kept = read_recipe(str(file), ["data.train=mine.csv", "data.held_out=theirs.csv"])
    assert kept.main.data.held_out == "theirs.csv"
    given = with_data(recipe(tmp_path), Run(tmp_path / "run"), [{"question": "Who?", "context": "Ada.", "answer": "Ada"}], True)
    assert given.recipe.main.data.held_out is None
