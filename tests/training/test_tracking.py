"""Metrics of a run reach the caller and dashboards: every entry of metrics.jsonl, in its order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina.data.squad import to_squad
from lamina.training.tracking import TensorBoard, scalars
from tests import tiny
from tests.command import lamina as command


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tracking")
    for name in ("train", "dev"):
        (folder / f"{name}.json").write_text(json.dumps(to_squad(tiny.corpus(6))))
    (folder / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=folder))
    return folder / "small.toml"


def entries(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_the_caller_gets_every_entry(recipe: Path, tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    plain = lamina.train(recipe, tmp_path / "plain")
    run = lamina.train(recipe, tmp_path / "run", on_metrics=seen.append)
    assert seen == entries(run.path) == entries(plain.path)
    assert any("evaluation" in one for one in seen) and any("loss" in one for one in seen)


def test_tensorboard_reads_the_same_numbers(recipe: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = command("train", recipe, "--out", tmp_path / "run", "--track", "tensorboard")
    assert result.code == 0, result.err
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    wanted: dict[str, list[tuple[int, float]]] = {}
    for entry in entries(tmp_path / "run"):
        for name, value in scalars(entry).items():
            wanted.setdefault(name, []).append((entry["step"], value))
    assert sorted(events.Tags()["scalars"]) == sorted(wanted)
    for name, points in wanted.items():
        found = [(one.step, one.value) for one in events.Scalars(name)]
        assert [step for step, _ in found] == [step for step, _ in points]
        assert [value for _, value in found] == pytest.approx([value for _, value in points], rel=1e-5)


def test_a_missing_library_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(name: str) -> object:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr("lamina.training.tracking.import_module", without)
    with pytest.raises(lamina.LaminaError, match=r"Fix: pip install 'lamina-qa\[tracking\]'"):
        TensorBoard(tmp_path)


def test_mlflow_stores_the_metrics_in_files(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.tracking import MlflowClient

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = MlflowClient(tracking_uri=(tmp_path / "store").as_uri())
    run = client.create_run(client.create_experiment("tiny")).info.run_id

    def log(entry: dict[str, Any]) -> None:
        for name, value in scalars(entry).items():
            client.log_metric(run, name, value, step=entry["step"])

    lamina.train(recipe, tmp_path / "run", on_metrics=log)
    losses = [entry["loss"] for entry in entries(tmp_path / "run") if "loss" in entry]
    assert [one.value for one in client.get_metric_history(run, "loss")] == pytest.approx(losses)
