"""`terms.teacher`: runs that learn from the stored outputs of other runs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import lamina
from lamina.config.parse import parse_recipe, read_recipe
from lamina.config.recipe import Recipe
from lamina.data.squad import to_squad
from lamina.encoder import load as encoders
from lamina.encoder.blocks import EncoderConfig
from lamina.errors import LaminaError, LaminaWarning
from lamina.experiments.average import average
from lamina.objectives.teacher import taught_values
from lamina.runs.export import export
from lamina.runs.load import load_trained
from lamina.state_cache import store as stores
from lamina.state_cache.extract import gathered
from lamina.tasks.checks import resolved
from lamina.tasks.kind import FileCache
from lamina.training import teachers as module
from lamina.training.cost_estimate import inspect
from lamina.training.datasets import AnyDataset, load_data
from lamina.training.teachers import find_teachers, with_teachers
from lamina.training.trainer import train
from lamina.utils.progress import Silent
from lamina.utils.run_folder import Run
from tests import tiny
from tests.command import lamina as command
from tests.resuming import stopped_and_resumed
from tests.training.test_resume import assert_same, result

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with data, a recipe, and two finished runs of it: one and two."""
    folder = tmp_path_factory.mktemp("teachers")
    for name, examples in (("train", tiny.corpus(12)), ("dev", tiny.corpus(15)[60:])):
        (folder / f"{name}.json").write_text(json.dumps(to_squad(examples)))
    (folder / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=folder))
    for seed, name in enumerate(("one", "two"), 1):
        train(recipe(folder, f"train.seed={seed}", "train.epochs=3"), folder / name)
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("LAMINA_CACHE", str(path))
    return path


def recipe(folder: Path, *settings: str) -> Recipe:
    return read_recipe(folder / "small.toml", ["train.device=cpu", "train.keep=last", *settings])


def student(folder: Path, *settings: str, runs: tuple[str, ...] = ("one",)) -> Recipe:
    named = ", ".join(f'"{folder / run}"' for run in runs)
    return recipe(folder, f"terms.teacher.runs=[{named}]", *settings)


def taught_dataset(made: Recipe) -> AnyDataset:
    """Return the training dataset of a recipe with the stored outputs of its teachers."""
    files = FileCache()
    made = resolved(made, files)
    data = load_data(made, encoders.find(made.encoder), files, Silent())
    found = find_teachers(made, data.tokenizer)
    return with_teachers(made, found, data, CPU, Silent()).train["main"]


def assert_stored_equals_live(dataset: AnyDataset, runs: tuple[Path, ...]) -> None:
    """Compare all items, which are stored in other batches than these."""
    models = [load_trained(run, CPU).model for run in runs]
    for items in np.array_split(np.arange(dataset.windows.items)[::-1], 5):
        batch = dataset.batch(items)
        with torch.inference_mode():
            live = torch.stack([taught_values(model(batch)) for model in models])
        assert batch.taught is not None and batch.taught.shape == live.shape and batch.taught.dtype == torch.float32
        kept = batch.mask if live.ndim == 4 else torch.ones(live.shape[1], dtype=torch.bool)
        torch.testing.assert_close(batch.taught[:, kept], live[:, kept], atol=1e-5, rtol=0)
        assert not batch.taught[:, ~kept].any(), "padding is zero"


# ---- stored outputs


def test_stored_outputs_equal_those_of_the_live_teachers(folder: Path) -> None:
    dataset = taught_dataset(student(folder, runs=("one", "two")))
    assert_stored_equals_live(dataset, (folder / "one", folder / "two"))


SENTENCES: dict[str, dict[str, Any]] = {
    "classification": {"data": {"classes": ["a", "b", "c"]}},
    "regression": {"data": {"scores": [0, 5]}},
    "cosine": {"data": {"classes": ["a", "b"], "pairs": True}},
    "concatenation": {"data": {"classes": ["a", "b"], "pairs": True}},
}


