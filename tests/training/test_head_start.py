"""`head.start` lets a run go on from the head and the mixer of another run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import lamina
from lamina.config.build import build_model
from lamina.config.head_start import start_heads
from lamina.config.parse import parse_recipe, read_recipe
from lamina.config.recipe import Recipe
from lamina.encoder import load as encoders
from lamina.encoder.load import minilm_folder
from lamina.errors import LaminaError
from lamina.experiments.average import average
from lamina.runs.export import export
from lamina.tasks.checks import build_on_meta
from lamina.training.trainer import train
from lamina.utils.run_folder import Run
from tests import tiny
from tests.command import lamina as command
from tests.resuming import stopped_and_resumed
from tests.training.test_resume import assert_same, result
from tests.training.test_split_loss import recipe


def further(folder: Path, *settings: str) -> Recipe:
    """Return the recipe of the folder, started from its run."""
    run = folder / "first"
    start = [f"encoder.model={run}", "encoder.pretrained=true", f"head.start={run}", "train.device=cpu"]
    return read_recipe(folder / "recipe.toml", [*start, *settings])


def weights_of(run: Run, part: str) -> dict[str, np.ndarray]:
    return {name: value for name, value in load_file(run.model).items() if name.startswith(f"tasks.main.{part}.")}


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("mixer.type=learned",),
        ("mixer.type=compression", "tune.layers=1"),
        ("mixer.type=dot", "head.type=cacnn", "head.filters=8", "head.context=8"),
        ("head.type=answerability", "head.pooled=false"),
    ],
)
def test_run_of_no_epochs_has_the_logits_of_its_start(tmp_path: Path, settings: tuple[str, ...]) -> None:
    first = train(recipe(tmp_path, "train.epochs=1", *settings), tmp_path / "first")
    heard = tiny.Heard()
    again = train(further(tmp_path, "train.epochs=0", "train.seed=5", *settings), tmp_path / "again", progress=heard)
    assert f"head.start: the head of {first.path} with its mixer" in heard.lines
    logits, wanted = load_file(again.outputs), load_file(first.outputs)
    assert logits.keys() == wanted.keys()
    assert all(np.array_equal(logits[name], wanted[name]) for name in wanted)
    (info,) = json.loads(again.info.read_text())["heads"].values()
    assert info["task"] == "main"


def test_finished_run_does_not_need_the_run_that_its_head_started_from(tmp_path: Path) -> None:
    train(recipe(tmp_path, "train.epochs=1"), tmp_path / "first")
    made = recipe(tmp_path, "train.epochs=1", f"head.start={tmp_path / 'first'}")
    run = train(made, tmp_path / "run")
    ask = "When was the heron born?", "The heron of tale 0 was born in 1800."
    reply = lamina.load(run.path, device="cpu").answer(*ask)
    shutil.rmtree(tmp_path / "first")
    assert lamina.load(run.path, device="cpu").answer(*ask) == reply
    assert lamina.train(made, run.path, resume=True).path == run.path


def test_mixer_with_other_options_is_new(tmp_path: Path) -> None:
    first = train(recipe(tmp_path, "train.epochs=1", "mixer.type=learned"), tmp_path / "first")
    settings = "train.epochs=0", "mixer.type=learned", "mixer.separate=false"
    heard = tiny.Heard()
    run = train(further(tmp_path, *settings), tmp_path / "run", progress=heard)
    assert f"head.start: the head of {first.path}; the mixer is new, because its options differ" in heard.lines
    head, mixer = weights_of(run, "head"), weights_of(run, "mixer")
    assert all(np.array_equal(value, weights_of(first, "head")[name]) for name, value in head.items())
    assert {name: value.shape for name, value in mixer.items()} != {
        name: value.shape for name, value in weights_of(first, "mixer").items()
    }


def test_resumed_run_is_the_same(tmp_path: Path) -> None:
    train(recipe(tmp_path, "train.epochs=1"), tmp_path / "first")
    made = further(tmp_path, "train.epochs=1", "train.checkpoint_minutes=0")
    train(made, tmp_path / "whole")
    stopped_and_resumed(made, tmp_path / "resumed", before=3)
    assert_same(result(tmp_path / "resumed"), result(tmp_path / "whole"))


def test_run_is_not_resumed_from_another_head(tmp_path: Path) -> None:
    """The encoder is random here, so only the weights of head.start change."""
    train(recipe(tmp_path, "train.epochs=1"), tmp_path / "first")
    made = recipe(tmp_path, "train.epochs=1", f"head.start={tmp_path / 'first'}")

    def train_the_start_anew() -> None:
        shutil.rmtree(tmp_path / "first")
        train(recipe(tmp_path, "train.epochs=1", "train.seed=3"), tmp_path / "first")

    with pytest.raises(LaminaError, match=r"the weights of head.start changed since this run began"):
        stopped_and_resumed(made, tmp_path / "run", before=3, meanwhile=train_the_start_anew)


def test_average_refuses_runs_of_different_heads(tmp_path: Path) -> None:
    runs = []
    for seed in (1, 2):
        shutil.rmtree(tmp_path / "first", ignore_errors=True)
        train(recipe(tmp_path, "train.epochs=1", f"train.seed={seed}"), tmp_path / "first")
        made = recipe(tmp_path, "train.epochs=0", f"head.start={tmp_path / 'first'}")
        runs.append(train(made, tmp_path / f"run{seed}").path)
    with pytest.raises(LaminaError, match=r"began with another head than .*run1. Fix: "):
        average(runs, tmp_path / "average")


def test_what_cannot_be_started_from_is_refused(tmp_path: Path) -> None:
    first = train(recipe(tmp_path, "train.epochs=0"), tmp_path / "first").path

    def refused(*settings: str, start: Path = first) -> str:
        with pytest.raises(LaminaError) as caught:
            build_on_meta(recipe(tmp_path, f"head.start={start}", *settings))
        return str(caught.value)

    assert refused(start=tmp_path).startswith(f"head.start: {tmp_path}: not a run folder")
    assert refused("head.type=cacnn") == (
        f'head.start: {first}: its head is of type "span", not "cacnn". Fix: set head.type = "span"'
    )
    assert refused("mixer.type=compression", "mixer.size=8") == (
        f"head.start: {first}: its head does not fit: the shape of head.weight is (2, 64), not (2, 24). "
        "Fix: use the encoder and the mixer of that run"
    )
    shown = command("inspect", tmp_path / "recipe.toml", "--set", f"head.start={tmp_path}")
    assert shown.code == 2
    assert "head.start: " in shown.err


def test_task_is_that_of_the_same_name_or_the_only_one(tmp_path: Path) -> None:
    recipe(tmp_path)
    part = (tmp_path / "recipe.toml").read_text()
    data = part[part.index("train =") : part.index("[encoder]")]
    rest = part[part.index("[encoder]") :]
    (tmp_path / "two.toml").write_text(f"[tasks.one.data]\n{data}[tasks.other.data]\n{data}{rest}")
    quick = ["train.epochs=0", "train.device=cpu"]
    two = train(read_recipe(tmp_path / "two.toml", quick), tmp_path / "two")
    with pytest.raises(LaminaError, match=r"has no task 'main'; its tasks: one, other. Fix: "):
        build_on_meta(recipe(tmp_path, f"head.start={two.path}"))
    only = train(recipe(tmp_path, *quick, "train.seed=4"), tmp_path / "only")
    start = [f"tasks.one.head.start={two.path}", f"tasks.other.head.start={only.path}"]
    again = train(read_recipe(tmp_path / "two.toml", [*quick, "train.seed=5", *start]), tmp_path / "again")
    found = load_file(again.model)
    assert np.array_equal(found["tasks.one.head.weight"], load_file(two.model)["tasks.one.head.weight"])
    assert np.array_equal(found["tasks.other.head.weight"], load_file(only.model)["tasks.main.head.weight"])


def test_other_classes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("sentence,label\n" + "".join(f"text {n},{'abc'[n % 3]}\n" for n in range(30)))
    values = {
        "data": {"train": str(tmp_path / "rows.csv"), "classes": ["a", "b", "c"]},
        "head": {"type": "classification"},
        "encoder": {"model": "tiny", "pretrained": False},
        "train": {"epochs": 0, "device": "cpu"},
    }
    first = train(parse_recipe(values), tmp_path / "first")
    other = parse_recipe(values, [f"head.start={first.path}", "data.classes=['c', 'b', 'a']"])
    with pytest.raises(LaminaError, match=r"its classes are a, b, c, not c, b, a. Fix: "):
        train(other, tmp_path / "second")
    train(parse_recipe(values, [f"head.start={first.path}"]), tmp_path / "third")


def test_head_starts_from_a_question_answering_checkpoint(tmp_path: Path) -> None:
    first = train(recipe(tmp_path, "train.epochs=1"), tmp_path / "first")
    export(lamina.load(first.path, device="cpu").trained, tmp_path / "exported")
    start = [f"encoder.model={tmp_path / 'exported'}", "encoder.pretrained=true", f"head.start={tmp_path / 'exported'}"]
    again = train(read_recipe(tmp_path / "recipe.toml", [*start, "train.epochs=0"]), tmp_path / "again")
    logits, wanted = load_file(again.outputs), load_file(first.outputs)
    assert all(np.allclose(logits[name], wanted[name], atol=1e-5) for name in wanted)


def test_the_checksum_of_a_checkpoint_covers_all_shards(tmp_path: Path) -> None:
    first = train(recipe(tmp_path, "train.epochs=0"), tmp_path / "first")
    export(lamina.load(first.path, device="cpu").trained, tmp_path / "exported")
    whole = load_file(tmp_path / "exported" / "model.safetensors")
    (tmp_path / "exported" / "model.safetensors").unlink()
    parts = [{name: value for name, value in whole.items() if name.startswith("qa_outputs") is head} for head in (True, False)]
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    index = {"weight_map": {tensor: name for name, part in zip(names, parts, strict=True) for tensor in part}}
    (tmp_path / "exported" / "model.safetensors.index.json").write_text(json.dumps(index))
    made = read_recipe(tmp_path / "recipe.toml", [f"head.start={tmp_path / 'exported'}"])
    found = []
    for change in (0, 1):
        for name, part in zip(names, parts, strict=True):
            save_file({key: value + change * (name == names[1]) for key, value in part.items()}, tmp_path / "exported" / name)
        with torch.device("meta"):
            model = build_model(made, encoders.on_meta(encoders.find(made.encoder)))
        found.append(start_heads(made, model)["main"]["sha256"])
    assert found[0] != found[1]


def test_checkpoint_without_a_head_is_an_error(tmp_path: Path) -> None:
    made = recipe(tmp_path, f"head.start={minilm_folder()}")
    with pytest.raises(LaminaError, match=r"^head\.start: .*has no trained question-answering head \(qa_outputs\.bias.* Fix: "):
        build_on_meta(made)
