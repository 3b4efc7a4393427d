"""Runs whose training data is augmented anew in each epoch."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lamina.augment import per_epoch
from lamina.config.parse import parse_recipe
from lamina.config.recipe import Recipe
from lamina.data.examples import Example
from lamina.data.squad import to_squad
from lamina.data.tokenizer import Tokenizer
from lamina.encoder import load as encoders
from lamina.errors import LaminaError
from lamina.state_cache.dataset import AugmentedDataset
from lamina.tasks.checks import build_on_meta
from lamina.tasks.kind import FileCache
from lamina.tasks.spans import SPANS
from lamina.training import datasets, trainer
from lamina.training import steps as planning
from tests import tiny
from tests.resuming import stopped_and_resumed

EDA = {"augment": {"eda": {"alpha": 0.3}}}


def recipe(folder: Path, *settings: str, **tables: Any) -> Recipe:
    for name, count in (("train", 12), ("dev", 3)):
        (folder / f"{name}.json").write_text(json.dumps(to_squad(tiny.corpus(count))))
    values = {
        "data": {"train": str(folder / "train.json"), "dev": str(folder / "dev.json"), "holdout": 0.2},
        "encoder": {"model": "tiny", "pretrained": False},
        "window": {"length": 64, "query": 16, "step": 16},
        "train": {"epochs": 2, "threads": 1, "lr": 1e-3, "batch_tokens": 512},
    }
    return parse_recipe(values | tables, settings)


def dataset_of(made: Recipe) -> tuple[datasets.AnyDataset, Tokenizer]:
    tokenizer = Tokenizer(encoders.find(made.encoder).tokenizer)
    return datasets.training_dataset(made, "main", train_split(made), tokenizer), tokenizer


def train_split(made: Recipe) -> list[Example]:
    return SPANS.splits(made.main, made.train.seed, FileCache()).train


def test_each_epoch_has_other_texts_and_they_are_reproducible(tmp_path: Path) -> None:
    dataset, _ = dataset_of(recipe(tmp_path, **EDA))
    assert isinstance(dataset, AugmentedDataset)
    first, second = ([example.context for example in dataset.at(epoch).examples] for epoch in (0, 1))
    assert first != second
    again, _ = dataset_of(recipe(tmp_path, **EDA))
    assert [example.context for example in again.at(1).examples] == second
    for example in dataset.at(1).examples:
        assert all(example.context[a.start : a.start + len(a.text)] == a.text for a in example.answers)


def test_epoch_of_the_other_process_equals_one_made_here(tmp_path: Path) -> None:
    made = recipe(tmp_path, **EDA)
    dataset, tokenizer = dataset_of(made)
    for epoch in range(3):  # as a plan does
        dataset.usable_lengths(epoch)
    dataset.at(0)  # from here on another process makes the next epoch
    for epoch in (1, 2):
        here = datasets.epoch_dataset(made, "main", train_split(made), tokenizer, epoch)
        there = dataset.at(epoch)
        assert there.examples == here.examples
        assert np.array_equal(there.windows.ids, here.windows.ids)


def test_plan_has_the_windows_of_every_epoch(tmp_path: Path) -> None:
    made = recipe(tmp_path, **EDA)
    dataset, _ = dataset_of(made)
    plan = planning.make_plan(made.train, {"main": dataset}, tiny.model(), {}, {"main": dataset})
    for epoch in range(2):
        items = sorted(item for _, (draw,) in plan if draw.task_epoch == epoch for item in draw.items.tolist())
        assert items == dataset.usable(epoch).tolist()


def test_strength_0_trains_as_without_augmentation(tmp_path: Path) -> None:
    plain = trainer.train(recipe(tmp_path), tmp_path / "plain")
    none = trainer.train(recipe(tmp_path, augment={"eda": {"alpha": 0.0}}), tmp_path / "none")
    assert none.model.read_bytes() == plain.model.read_bytes()
    some = trainer.train(recipe(tmp_path, **EDA), tmp_path / "some")
    assert some.model.read_bytes() != plain.model.read_bytes()


def test_run_stopped_in_the_second_epoch_resumes_to_the_same_result(tmp_path: Path) -> None:
    both = {"augment": {"eda": {"alpha": 0.3, "ramp": True}, "unanswerable": {"share": 0.4}}}
    made = recipe(tmp_path, "train.checkpoint_minutes=0", **both)
    whole = trainer.train(made, tmp_path / "whole")
    steps = json.loads(whole.info.read_text())["steps"]
    dataset = stopped_and_resumed(made, tmp_path / "dataset", before=steps - 1)
    assert dataset.metrics.read_bytes() == whole.metrics.read_bytes()
    assert dataset.model.read_bytes() == whole.model.read_bytes()


def test_resume_with_other_synonyms_raises(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("river\tstream\n")
    made = recipe(tmp_path, augment={"eda": {"alpha": 0.3, "operations": ["synonyms"], "synonyms": str(words)}})

    def edit() -> None:
        words.write_text("river\tbrook\n")

    with pytest.raises(LaminaError, match=r"run: augment\.eda\.synonyms changed since this run began\. Fix: use another"):
        stopped_and_resumed(made, tmp_path / "run", before=2, meanwhile=edit)


def changes(made: Recipe) -> list[int]:
    """Return how many words of its context each window's example lacks or has too many, in the order of training."""
    dataset, _ = dataset_of(made)
    learned = {example.id: example for example in train_split(made)}
    plan = planning.make_plan(made.train, {"main": dataset}, tiny.model(), {}, {"main": dataset})
    found: list[int] = []
    for _, (draw,) in plan:
        epoch = dataset.at(draw.task_epoch)
        for example in (epoch.examples[number] for number in epoch.windows.example[draw.items]):
            now, before = (Counter(one.context.split()) for one in (example, learned[example.id]))
            found.append(((now - before) + (before - now)).total())
    return found