def sentence_values(folder: Path, head: str) -> dict[str, Any]:
    options = SENTENCES[head]["data"]
    labels = options.get("classes") or ["0.5", "4", "2.5"]
    rows = [f"text {n},other {'word ' * (n % 5)}{n},{labels[n % len(labels)]}\n" for n in range(30)]
    (folder / f"{head}.csv").write_text("first,second,label\n" + "".join(rows))
    columns = {"first": "first", "label": "label"} | ({"second": "second"} if options.get("pairs") else {})
    return {
        "data": {"train": str(folder / f"{head}.csv"), "columns": columns, **options},
        "head": {"type": head},
        "encoder": {"model": "tiny", "pretrained": False},
        "train": {"epochs": 1, "device": "cpu", "threads": 1},
    }


@pytest.mark.filterwarnings("ignore:data.train.*are few")
@pytest.mark.parametrize("head", SENTENCES)
def test_every_sentence_head_teaches_and_learns(tmp_path: Path, head: str) -> None:
    values = sentence_values(tmp_path, head)
    first = train(parse_recipe(values), tmp_path / "first")
    made = parse_recipe(values, [f"terms.teacher.runs={first.path}", "train.seed=5"])
    assert_stored_equals_live(taught_dataset(made), (first.path,))
    run = train(made, tmp_path / "second")
    assert all(entry["terms"]["teacher"] > 0 for entry in entries(run) if "terms" in entry)


def test_answerability_teaches_and_learns(folder: Path, tmp_path: Path) -> None:
    settings = "head.type=answerability", "head.pooled=false", "train.epochs=1"
    first = train(recipe(folder, *settings), tmp_path / "first")
    made = recipe(folder, *settings, f"terms.teacher.runs={first.path}", "train.seed=5")
    assert_stored_equals_live(taught_dataset(made), (first.path,))
    assert train(made, tmp_path / "second").finished


def test_another_span_head_and_other_windows_may_teach(folder: Path, tmp_path: Path) -> None:
    """The teacher reads the windows of the student."""
    other = "head.type=cacnn", "head.filters=8", "head.context=8", "window.length=80", "train.epochs=0"
    first = train(recipe(folder, *other), tmp_path / "first")
    assert_stored_equals_live(taught_dataset(recipe(folder, f"terms.teacher.runs={first.path}")), (first.path,))


def test_an_exported_checkpoint_and_a_checkpoint_of_a_run_may_teach(folder: Path, tmp_path: Path) -> None:
    export(load_trained(folder / "one", CPU), tmp_path / "exported")
    whole = train(recipe(folder, "train.epochs=1", "train.checkpoints=0.5"), tmp_path / "whole")
    half = whole.path / "checkpoints" / "0.5"
    made = recipe(folder, f'terms.teacher.runs=["{tmp_path / "exported"}", "{half}"]')
    assert_stored_equals_live(taught_dataset(made), (folder / "one", half))


