"""Runs whose weights are the mean of other runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import lamina as library
from lamina.data.squad import to_squad
from lamina.errors import LaminaError, LaminaWarning
from lamina.experiments.average import average, mean_weights
from lamina.utils.files import read_json, write_json
from lamina.utils.run_folder import Run
from tests import tiny
from tests.command import lamina


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Train two short runs of one recipe with two seeds."""
    path = tmp_path_factory.mktemp("average")
    (path / "train.json").write_text(json.dumps(to_squad(tiny.corpus(12))))
    (path / "dev.json").write_text(json.dumps(to_squad(tiny.corpus(5))))
    (path / "unseen.json").write_text(json.dumps(to_squad(tiny.corpus(15)[60:])))
    (path / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=path))
    for seed in range(2):
        settings = ("--set", f"train.seed={seed}", "--set", "train.epochs=0.5")
        trained = lamina("train", path / "small.toml", "--out", path / f"run{seed}", *settings, "--json")
        assert trained.code == 0, trained.err
    yield path


def runs(folder: Path) -> list[Path]:
    return [folder / "run0", folder / "run1"]


def test_average_of_one_run_is_that_run(folder: Path, tmp_path: Path) -> None:
    run, made = Run(folder / "run0"), average([folder / "run0"], tmp_path / "out")
    one, other = load_file(run.model), load_file(made.model)
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    assert read_json(made.scores)["zero"] == read_json(run.scores)["zero"]
    assert read_json(made.recipe) == read_json(run.recipe)
    assert load_file(made.outputs)["start"].equal(load_file(run.outputs)["start"])
    assert read_json(made.info)["tasks"] == read_json(run.info)["tasks"]
    again = average([made.path], tmp_path / "again")
    assert read_json(again.info)["average"]["fitted_on"] == "the held-out split"


def test_average_of_two_runs_is_their_mean_and_answers(folder: Path, tmp_path: Path) -> None:
    made = average(runs(folder), tmp_path / "out")
    first, second, mean = (load_file(Run(path).model) for path in (*runs(folder), made.path))
    assert any(not torch.equal(first[name], second[name]) for name in first)
    for name, value in mean.items():
        torch.testing.assert_close(value, (first[name] + second[name]) / 2, atol=1e-6, rtol=0)
    scores = read_json(made.scores)
    assert scores["zero"]["total"] == 25 and scores["tuned"] == scores["zero"] | {"threshold": 0.0}
    about = read_json(made.info)
    assert [member["seed"] for member in about["average"]["members"]] == [0, 1]
    assert (about["tasks"]["main"]["threshold"], about["average"]["fitted_on"], about["finished"]) == (0, None, True)
    for others in ([made.path], [made.path, folder / "run0"]):
        again = average(others, tmp_path / f"of {len(others)}")
        assert read_json(again.info)["average"]["seeds"] == [0, 1], "the average has the seeds of both"
        assert read_json(again.info)["average"]["fitted_on"] is None
    reader = library.load(tmp_path / "out")
    example = tiny.corpus(1)[0]
    assert reader.threshold == 0
    said = reader.answer(example.question, example.context, threshold=1e9).text
    assert said is not None and said in example.context
    evaluated = lamina("evaluate", made.path, "--data", folder / "dev.json", "--json")
    assert json.loads(evaluated.out)["f1"] == pytest.approx(scores["zero"]["f1"])


def test_checkpoints_of_one_run_are_averaged(folder: Path, tmp_path: Path) -> None:
    """Average the checkpoints of a run: stochastic weight averaging."""
    settings = ("--set", "train.epochs=1", "--set", "train.checkpoints=0.5", "--set", "train.schedule=constant")
    assert lamina("train", folder / "small.toml", "--out", tmp_path / "run", *settings).code == 0
    kept = sorted((tmp_path / "run" / "checkpoints").iterdir())
    assert len(kept) == 2
    assert lamina("average", *kept, "--out", tmp_path / "swa").code == 0
    first, second, mean = (load_file(Run(path).model) for path in (*kept, tmp_path / "swa"))
    assert any(not torch.equal(first[name], second[name]) for name in first)
    for name, value in mean.items():
        torch.testing.assert_close(value, (first[name] + second[name]) / 2, atol=1e-6, rtol=0)
    about, scores = read_json(Run(tmp_path / "swa").info), read_json(Run(tmp_path / "swa").scores)
    assert scores["zero"]["total"] == 25
    assert about["average"]["fitted_on"] == "the held-out split" and "costs" not in about
    assert about["tasks"]["main"]["calibration"] and about["tasks"]["main"]["threshold"] == scores["tuned"]["threshold"]


