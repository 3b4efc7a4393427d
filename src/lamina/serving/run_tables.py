"""The table of finished runs under a folder, their learning curves and their most confident mistakes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from lamina.errors import LaminaError
from lamina.utils.run_folder import Run, read_object

_MOST: Final = 500  # runs
_POINTS: Final = 400  # of a curve
_LONGEST: Final = 1_200  # characters of the text of a mistake
_BROKEN: Final = (KeyError, TypeError, ValueError, AttributeError, OverflowError)  # of files with other content


class RunTables:
    """Reads the runs in a folder and in its folders. A run is named by its path from there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each run: its scores on the dev set and its costs. Folders that cannot be read are left out."""
        rows = []
        for name, run in sorted(self._runs().items())[:_MOST]:
            try:
                rows.append(_row(name, run))
            except (LaminaError, *_BROKEN):
                continue
        return rows

    def details(self, name: str) -> dict[str, Any]:
        """Return the row of a run, its curves, and its most confident mistakes; `why` says why there are none.

        Raises:
            LaminaError: There is no such run, or it cannot be read.
        """
        run = self._runs().get(name)  # a name of the listing: no path of a request is opened
        if run is None:
            raise LaminaError("run: there is no run of this name. Fix: choose one of the table")
        try:
            found = {**_row(name, run), "curves": _curves(run), "mistakes": [], "why": None}
        except _BROKEN:
            raise LaminaError(f"{name}: is no run that can be read. Fix: choose another") from None
        try:
            found["mistakes"] = _mistakes(run.path)
        except LaminaError as error:
            found["why"] = str(error).replace(str(run.path), name)
        return found

    def _runs(self) -> dict[str, Run]:
        places = [*self._folder.glob("*/run.json"), *self._folder.glob("*/*/run.json")]
        return {place.parent.relative_to(self._folder).as_posix(): Run(place.parent) for place in places}


def _row(name: str, run: Run) -> dict[str, Any]:
    info = run.read_info()
    scores = read_object(run.scores) if run.scores.is_file() else {}
    recipe = run.read_recipe()
    costs = info.get("costs", {})
    parameters = info.get("parameters", {})
    encoder = info.get("encoder", {}).get("name", "")
    return {
        "name": name,
        "encoder": encoder.replace("\\", "/").rpartition("/")[2],
        "heads": sorted({task["head"]["type"] for task in recipe["tasks"].values()}),
        "mixers": sorted({mixer_name(task["mixer"]) for task in recipe["tasks"].values()}),
        "finished": info.get("finished") is True,
        "scores": _numbers(scores),
        "held_out": info.get("score"),
        "minutes": round(costs.get("train_seconds", 0.0) / 60, 2) if costs else None,
        "trainable": parameters.get("trainable"),
        "total": parameters.get("total"),
        "steps": info.get("steps"),
    }


def mixer_name(options: Any) -> str:
    """Return the type of a mixer, or the types of its stages, from its options or from JSON."""
    if isinstance(options, list | tuple):
        return " + ".join(map(mixer_name, options))
    return str(options["type"] if isinstance(options, dict) else options.type)


def _numbers(scores: dict[str, Any]) -> dict[str, float]:
    """Return the scores of the only task at its own threshold, by name; of several tasks, the overall score."""
    if "tuned" in scores:
        scores = scores["tuned"]
    elif isinstance(scores.get("overall"), dict):
        scores = scores["overall"]
    return {name: float(value) for name, value in scores.items() if isinstance(value, int | float) and name != "total"}


def _curves(run: Run) -> dict[str, list[list[float]]]:
    """Return the curves of a run by name: points of a step and a value. Losses are means over some steps."""
    curves: dict[str, list[list[float]]] = {}
    if not run.metrics.is_file():
        return curves
    for line in run.metrics.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
            values = {"loss": entry["loss"]} if "loss" in entry else entry.get("evaluation", {})
            for name, value in values.items():
                label = name if "loss" in entry else f"held out: {name}"
                curves.setdefault(label, []).append([float(entry["step"]), float(value)])
        except _BROKEN:
            continue
    return {name: _fewer(points) for name, points in curves.items()}


def _fewer(points: list[list[float]]) -> list[list[float]]:
    """Return at most `_POINTS` points, each the mean of as many neighbours."""
    size = -(-len(points) // _POINTS)
    groups = [points[begin : begin + size] for begin in range(0, len(points), size)]
    return [[sum(column) / len(group) for column in zip(*group, strict=True)] for group in groups]


def _mistakes(path: Path) -> list[dict[str, Any]]:
    from lamina.experiments.analyze import analyze

    (analysis,) = analyze([path]).runs
    found = []
    for task, one in analysis.tasks.items():
        found += [asdict(mistake) | {"task": task, "text": mistake.text[:_LONGEST]} for mistake in one.mistakes]
    return found
