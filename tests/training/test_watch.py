"""The argument `watch` of `train` gets every evaluation and can stop the run; run.json has the best score."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lamina.config.parse import read_recipe
from lamina.config.recipe import Recipe
from lamina.data.squad import to_squad
from lamina.training.trainer import train
from lamina.utils.files import read_json
from lamina.utils.run_folder import Run
from tests import tiny


def recipe(folder: Path, *settings: str) -> Recipe:
    for name in ("train", "dev"):
        (folder / f"{name}.json").write_text(json.dumps(to_squad(tiny.corpus(8))))
    (folder / "recipe.toml").write_text(tiny.SMALL_RECIPE.format(folder=folder))
    return read_recipe(folder / "recipe.toml", ["train.evaluate_every=0.5", "train.lr=0.01", *settings])


def evaluations(run: Run) -> list[dict[str, Any]]:
    entries = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    return [entry for entry in entries if "evaluation" in entry]


def test_watch_gets_every_evaluation_and_the_best_is_recorded(tmp_path: Path) -> None:
    seen: list[tuple[float, float]] = []

    def watch(share: float, score: float) -> bool:
        seen.append((share, score))
        return False

    run = train(recipe(tmp_path), tmp_path / "run", watch=watch)
    info, found = read_json(run.info), evaluations(run)
    assert [round(share * info["steps"]) for share, _ in seen] == [entry["step"] for entry in found]
    assert [score for _, score in seen] == [entry["evaluation"]["balanced_f1"] for entry in found]
    assert (len(seen), seen[-1][0], info["stopped_early"]) == (4, 1.0, False)
    assert info["score"] == max(score for _, score in seen)


def test_watch_stops_the_run(tmp_path: Path) -> None:
    run = train(recipe(tmp_path), tmp_path / "run", watch=lambda share, score: share >= 0.5)
    info = read_json(run.info)
    assert run.finished and info["stopped_early"]
    assert evaluations(run)[-1]["step"] == -(-info["steps"] // 2)
    assert run.scores.exists(), "the run is finished"


def test_run_without_held_out_examples_has_no_score(tmp_path: Path) -> None:
    run = train(recipe(tmp_path, "data.holdout=0.0"), tmp_path / "run")
    assert read_json(run.info)["score"] is None
