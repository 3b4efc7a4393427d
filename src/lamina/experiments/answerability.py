"""Read and combine runs that classify questions as answerable or impossible, from their saved predictions.

Each run saved one probability for each question, over all of its windows. So runs with different windows can be combined.
Paper 001 combines span models only. Its rule for tokens is used for the two classes here: take the greatest probability of
each class over all runs ("max"), or the mean ("mean"). Then divide by the sum of both classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from lamina.answers.ensembles import How
from lamina.data.examples import Example
from lamina.errors import LaminaError
from lamina.experiments.analysis.saved_tasks import SavedAnswerability, open_tasks
from lamina.scoring.answerability import score_answerability
from lamina.utils.arrays import Bools, Doubles
from lamina.utils.files import is_file, read_json, write_json
from lamina.utils.new_folders import new_folder
from lamina.utils.run_folder import Run, read_object

ROUTE: Final = "probabilities"  # `route` in the ensemble.json of such an ensemble


@dataclass(frozen=True)
class Classified:
    """Questions, and the probability that each is impossible [E], of a run or an ensemble."""

    path: Path
    examples: Sequence[Example]
    impossible: Doubles

    @property
    def unanswerable(self) -> Bools:
        """Return [E] whether each question has no answer."""
        return np.array([not example.answers for example in self.examples])

    @property
    def right(self) -> Doubles:
        """Return [E] 1 for each question that is classified rightly, else 0."""
        return np.asarray((self.impossible > 0.5) == self.unanswerable, np.float64)


def classifies(path: Path) -> bool:
    """Return whether a folder is a run or an ensemble that classifies questions, and does not answer them with spans."""
    about = path / "ensemble.json"
    if is_file(about):
        return bool(read_object(about).get("route") == ROUTE)
    return _task(path) is not None


def read_classified(paths: Sequence[Path], data: str | None = None) -> list[Classified]:
    """Return the predictions of runs or ensembles. `data` names the dev set if it is no longer at the path in the recipes.

    Raises LaminaError if they were scored on different questions.
    """
    found = [_read(path, data) for path in paths]
    for other in found[1:]:
        if list(other.examples) != list(found[0].examples):
            raise LaminaError(
                f"{other.path}: was not scored on the same questions as {found[0].path}. "
                "Fix: use runs with the same data.dev and the same data.dev_questions"
            )
    return found


def together(impossible: Sequence[Doubles], how: How) -> Doubles:
    """Return [E] the combined probability that each question is impossible.

    >>> together([np.array([0.9, 0.2]), np.array([0.6, 0.4])], "max").round(3).tolist()
    [0.692, 0.333]
    """
    values = np.stack(impossible)  # [runs, E]
    if how == "mean":
        return np.asarray(values.mean(0), np.float64)
    yes, no = values.max(0), (1 - values).max(0)
    return np.asarray(yes / (yes + no), np.float64)


def combine_classified(runs: Sequence[Path], out: Path, *, how: How, data: str | None = None) -> dict[str, Any]:
    """Combine runs of answerability into the new folder `out`, with the files of `experiments.ensemble`. Return its scores."""
    members = read_classified(runs, data)
    impossible = together([member.impossible for member in members], how)
    ids = [example.id for example in members[0].examples]
    scores = score_answerability(impossible, members[0].unanswerable)
    about = {"format": 1, "how": how, "route": ROUTE, "runs": [{"path": str(path)} for path in runs]}
    with new_folder(out) as draft:
        write_json(draft / "predictions.json", dict(zip(ids, impossible.tolist(), strict=True)))
        write_json(draft / "scores.json", scores)
        write_json(draft / "ensemble.json", about)
    return {"out": str(out)} | about | {"scores": scores}


def _task(path: Path) -> str | None:
    """Return the name of the answerability task of a run without a span task, else None."""
    tasks = Run.open(path).read_info().get("tasks")
    types = {name: one.get("type") for name, one in tasks.items() if isinstance(one, dict)} if isinstance(tasks, dict) else {}
    if "spans" in types.values():
        return None
    return next((name for name, kind in types.items() if kind == "answerability"), None)


def _read(path: Path, data: str | None) -> Classified:
    about = path / "ensemble.json"
    if not is_file(about):
        saved = open_tasks(path, data=data, task=_task(path))
        (only,) = (one for one in saved.values() if isinstance(one, SavedAnswerability))
        return Classified(path, only.examples, np.asarray(only.impossible, np.float64))
    try:
        first = Path(read_json(about)["runs"][0]["path"])
        examples = _read(first, data).examples
        found = read_json(path / "predictions.json")
        return Classified(path, examples, np.array([float(found[example.id]) for example in examples]))
    except (KeyError, IndexError, TypeError, ValueError):
        raise LaminaError(f"{path}: is not a whole ensemble. Fix: combine the runs again with `lamina ensemble`") from None