def test_threshold_is_0_without_the_training_data(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run0", tmp_path / "run")
    recipe = read_json(tmp_path / "run" / "recipe.json")
    recipe["tasks"]["main"]["data"]["train"] = str(tmp_path / "gone.json")
    (tmp_path / "run" / "recipe.json").write_text(json.dumps(recipe))
    with pytest.warns(LaminaWarning, match=r"the threshold is 0, because the training data cannot be read: .*gone\.json"):
        made = average([tmp_path / "run"], tmp_path / "out")
    about = read_json(made.info)
    assert (about["tasks"]["main"]["threshold"], about["average"]["fitted_on"]) == (0, None)


def test_changed_training_data_fits_nothing(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run0", tmp_path / "run")
    recipe = read_json(tmp_path / "run" / "recipe.json")
    recipe["tasks"]["main"]["data"]["train"] = str(tmp_path / "grown.json")
    (tmp_path / "run" / "recipe.json").write_text(json.dumps(recipe))
    (tmp_path / "grown.json").write_text(json.dumps(to_squad(tiny.corpus(13))))
    with pytest.warns(
        LaminaWarning, match=r"grown\.json: changed since some of these runs were trained, so the threshold is 0"
    ):
        made = average([tmp_path / "run"], tmp_path / "out")
    about = read_json(made.info)
    assert (about["tasks"]["main"]["threshold"], about["average"]["fitted_on"]) == (0, None)
    with pytest.warns(LaminaWarning, match=r"--data .*unseen\.json: cannot be compared with the training data: .*grown\.json"):
        (tmp_path / "grown.json").unlink()
        average([tmp_path / "run"], tmp_path / "other", data=str(folder / "unseen.json"))


def test_threshold_is_fitted_on_named_data(folder: Path, tmp_path: Path) -> None:
    made = average(runs(folder), tmp_path / "out", data=str(folder / "unseen.json"))
    about, scores = read_json(made.info), read_json(made.scores)
    assert about["average"]["fitted_on"] == str(folder / "unseen.json")
    assert about["tasks"]["main"]["threshold"] == scores["tuned"]["threshold"] == library.load(made.path).threshold
    renamed = [replace(example, id=f"{example.id}#0", group=example.id) for example in tiny.corpus(5)]
    (tmp_path / "same.json").write_text(json.dumps(to_squad(renamed)))
    for name in (folder / "dev.json", tmp_path / "same.json"):
        with pytest.raises(LaminaError, match=r"(\d+) of its \1 examples are in the dev set, so the scores would be too good"):
            average(runs(folder), tmp_path / "other", data=str(name))
    (tmp_path / "learned.json").write_text(json.dumps(to_squad(tiny.corpus(12)[25:])))
    with pytest.raises(LaminaError, match=r"\d+ of its 35 examples are in the training data, so the scores would be too good"):
        average(runs(folder), tmp_path / "other", data=str(tmp_path / "learned.json"))
    assert not (tmp_path / "other").exists()


def test_average_of_runs_with_only_trained_weights(folder: Path, tmp_path: Path) -> None:
    """Train on an encoder in a folder. Their average finds it from any folder."""
    members = [tmp_path / f"above{seed}" for seed in range(2)]
    for seed, path in enumerate(members):
        settings = [f"train.seed={seed}", "train.epochs=0.3", "tune.layers=0", "encoder.pretrained=true"]
        settings.append(f"encoder.model={folder / 'run0'}")
        trained = lamina("train", folder / "small.toml", "--out", path, *(word for s in settings for word in ("--set", s)))
        assert trained.code == 0, trained.err
    made = average(members, tmp_path / "deep" / "er" / "out")
    weights = load_file(made.model)
    assert len(weights) < len(load_file(Run(folder / "run0").model))
    scores = library.load(made.path).evaluate(tiny.corpus(5))
    assert scores["zero"]["f1"] == pytest.approx(read_json(made.scores)["zero"]["f1"])


def test_runs_that_do_not_fit_raise(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(folder / "run1", other)
    recipe, info = read_json(Run(other).recipe), read_json(Run(other).info)
    write_json(Run(other).info, info | {"checksums": {}})  # so that other files may be changed
    write_json(Run(other).recipe, recipe | {"train": recipe["train"] | {"lr": 0.5}})
    with pytest.raises(
        LaminaError, match=r"other: its recipe differs from that of .*run0 \(train.lr = 0.5, not 0.001\)"
    ) as caught:
        average([folder / "run0", other], tmp_path / "out")
    assert "\n" not in str(caught.value)
    write_json(Run(other).recipe, recipe)
    write_json(Run(other).info, info | {"checksums": {}, "encoder": info["encoder"] | {"sha256": "0"}})
    with pytest.raises(LaminaError, match="began with other weights"):
        average([folder / "run0", other], tmp_path / "out")
    packed = library.load(folder / "run0").save(tmp_path / "packed", weights="int8").path
    with pytest.raises(
        LaminaError, match=r"packed: .*packed models cannot be averaged\. Fix: average the runs before they are packed"
    ):
        average([packed, packed], tmp_path / "out")
    with pytest.raises(LaminaError, match="name at least one"):
        average([], tmp_path / "out")
    with pytest.raises(LaminaError, match="not a run folder"):
        average([folder / "run0", tmp_path / "nowhere"], tmp_path / "out")
    with pytest.raises(LaminaError, match="write the average into a new folder"):
        average(runs(folder), other)
    assert not (tmp_path / "out").exists()


def test_weights_with_other_names_shapes_or_numbers_raise(tmp_path: Path) -> None:
    def stored(name: str, **weights: torch.Tensor) -> Path:
        save_file(weights, tmp_path / name)
        return tmp_path / name

    one = stored("one", w=torch.tensor([1.0, 2.0]), n=torch.tensor([3]))
    other = stored("other", w=torch.tensor([2.0, 4.0]), n=torch.tensor([3]))
    mean = mean_weights([one, other, other])
    torch.testing.assert_close(mean["w"], torch.tensor([5 / 3, 10 / 3]))
    assert mean["n"].tolist() == [3]
    seen = [stored(f"seen{n}", **{"norm.num_batches_tracked": torch.tensor(n)}) for n in (7, 9, 8)]
    assert int(mean_weights(seen)["norm.num_batches_tracked"]) == 9, "seeds may have different numbers of steps"
    with pytest.raises(LaminaError, match="n is not in both this file and"):
        mean_weights([one, stored("fewer", w=torch.tensor([1.0, 2.0]))])
    with pytest.raises(LaminaError, match=r"w is 3 \(float32\), but 2 \(float32\) in .*one"):
        mean_weights([one, stored("longer", w=torch.zeros(3), n=torch.tensor([3]))])
    with pytest.raises(LaminaError, match=r"n differs from that of .*one, and whole numbers are not averaged"):
        mean_weights([one, stored("counted", w=torch.zeros(2), n=torch.tensor([4]))])
    (tmp_path / "broken").write_bytes(b"nonsense")
    with pytest.raises(LaminaError, match="broken: cannot be read"):
        mean_weights([one, tmp_path / "broken"])


def test_average_command(folder: Path, tmp_path: Path) -> None:
    printed = lamina("average", *runs(folder), "--out", tmp_path / "out", "--json")
    assert printed.code == 0, printed.err
    result = json.loads(printed.out)
    assert result["tasks"]["main"]["threshold"] == 0 and len(result["average"]["members"]) == 2
    assert result["scores"] == read_json(tmp_path / "out" / "scores.json")
    shown = lamina("average", *runs(folder), "--out", tmp_path / "again")
    assert shown.code == 0 and "F1" in shown.out and "the average of 2" in shown.out
    refused = lamina("average", *runs(folder), "--out", tmp_path / "out")
    assert (refused.code, refused.out) == (2, "") and "new folder" in refused.err
    together = lamina("ensemble", folder / "run0", tmp_path / "out", "--out", tmp_path / "both", "--json")
    assert together.code == 0, together.err
