"""Draw the pictures of an analysis as PNG and SVG files. Runs that have a task of the same name share its pictures."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from lamina.experiments.analysis.results import (
    Analysis,
    ClassAnalysis,
    Confidence,
    Overlap,
    ScoreAnalysis,
    SpanAnalysis,
    TaskAnalysis,
)
from lamina.utils.files import make_folder
from lamina.utils.plots import bar_plot, check_plots, confusion_plot, share_plot

FORMATS = ("png", "svg")
Draw = Callable[[Path], None]


def draw(analysis: Analysis, folder: Path) -> list[Path]:
    """Write all pictures into a folder, which is made if it is missing. Return their paths.

    Without matplotlib, raise LaminaError before anything is written.
    """
    check_plots("--plots")
    make_folder(folder)
    names = list(dict.fromkeys(name for run in analysis.runs for name in run.tasks))
    pictures: dict[str, Draw] = {}
    for name in names:
        tasks = {run.run: run.tasks[name] for run in analysis.runs if name in run.tasks}
        overlaps = [overlap for overlap in analysis.overlaps if overlap.task == name]
        prefix = "" if len(names) == 1 else f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)}-"
        pictures |= {f"{prefix}{stem}": picture for stem, picture in _pictures(tasks, overlaps).items()}
    written = []
    for stem, picture in pictures.items():
        for ending in FORMATS:
            path = folder / f"{stem}.{ending}"
            picture(path)
            written.append(path)
    return written


def _pictures(tasks: Mapping[str, TaskAnalysis], overlaps: list[Overlap]) -> dict[str, Draw]:
    """Return the pictures of one task by the name of their file."""
    found: dict[str, Draw] = {}
    spans = {run: task for run, task in tasks.items() if isinstance(task, SpanAnalysis)}
    others = {run: task for run, task in tasks.items() if isinstance(task, ClassAnalysis | ScoreAnalysis)}
    sure = {run: task.confidence for run, task in tasks.items() if not isinstance(task, ScoreAnalysis)}
    if spans:
        found |= _span_pictures(spans)
    if others:
        found |= _class_pictures(others)
    if sure:
        found |= _confidence_pictures(sure)
    if overlaps:
        found["overlap"] = partial(bar_plot, panels=_overlap_panels(overlaps), y="examples")
    return found


def _span_pictures(spans: Mapping[str, SpanAnalysis]) -> dict[str, Draw]:
    right = {run: {kind: float(task.counts[f"{kind}_right"]) for kind in ("HasAns", "NoAns")} for run, task in spans.items()}
    words = {run: {name: group.f1 for name, group in task.by_question_word.items()} for run, task in spans.items()}
    lengths = {run: {name: group.f1 for name, group in task.by_answer_length.items()} for run, task in spans.items()}
    return {
        "right-answers": partial(bar_plot, panels={"right answers": right}, y="questions"),
        "question-words": partial(bar_plot, panels={"by question word": words}, y="F1"),
        "answer-lengths": partial(bar_plot, panels={"by answer length": lengths}, y="F1"),
    }


def _class_pictures(tasks: Mapping[str, ClassAnalysis | ScoreAnalysis]) -> dict[str, Draw]:
    first = next(iter(tasks.values()))
    same = {run: task for run, task in tasks.items() if list(task.classes) == list(first.classes)}
    shares = {"gold": dict(first.gold)} | {run: dict(task.predicted) for run, task in same.items()}
    matrices = {run: task.confusion for run, task in same.items()}
    return {
        "confusion": partial(confusion_plot, panels=matrices, classes=first.classes),
        "classes": partial(bar_plot, panels={"shares of the classes": shares}, y="share"),
    }


def _confidence_pictures(sure: Mapping[str, Confidence]) -> dict[str, Draw]:
    bins = {run: [(one.confidence, one.right) for one in confidence.bins] for run, confidence in sure.items()}
    risks = {
        run: [(int(percent) / 100, risk) for percent, risk in confidence.risks.items()] for run, confidence in sure.items()
    }
    return {
        "reliability": partial(share_plot, panels={"reliability": bins}, x="confidence", y="share right", diagonal=True),
        "risk-coverage": partial(share_plot, panels={"risk-coverage": risks}, x="coverage", y="share wrong"),
    }


def _overlap_panels(overlaps: list[Overlap]) -> dict[str, dict[str, dict[str, float]]]:
    """Return a panel for every two runs; its title says which of them is a and which is b."""
    return {
        f"a: {one.a}\nb: {one.b}": {
            "": {
                "both right": one.both_right,
                "only a right": one.only_a,
                "only b right": one.only_b,
                "both wrong": one.both_wrong,
            }
        }
        for one in overlaps
    }
