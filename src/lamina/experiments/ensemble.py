"""Combine finished runs into an ensemble, from their saved outputs on the dev set: no model is loaded.

Runs with the same windows are combined by their logits, others by their n-best answers (`answers.ensembles`). Nothing is tuned
on the dev set. The scores have three entries:

- "tuned": each run votes at the threshold of its own held-out split, so the ensemble's threshold is 0.
- "zero": the runs vote without thresholds, as in the paper.
- "best": the best score of "tuned" over all thresholds.

If questions have several contexts, "questions" has the same entries for the answers over all contexts. The first run's
`answer.across` merges the contexts, and each run votes at its threshold for questions. The paper's rule has thresholds on
probabilities: then the ensemble's threshold is their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean as mean
from typing import Any, Literal

from lamina.answers.decode import Prediction, decode
from lamina.answers.ensembles import How, at_threshold, combine, combine_nbest
from lamina.answers.formats import nbest_json, null_odds_json, predictions_json
from lamina.answers.saved_outputs import load_outputs
from lamina.data.examples import Example
from lamina.data.logits import SpanLogits
from lamina.data.windows import Windows
from lamina.errors import LaminaError
from lamina.experiments.answerability import classifies, combine_classified
from lamina.runs.scored_run import ScoredRun, same_questions
from lamina.scoring.nbest import answer_counts, ranked_texts
from lamina.scoring.predictions import by_question, references, score_all, score_at, several_contexts
from lamina.tasks.kind import counted
from lamina.tasks.spans import SPANS
from lamina.utils.files import check_new, write_json
from lamina.utils.new_folders import new_folder
from lamina.utils.progress import Progress, Silent

FORMAT = 1
_FIX = "write the ensemble into a new folder"
Route = Literal["logits", "nbest"]


def ensemble(
    runs: Sequence[Path], out: Path, *, how: How = "max", data: str | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Combine finished runs that were scored on the same questions into the new folder `out`. Return its scores.

    `data` names the dev set if it is no longer at the path in the first run's recipe. The folder has these files:

    - ``scores.json``: as in a run, and the counts of `answer_counts`
    - ``predictions.json``, ``null_odds.json``, ``nbest.json``: the predictions of the "tuned" scores; the threshold is 0
    - ``questions.json``: as in a run, if questions have several contexts
    - ``ensemble.json``: the runs, and how and by which route they were combined

    Runs that classify questions as answerable are combined by their probabilities (`experiments.answerability`).
    """
    progress = progress or Silent()
    if not runs:
        raise LaminaError("runs: an ensemble needs runs. Fix: name at least one")
    check_new(out, _FIX)
    if all(classifies(path) for path in runs):
        return combine_classified(runs, out, how=how, data=data)
    members = [_Member.open(path) for path in runs]
    scored = [member.scored for member in members]
    examples = same_questions(scored, data)
    route: Route = "logits" if len({(one.fingerprint, one.answer) for one in scored}) == 1 else "nbest"
    progress.say(f"combining {len(members)} runs on {counted(SPANS.counts(examples))} by their {route}")
    combined = partial(_combine, members, examples, how, route)
    plain, voted = combined([0.0] * len(members)), combined([one.decision.threshold for one in scored])
    scores: dict[str, Any] = _scores(plain, voted, examples)
    by_questions: list[Prediction] = []
    if several_contexts(examples):
        across, limits = scored[0].answer.across, [one.decision.over_contexts for one in scored]
        of_plain, questions = by_question(plain, examples, across)
        if across == "margin":
            by_questions, _ = by_question(combined(limits), examples, across)
        else:  # the thresholds are on probabilities, not on logits
            by_questions = [replace(one, null=one.null - mean(limits)) for one in of_plain]
        scores["questions"] = _scores(of_plain, by_questions, questions)
    nbest = nbest_json(voted)
    counts = answer_counts(references(examples), ranked_texts(nbest))
    about = {
        "format": FORMAT,
        "how": how,
        "route": route,
        "runs": [
            {"path": str(one.run.path), "threshold": one.decision.threshold, "windows": one.fingerprint} for one in scored
        ],
    }
    with new_folder(out, _FIX) as draft:
        write_json(draft / "predictions.json", predictions_json(voted))
        if by_questions:
            write_json(draft / "questions.json", predictions_json(by_questions))
        write_json(draft / "null_odds.json", null_odds_json(voted))
        write_json(draft / "nbest.json", nbest)
        write_json(draft / "scores.json", scores | {"counts": counts})
        write_json(draft / "ensemble.json", about)
    return {"out": str(out)} | about | {"scores": scores, "counts": counts}


@dataclass(frozen=True)
class _Member:
    """A run with its saved outputs."""

    scored: ScoredRun
    windows: Windows
    logits: SpanLogits

    @classmethod
    def open(cls, path: Path) -> _Member:
        scored = ScoredRun.open(path)
        return cls(scored, *load_outputs(scored.saved))


def _scores(plain: Sequence[Prediction], voted: Sequence[Prediction], examples: Sequence[Example]) -> dict[str, Any]:
    return score_all(voted, examples, 0.0) | {"zero": {"threshold": 0.0} | score_at(plain, examples, 0.0)}


def _combine(
    members: Sequence[_Member], examples: Sequence[Example], how: How, route: Route, thresholds: Sequence[float]
) -> list[Prediction]:
    """Return the ensemble's predictions, whose threshold is 0. Each run votes at its own threshold."""
    votes = [at_threshold(m.logits, m.windows, threshold) for m, threshold in zip(members, thresholds, strict=True)]
    if route == "logits":
        windows = members[0].windows
        together = combine(votes, windows, how)
        return decode(windows, together.start, together.end, examples, members[0].scored.answer)
    return combine_nbest(
        [decode(m.windows, vote.start, vote.end, examples, m.scored.answer) for m, vote in zip(members, votes, strict=True)],
        how,
    )