def test_complete_stores_are_not_computed_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taught_dataset(student(folder))

    def never(*_: object, **__: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(module, "gathered", never)
    taught_dataset(student(folder, "terms.teacher.loss=mse", "train.epochs=1"))
    with pytest.raises(AssertionError, match="computed again"):
        taught_dataset(student(folder, runs=("one", "two")))
    with pytest.raises(AssertionError, match="computed again"):
        taught_dataset(student(folder, "window.length=56"))


def test_dropout_and_the_start_of_a_head_need_no_new_store(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not change the outputs. Other weights do."""

    def fingerprint(change: dict[str, Any]) -> str:
        trained = load_trained(folder / "one", CPU)
        values = trained.recipe.model_dump(mode="json")
        values["tasks"]["main"]["head"] |= change.pop("head", {})
        values["encoder"] |= change
        again = replace(trained, recipe=parse_recipe(values))
        config = replace(again.model.encoder.config, dropout=again.recipe.encoder.dropout or 0.0)
        monkeypatch.setattr(again.model.encoder, "config", config)
        return module._fingerprint(again, "main")

    usual = fingerprint({})
    assert fingerprint({"dropout": 0.4}) == fingerprint({"head": {"start": str(folder / "two")}}) == usual
    assert module._fingerprint(load_trained(folder / "two", CPU), "main") != usual


def test_an_interrupted_extraction_continues(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "OUTPUTS", 500)
    compute, shards = gathered, list[int]()

    def stopping(rows: Any, **options: Any) -> torch.Tensor:
        shards.append(int(rows[0]))
        if len(shards) == 3:
            raise KeyboardInterrupt
        return compute(rows, **options)

    monkeypatch.setattr(module, "gathered", stopping)
    with pytest.raises(KeyboardInterrupt):
        taught_dataset(student(folder))
    assert_stored_equals_live(taught_dataset(student(folder)), (folder / "one",))
    assert len(shards) > 5
    assert len(set(shards)) == len(shards) - 1, "only the shard that was interrupted is computed twice"


def test_commands_list_verify_and_clear_the_outputs(folder: Path) -> None:
    taught_dataset(student(folder)).teachers[0].close()
    listed = command("cache", "list").out
    assert f"outputs of {folder / 'one'} on {folder / 'train.json'} in float32" in listed
    assert command("cache", "verify").out.endswith(": sound\n")
    assert "cleared" in command("cache", "clear", "--all").out


# ---- training


def entries(run: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.metrics.read_text().splitlines()]


def test_a_time_budget_that_the_teachers_use_up_is_a_warning(folder: Path, tmp_path: Path) -> None:
    with pytest.warns(LaminaWarning, match=r"train.minutes: is 1e-06, but storing took .* only one step. Fix: train again"):
        run = train(student(folder, "train.minutes=1e-6", "train.seed=8"), tmp_path / "taught")
    assert run.read_info()["steps"] == 1


def test_a_student_learns_from_its_teachers_alone(folder: Path, tmp_path: Path) -> None:
    """Without labels, its logits come near to the mean of the teachers', nearer than those of a run on labels alone."""
    settings = "train.epochs=8", "train.seed=7"
    only = "terms.teacher.objective=0", "terms.teacher.loss=mse"
    run = train(student(folder, *only, *settings, runs=("one", "two")), tmp_path / "taught")
    values = [entry["terms"]["teacher"] for entry in entries(run) if "terms" in entry]
    assert [entry["loss"] for entry in entries(run) if "terms" in entry] == pytest.approx(values)
    assert np.mean(values[-5:]) < 0.3 * np.mean(values[:5])
    alone = train(recipe(folder, *settings), tmp_path / "alone")
    teachers = [load_file(folder / name / "outputs.safetensors") for name in ("one", "two")]

    def apart(other: Run) -> float:
        """Return the mean distance from the mean logits of the teachers on the dev set."""
        own = load_file(other.outputs)
        return float(np.mean([np.abs(own[key] - (teachers[0][key] + teachers[1][key]) / 2).mean() for key in ("start", "end")]))

    assert apart(run) < 0.6 * apart(alone)


def test_a_student_that_equals_its_teacher_has_no_loss(folder: Path, tmp_path: Path) -> None:
    start = f"encoder.model={folder / 'one'}", "encoder.pretrained=true", f"head.start={folder / 'one'}"
    still = "encoder.dropout=0", "terms.teacher.objective=0", "train.epochs=1", "train.lr=1e-9"
    run = train(student(folder, *start, *still), tmp_path / "run")
    assert all(abs(entry["terms"]["teacher"]) < 1e-6 for entry in entries(run) if "terms" in entry)


def test_weight_0_needs_no_teacher(folder: Path, tmp_path: Path) -> None:
    plain = train(recipe(folder, "train.epochs=1"), tmp_path / "plain")
    off = train(student(folder, "train.epochs=1", "terms.teacher.weight=0", runs=("missing",)), tmp_path / "off")
    assert off.model.read_bytes() == plain.model.read_bytes()
    assert off.metrics.read_bytes() == plain.metrics.read_bytes()


def test_stored_states_and_teachers_are_used_together(folder: Path, tmp_path: Path) -> None:
    settings = "tune.layers=1", "encoder.dropout=0", "cache.dtype=float32", "train.epochs=1"
    live = train(student(folder, *settings, "cache.use=never"), tmp_path / "live")
    stored = train(student(folder, *settings, "cache.use=always"), tmp_path / "stored")
    losses = [[entry["loss"] for entry in entries(run) if "loss" in entry] for run in (live, stored)]
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)


def test_resumed_run_is_the_same(folder: Path, tmp_path: Path) -> None:
    made = student(folder, "train.checkpoint_minutes=0", runs=("one", "two"))
    train(made, tmp_path / "whole")
    stopped_and_resumed(made, tmp_path / "resumed", before=6)
    assert_same(result(tmp_path / "resumed"), result(tmp_path / "whole"))
    (found,) = json.loads((tmp_path / "whole" / "run.json").read_text())["teachers"].values()
    assert [(one["run"], one["task"]) for one in found] == [(str(folder / run), "main") for run in ("one", "two")]


def test_run_is_not_resumed_with_another_teacher(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "one", tmp_path / "teacher")
    made = recipe(folder, f"terms.teacher.runs={tmp_path / 'teacher'}", "train.epochs=1")

    def train_the_teacher_anew() -> None:
        shutil.rmtree(tmp_path / "teacher")
        shutil.copytree(folder / "two", tmp_path / "teacher")

    with pytest.raises(LaminaError, match=r"the weights of terms.teacher.runs changed since this run began. Fix: "):
        stopped_and_resumed(made, tmp_path / "run", before=3, meanwhile=train_the_teacher_anew)


def test_average_refuses_runs_of_other_teachers(folder: Path, tmp_path: Path) -> None:
    runs = []
    for name in ("one", "two"):
        shutil.rmtree(tmp_path / "teacher", ignore_errors=True)
        shutil.copytree(folder / name, tmp_path / "teacher")
        made = recipe(folder, f"terms.teacher.runs={tmp_path / 'teacher'}", "train.epochs=0.5")
        runs.append(train(made, tmp_path / f"of-{name}").path)
    with pytest.raises(LaminaError, match=r"learned from other teachers than .*of-one. Fix: "):
        average(runs, tmp_path / "average")
    assert average(runs[:1], tmp_path / "average").read_info()["teachers"]["main"][0]["task"] == "main"


def test_a_finished_student_does_not_need_its_teacher(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "one", tmp_path / "teacher")
    run = train(recipe(folder, f"terms.teacher.runs={tmp_path / 'teacher'}", "train.epochs=1"), tmp_path / "run")
    ask = "When was the heron born?", "The heron of tale 0 was born in 1800."
    reply = lamina.load(run.path, device="cpu").answer(*ask)
    shutil.rmtree(tmp_path / "teacher")
    assert lamina.load(run.path, device="cpu").answer(*ask) == reply


def test_the_teacher_of_a_task_is_the_task_of_its_name_or_the_only_one(folder: Path, tmp_path: Path) -> None:
    text = (folder / "small.toml").read_text()
    data, rest = text[text.index("train =") : text.index("[encoder]")], text[text.index("[encoder]") :]
    (tmp_path / "two.toml").write_text(f"[tasks.first.data]\n{data}[tasks.second.data]\n{data}{rest}")
    quick = ["train.epochs=0.5", "train.device=cpu"]
    two = train(read_recipe(tmp_path / "two.toml", quick), tmp_path / "two")
    with pytest.raises(LaminaError, match=r"terms.teacher.runs: .*has no task 'main'; its tasks: first, second. Fix: "):
        taught_dataset(recipe(folder, f"terms.teacher.runs={two.path}"))
    named = [f"tasks.first.terms.teacher.runs={folder / 'one'}", f"tasks.second.terms.teacher.runs={two.path}"]
    run = train(read_recipe(tmp_path / "two.toml", [*quick, *named]), tmp_path / "run")
    found = run.read_info()["teachers"]
    assert [found[name][0]["task"] for name in ("first", "second")] == ["main", "second"]
    terms = {name for entry in entries(run) for name in entry.get("terms", {})}
    assert terms == {"first.teacher", "second.teacher"}


# ---- what cannot teach


def refused(made: Recipe, out: Path) -> str:
    """Return the message of a run that does not begin; it leaves no recipe behind."""
    with pytest.raises(LaminaError) as caught:
        train(made, out)
    assert not Run(out).recipe.exists()
    return str(caught.value)


def test_what_is_no_model_is_refused(folder: Path, tmp_path: Path) -> None:
    message = refused(recipe(folder, f"terms.teacher.runs={tmp_path}"), tmp_path / "run")
    assert message.startswith(f"terms.teacher.runs: {tmp_path}: not a run folder")
    shutil.copytree(folder / "one", tmp_path / "half")
    info = json.loads((tmp_path / "half" / "run.json").read_text())
    (tmp_path / "half" / "run.json").write_text(json.dumps(info | {"finished": False}))
    assert "has not finished" in refused(recipe(folder, f"terms.teacher.runs={tmp_path / 'half'}"), tmp_path / "run")


def test_another_kind_of_head_is_refused(folder: Path, tmp_path: Path) -> None:
    made = student(folder, "head.type=answerability", "head.pooled=false")
    assert refused(made, tmp_path / "run") == (
        f'terms.teacher.runs: {folder / "one"}: its head is of type "span", not "answerability". '
        'Fix: name runs with a head of type "answerability"'
    )


@pytest.mark.filterwarnings("ignore:data.train.*are few")
def test_other_labels_and_another_sentence_head_are_refused(tmp_path: Path) -> None:
    values = sentence_values(tmp_path, "classification")
    values["train"]["epochs"] = 0
    first = train(parse_recipe(values), tmp_path / "first").path
    taught = [f"terms.teacher.runs={first}", "train.epochs=1"]
    other = parse_recipe(values, [*taught, "data.classes=['c', 'b', 'a']"])
    assert refused(other, tmp_path / "run") == (
        f"terms.teacher.runs: {first}: its labels are a, b, c, not c, b, a. "
        "Fix: set data.classes or data.scores to the same labels in the same order"
    )
    scores = parse_recipe(sentence_values(tmp_path, "regression"), taught)
    assert 'its head is of type "classification", not "regression"' in refused(scores, tmp_path / "run")


def test_another_tokenizer_is_refused_and_both_are_named(folder: Path, tmp_path: Path) -> None:
    definition = json.loads((folder / "one" / "tokenizer.json").read_text())
    definition["normalizer"]["lowercase"] = False
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition))
    made = student(folder, f"encoder.tokenizer={tmp_path / 'tokenizer.json'}")
    assert refused(made, tmp_path / "run") == (
        f"terms.teacher.runs: {folder / 'one'}: its tokenizer is that of tiny, which differs from that of "
        f"{tmp_path / 'tokenizer.json'}, so it cannot read these windows. "
        "Fix: name teachers with the tokenizer of encoder.model"
    )