@pytest.mark.parametrize("epochs", [0.5, 1, 3])
def test_ramp_follows_training_within_each_epoch(tmp_path: Path, epochs: float) -> None:
    eda = {"alpha": 0.5, "operations": ["delete"]}
    found = changes(recipe(tmp_path, f"train.epochs={epochs}", augment={"eda": eda | {"ramp": True}}))
    quarters = [float(np.mean(dataset)) for dataset in np.array_split(found, 4)]
    assert quarters == sorted(quarters) and quarters[0] < 0.4 * quarters[3], quarters
    full = changes(recipe(tmp_path, f"train.epochs={epochs}", augment={"eda": eda}))
    assert np.mean(found) == pytest.approx(np.mean(full) / 2, rel=0.25)


def test_papers_ramp_has_one_strength_an_epoch(tmp_path: Path) -> None:
    eda = {"alpha": 0.5, "ramp": True, "ramp_by": "epoch", "operations": ["delete"]}
    first, *_, last = np.array_split(changes(recipe(tmp_path, "train.epochs=3", augment={"eda": eda})), 4)
    assert not first.any() and last.mean() > 0
    with pytest.raises(LaminaError, match=r"ramp_by = \"epoch\" changes nothing in one epoch\. Fix: raise train\.epochs"):
        recipe(tmp_path, "train.epochs=1", augment={"eda": eda})
    with pytest.raises(LaminaError, match=r"augment\.eda\.operations"):
        recipe(tmp_path, augment={"eda": {"operations": []}})


def test_ramp_without_a_number_of_epochs_raises(tmp_path: Path) -> None:
    with pytest.raises(LaminaError, match=r"augment\.eda\.ramp needs a number of epochs\. Fix: set train\.epochs"):
        recipe(tmp_path, "train.minutes=1", augment={"eda": {"ramp": True}})
    recipe(tmp_path, "train.minutes=1", **EDA)


def test_synthetic_questions_have_their_share_of_the_training_split_only(tmp_path: Path) -> None:
    made = recipe(tmp_path, augment={"unanswerable": {"share": 0.4, "per_epoch": False}})
    dataset, _ = dataset_of(made)
    assert not isinstance(dataset, AugmentedDataset), "they are made once, so this is a plain dataset"
    share = np.mean([not example.answers for example in dataset.examples])
    assert share == pytest.approx(0.4, abs=0.02)
    held_out = SPANS.splits(made.main, made.train.seed, FileCache()).holdout
    assert held_out and not any("#" in example.id for example in held_out)


def test_statistics_of_the_examples_are_computed_once(tmp_path: Path) -> None:
    made = recipe(tmp_path, augment={"unanswerable": {"share": 0.4}})
    per_epoch._index.cache_clear()
    dataset, _ = dataset_of(made)
    for epoch in range(3):
        dataset.usable(epoch)
    assert per_epoch._index.cache_info().misses == 1


def test_augmented_texts_cannot_be_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    made = recipe(tmp_path, "tune.layers=0", "cache.use=always", **EDA)
    with pytest.raises(LaminaError, match="augment changes the texts in every epoch"):
        trainer.train(made, tmp_path / "run")


def test_augmented_sentences_raise() -> None:
    with pytest.raises(LaminaError, match=r"augment: is for questions, but head\.type 'cosine' judges sentences"):
        build_on_meta(parse_recipe({"data": {"train": "t"}, "head": {"type": "cosine"}, **EDA}))
