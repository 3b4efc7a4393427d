"""Analyse where finished runs are right and wrong, from what they saved for their dev set: no model is run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from lamina.errors import LaminaError
from lamina.experiments.analysis.classes import analyze_answerability, analyze_sentences
from lamina.experiments.analysis.common import Outcome, overlaps_of
from lamina.experiments.analysis.results import Analysis, RunAnalysis
from lamina.experiments.analysis.saved_tasks import SavedAnswerability, SavedSpans, SavedTask, open_tasks
from lamina.experiments.analysis.spans import analyze_spans


def analyze(runs: Sequence[Path], *, data: str | None = None, task: str | None = None) -> Analysis:
    """Return the analysis of each run, and the overlap of every two runs.

    Args:
        runs: Folders of finished runs. Several runs must share a task and its dev set.
        data: The dev set, if it is no longer at the path in the recipes.
        task: The task to analyse; without it, all tasks of each run.

    Returns:
        The results; `dataclasses.asdict` makes them JSON.

    Raises:
        LaminaError: A folder is not a finished run, it saved no outputs, or the runs were scored on different examples.
    """
    if not runs:
        raise LaminaError("runs: there is nothing to analyse. Fix: name at least one run")
    outcomes = [{name: _outcome(saved) for name, saved in open_tasks(path, data=data, task=task).items()} for path in runs]
    named = list(zip(map(str, runs), outcomes, strict=True))
    return Analysis(
        runs=[RunAnalysis(run, {name: one.analysis for name, one in tasks.items()}) for run, tasks in named],
        overlaps=[
            overlap for (a, first), (b, second) in combinations(named, 2) for overlap in overlaps_of(a, b, first, second)
        ],
    )


def _outcome(saved: SavedTask) -> Outcome:
    if isinstance(saved, SavedSpans):
        return analyze_spans(saved)
    return analyze_answerability(saved) if isinstance(saved, SavedAnswerability) else analyze_sentences(saved)
