"""Read what a study left in its folder: its variants, their scores, costs and learning curves over the seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from lamina.errors import LaminaError
from lamina.experiments.studies.results import scores_of
from lamina.experiments.studies.run_study import read_about
from lamina.experiments.studies.study_file import Variant
from lamina.training.cost_estimate import efficiency
from lamina.utils.files import read_json
from lamina.utils.run_folder import Run, read_object

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class SeedResult:
    """The finished run or ensemble of a variant with one seed."""

    seed: int
    path: Path
    scores: Mapping[str, float]
    is_ensemble: bool


@dataclass(frozen=True)
class VariantResult:
    """A variant with its finished seeds. Costs are means over the seeds; None if unknown."""

    name: str
    variant: Variant
    baseline: str
    seeds: Sequence[SeedResult]
    asked: int  # number of seeds of the study
    parameters: int | None
    share: float | None  # trained parameters in percent of all
    minutes: float | None  # of training, without what several runs share: stored states
    inference: float | None  # seconds for each 1,000 examples
    layers: Mapping[str, Any] | None
    fraction: float | None
    checkpoint: float | None

    def values(self, score: str) -> list[float]:
        """Return a score of all seeds that have it."""
        return [one.scores[score] for one in self.seeds if score in one.scores]

    def mean(self, score: str) -> float | None:
        """Return the mean of a score over the seeds."""
        values = self.values(score)
        return fmean(values) if values else None

    def efficiency(self, f1: float | None) -> float | None:
        """Return the efficiency score of an F1; None if it is unknown, or if at most one parameter trained."""
        if f1 is None or self.parameters is None or self.parameters <= 1:
            return None
        return efficiency(f1, self.parameters)

    @property
    def is_point_of_a_curve(self) -> bool:
        """Whether the variant only is a point of a figure: a share of the data, or a part of an epoch."""
        return bool(self.rows) and all(row.split("/")[1].startswith("Figure") for row in self.rows)

    @property
    def rows(self) -> list[str]:
        """The rows of the paper that this variant reproduces."""
        return [row for row in (self.variant.row, *self.variant.rows) if row]


@dataclass(frozen=True)
class StudyResults:
    """A study with the results of all of its variants, also of those that have none yet."""

    out: Path
    about: Mapping[str, Any]
    size: str
    variants: Mapping[str, VariantResult]
    failed: Mapping[str, str]
    settings: Sequence[str] = ()  # of all runs, beside those of the study

    @property
    def title(self) -> str:
        return str(self.about["title"])

    @property
    def paper(self) -> str:
        return str(self.about["paper"])

    @property
    def score(self) -> str:
        """The score that decides: by question if questions have several contexts."""
        names = [name for one in self.variants.values() for seed in one.seeds for name in seed.scores]
        for name in ("by question KorQuAD F1", "by question F1", "F1", "mean"):
            if name in names:
                return name
        return names[0] if names else "F1"


def read_results(out: Path) -> StudyResults:
    """Return the results in the folder of a study.

    Raises:
        LaminaError: The folder is not that of a study.
    """
    about = read_about(out)
    times = read_object(out / "times.json") if (out / "times.json").is_file() else {}
    failed = read_object(out / "failed.json") if (out / "failed.json").is_file() else {}
    try:
        variants = {name: Variant.model_validate(one) for name, one in about["variants"].items()}
        found = {name: _variant(out, about, name, one, times) for name, one in variants.items()}
    except (KeyError, ValueError, TypeError) as error:
        raise LaminaError(f"{out}: its study.json is damaged ({error}). Fix: run `lamina study` again") from None
    return StudyResults(out, about["study"], about["size"], found, failed, about.get("settings", ()))


def _variant(out: Path, about: Mapping[str, Any], name: str, one: Variant, times: Mapping[str, Any]) -> VariantResult:
    places = [place for place in about["results"] if place["variant"] == name]
    seeds = [found for place in places if (found := _seed(out, place)) is not None]
    runs = [Run(seed.path) for seed in seeds if not seed.is_ensemble]
    infos = [read_object(run.info) for run in runs]
    counts = infos[0]["parameters"] if infos else None
    minutes = [_minutes(info["costs"]) for info in infos if info.get("costs")]
    measured: Mapping[str, Any] = next((times[place["path"]] for place in places if place["path"] in times), {})
    seconds = min(measured["seconds"]) / measured["examples"] * 1000 if measured else None
    recipe = read_json(runs[0].recipe) if runs else {}
    return VariantResult(
        name=name,
        variant=one,
        baseline=one.baselines.get(about["size"]) or one.baseline or about["study"]["baseline"],
        seeds=seeds,
        asked=len(places),
        parameters=None if counts is None else int(counts["trainable"]),
        share=None if counts is None else 100 * counts["trainable"] / counts["total"],
        minutes=fmean(minutes) if minutes and not one.checkpoint else None,
        inference=seconds,
        layers=measured.get("layers"),
        fraction=next(iter(_fractions(recipe)), None),
        checkpoint=float(one.checkpoint) if one.checkpoint else None,
    )


def _seed(out: Path, place: Mapping[str, Any]) -> SeedResult | None:
    path = out / place["path"]
    is_ensemble = (path / "ensemble.json").is_file()
    if not (path / "scores.json").is_file() or not (is_ensemble or Run(path).finished):
        return None
    return SeedResult(int(place["seed"]), path, scores_of(read_json(path / "scores.json")), is_ensemble)


def _minutes(costs: Mapping[str, float]) -> float:
    return costs.get("train_seconds", 0.0) / 60


def _fractions(recipe: Mapping[str, Any]) -> list[float]:
    data = [task["data"] for task in recipe.get("tasks", {}).values()]
    return [float(one["fraction"]) for one in data if one.get("fraction", 1.0) != 1.0]


@dataclass(frozen=True)
class Curves:
    """The curves of a run: the loss of each step, and scores of the training split and the dev set, by step."""

    loss: Points
    scores: Mapping[str, Mapping[str, Points]]  # by metric and split: train, dev, held out


def read_run_curves(run: Path, most: int = 200) -> Curves:
    """Return the curves in a run's metrics.jsonl. The loss has at most `most` points, each the mean of some steps."""
    loss: Points = []
    scores: dict[str, dict[str, Points]] = {}
    file = run / "metrics.jsonl"
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        entry = json.loads(line)
        if "loss" in entry:
            loss.append((entry["step"], entry["loss"]))
        found = dict(entry.get("curve", {})) | ({"held out": entry["evaluation"]} if "evaluation" in entry else {})
        for split, metrics in found.items():
            for metric, value in metrics.items():
                scores.setdefault(metric, {}).setdefault(split, []).append((entry["step"], value))
    size = -(-len(loss) // most) if loss else 1
    means = [
        (part[-1][0], fmean(value for _, value in part)) for part in (loss[n : n + size] for n in range(0, len(loss), size))
    ]
    return Curves(means, scores)
