"""Compare each variant of a study with its baseline, over all questions and seeds.

The score of a question is its mean over the seeds that both variants have. Then the paired bootstrap and approximate
randomisation of `scoring.significance` compare these means, with the questions on one context as a cluster. Holm's method
corrects all p-values of one table. A difference of Pearson correlations has an interval only. A variant is called better or
worse if three things hold: its corrected p is at most 0.05, the interval excludes 0, and every seed has the same sign. The
interval is about questions. The seeds that agree say how far the result is one of the recipe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from lamina.errors import LaminaError
from lamina.experiments.analysis.saved_tasks import SavedSentences, open_tasks
from lamina.experiments.compare import ItemScores, item_scores, rounded_up
from lamina.experiments.reports.study_results import StudyResults, VariantResult
from lamina.scoring.power import FEWEST, Power, power_of
from lamina.scoring.sentence import pearson
from lamina.scoring.significance import LEVEL, Clusters, compare_scores, correlation_interval, holm
from lamina.utils.arrays import Doubles

CANNOT: Final = "not distinguishable"


@dataclass(frozen=True)
class Compared:
    """The difference of a variant from its baseline: in percent for answers, as shares for sentence tasks."""

    variant: str
    baseline: str
    metric: str
    difference: float
    low: float
    high: float
    p: float | None  # None for correlations, which only have an interval
    holm: float | None
    seeds: int
    agree: int  # seeds whose difference has the sign of the mean
    questions: int
    needed: int | None
    verdict: str

    @property
    def words(self) -> str:
        """The verdict for a table."""
        if self.verdict != CANNOT:
            return f"{self.verdict} than {self.baseline}"
        if self.needed is None:
            return f"{CANNOT} from {self.baseline}"
        return f"{CANNOT} from {self.baseline}; about {rounded_up(self.needed):,} questions would show a difference"


@dataclass(frozen=True)
class Comparisons:
    """The comparisons of a study by variant, why others are missing, and what the study can see."""

    found: Mapping[str, Sequence[Compared]]
    missing: Mapping[str, str]
    power: Power | None


def compare_study(results: StudyResults) -> Comparisons:
    """Return the comparisons of all variants that have a finished seed in common with their baseline."""
    found: dict[str, list[Compared]] = {}
    missing: dict[str, str] = {}
    for baseline in dict.fromkeys(one.baseline for one in results.variants.values()):
        base = results.variants.get(baseline)
        others = [one for one in results.variants.values() if one.baseline == baseline and one.name != baseline]
        if base is None or not base.seeds:
            missing |= {one.name: f"{baseline} has no finished run" for one in others}
            continue
        together = _scores_of_all([base, *others])
        for one in others:
            try:
                found[one.name] = _compared(one, base, together)
            except LaminaError as error:
                missing[one.name] = str(error)
    return Comparisons(judged_together(results, found), missing, study_power(results))


def study_power(results: StudyResults) -> Power | None:
    """Return what the study can see, from the seeds of its baseline; None if it has fewer than two seeds or no questions."""
    base = results.variants.get(results.about["baseline"])
    if base is None or len(base.seeds) < FEWEST:
        return None
    try:
        items = item_scores([one.path for one in base.seeds])
        return power_of([100 * one for one in items.scores.values()], items.clusters, seeds=base.asked)
    except LaminaError:
        return None


def _scores_of_all(members: Sequence[VariantResult]) -> ItemScores | None:
    """Return the scores of all runs, so that the dev set is read once; None if they were scored on different examples."""
    if _of_sentences(members[0]):
        return None
    try:
        return item_scores(list(dict.fromkeys(seed.path for one in members for seed in one.seeds)))
    except LaminaError:
        return None


def _of_sentences(one: VariantResult) -> bool:
    return any(name.endswith(("Pearson", "accuracy")) for name in one.seeds[0].scores)


def _common(one: VariantResult, base: VariantResult) -> list[tuple[Path, Path]]:
    """Return the folders of the baseline and the variant for each seed that both have."""
    of = {seed.seed: seed.path for seed in base.seeds}
    pairs = [(of[seed.seed], seed.path) for seed in one.seeds if seed.seed in of]
    if not pairs:
        raise LaminaError("no seed is finished in both. Fix: run the study again")
    return pairs


def _compared(one: VariantResult, base: VariantResult, together: ItemScores | None) -> list[Compared]:
    pairs = _common(one, base)
    if _of_sentences(base):
        return _compared_sentences(one, base, pairs)
    items = together or item_scores(list(dict.fromkeys(path for pair in pairs for path in pair)))
    label = {"f1": "F1", "exact": "EM"}.get(items.metric, items.metric)
    scores = [(items.scores[a], items.scores[b]) for a, b in pairs]
    return [_difference(one.name, base.name, label, scores, items.clusters, 100.0)]


def _difference(
    name: str, baseline: str, metric: str, scores: Sequence[tuple[Doubles, Doubles]], clusters: Clusters | None, unit: float
) -> Compared:
    """Return the comparison of the means over the seeds, without a correction."""
    a, b = (np.mean([pair[side] for pair in scores], axis=0) for side in (0, 1))
    found = compare_scores(a, b, clusters)
    signs = [np.sign(float((pair[1] - pair[0]).mean())) for pair in scores]
    agree = int(sum(sign == np.sign(found.mean) for sign in signs))
    return Compared(
        variant=name,
        baseline=baseline,
        metric=metric,
        difference=unit * found.mean,
        low=unit * found.low,
        high=unit * found.high,
        p=found.p,
        holm=None,
        seeds=len(scores),
        agree=agree,
        questions=found.items,
        needed=found.needed,
        verdict=found.verdict,
    )


def _compared_sentences(one: VariantResult, base: VariantResult, pairs: Sequence[tuple[Path, Path]]) -> list[Compared]:
    """Return a comparison for each sentence task that both have."""
    opened = [(open_tasks(a), open_tasks(b)) for a, b in pairs]
    found = []
    for task in [name for name in opened[0][0] if name in opened[0][1]]:
        sides = [(a[task], b[task]) for a, b in opened]
        saved = [(a, b) for a, b in sides if isinstance(a, SavedSentences) and isinstance(b, SavedSentences)]
        if len(saved) == len(sides):
            found.append(_compared_task(one.name, base.name, task, saved))
    return found


def _compared_task(name: str, base: str, task: str, saved: Sequence[tuple[SavedSentences, SavedSentences]]) -> Compared:
    if not saved[0][0].labels.are_scores:
        right = [(_right(a), _right(b)) for a, b in saved]
        return _difference(name, base, f"{task} accuracy", right, None, 1.0)
    gold = np.array([float(str(item.label)) for item in saved[0][0].examples])
    scores = [tuple(np.array([float(value) for value in side.predictions]) for side in pair) for pair in saved]
    a, b = (np.stack([pair[side] for pair in scores]) for side in (0, 1))  # [S, N]
    low, high = correlation_interval(a, b, gold)
    pearsons = [pearson(pair[1], gold) - pearson(pair[0], gold) for pair in scores]
    mean = float(np.mean(pearsons))
    agree = sum(np.sign(value) == np.sign(mean) for value in pearsons)
    verdict = CANNOT if low <= 0 <= high else "better" if low > 0 else "worse"
    return Compared(
        name, base, f"{task} Pearson", mean, low, high, None, None, len(saved), int(agree), len(gold), None, verdict
    )


def _right(saved: SavedSentences) -> Doubles:
    return np.array([str(found) == str(one.label) for found, one in zip(saved.predictions, saved.examples, strict=True)], float)


def judged_together(results: StudyResults, found: Mapping[str, Sequence[Compared]]) -> dict[str, list[Compared]]:
    """Return the comparisons with Holm's correction over each table of the paper, and their verdicts."""
    tables: dict[str, list[Compared]] = {}
    for name, compared in found.items():
        for one in compared:
            tables.setdefault(table_of(results.variants[name]), []).append(one)
    corrected: dict[str, list[Compared]] = {name: [] for name in found}
    for members in tables.values():
        tested = [one for one in members if one.p is not None]
        values = dict(zip([id(one) for one in tested], holm([one.p or 0.0 for one in tested]), strict=True))
        for one in members:
            corrected[one.variant].append(_judged(one, values.get(id(one))))
    return corrected


def _judged(one: Compared, p: float | None) -> Compared:
    told = one.verdict in ("better", "worse") and one.agree == one.seeds and (p is None or p <= 1 - LEVEL)
    needed = one.needed if one.needed is None or told else max(one.needed, one.questions + 1)
    return replace(one, holm=p, verdict=one.verdict if told else CANNOT, needed=needed)


def table_of(one: VariantResult) -> str:
    """Return the table of the paper that a variant belongs to; empty for variants of our own."""
    return one.rows[0].split("/")[1] if one.rows else ""