def test_too_few_positions_are_refused_with_both_numbers(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EncoderConfig, "max_length", 48, raising=False)
    with pytest.raises(LaminaError, match=r"has 48 positions, but window.length is 64. Fix: set window.length to at most 48"):
        find_teachers(student(folder), tiny.tokenizer())


# ---- cost


def test_inspect_counts_the_teachers(folder: Path) -> None:
    plain, taught = (inspect(made)["training"] for made in (recipe(folder), student(folder, runs=("one", "two"))))
    assert plain is not None and taught is not None
    assert plain["teachers"] is None
    cost = taught["teachers"]
    assert cost is not None and cost["runs"] == 2
    assert taught["flops"] - plain["flops"] == pytest.approx(cost["flops"])
    epoch = plain["flops"] / 2  # two epochs of forward and backward passes, three times a forward pass
    assert cost["flops"] == pytest.approx(2 * epoch / 3, rel=1e-6)
    assert cost["gb"] == round(2 * 8 * taught["tokens_per_epoch"] / 1e9, 3)
    shown = command("inspect", folder / "small.toml", "--set", f"terms.teacher.runs={folder / 'one'}")
    assert "teachers: 1, " in shown.out
    missing = command("inspect", folder / "small.toml", "--set", f"terms.teacher.runs={folder}")
    assert missing.code == 2 and "terms.teacher.runs: " in missing.err
