"""Test whether one of two finished runs is better than the other, from their saved predictions: no model is loaded.

Questions on one context are one cluster (`scoring.significance`): a model that misreads a context fails on several of its
questions. Clusters do no harm if the questions are independent. Clusters of one article would be safer still, but dev sets
have few articles. The half of SQuAD's dev set that the course CS224n uses has 646 contexts in 16 articles. Its first 1,500
questions have 178 contexts in 5 articles. That is too few for a reliable interval.

If questions have several contexts, either each context is scored, or each question over all of its contexts. In the second
case the cluster of a question is its first context with an answer, or its first context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from lamina.answers.decode import decode
from lamina.answers.formats import predictions_json
from lamina.answers.saved_outputs import load_outputs
from lamina.data.examples import Example
from lamina.errors import LaminaError
from lamina.experiments.answerability import classifies, read_classified
from lamina.runs.scored_run import ScoredRun, same_questions
from lamina.scoring.equivalence import equivalence
from lamina.scoring.nbest import ranked_texts
from lamina.scoring.predictions import by_question, references, several_contexts, whole_questions
from lamina.scoring.significance import Clusters, compare_scores
from lamina.scoring.squad import question_scores
from lamina.utils.arrays import Doubles
from lamina.utils.files import is_file, read_json
from lamina.utils.run_folder import Run

Metric = Literal["f1", "exact"]
ThresholdAt = Literal["tuned", "zero"]
Together = Literal["context", "article", "question"]
Per = Literal["context", "question"]
Table = dict[str, float | str | None]  # a comparison of one group of questions

GROUPS: Final = ("overall", "HasAns", "NoAns")  # all questions, those with an answer, those without
_LABELS: Final = {"f1": "F1", "exact": "EM", "accuracy": "accuracy"}
_TOGETHER: Final[dict[Together, Callable[[Example], str]]] = {
    "context": lambda example: example.context,
    "article": lambda example: example.article,
    "question": lambda example: example.group,  # the contexts of one question
}


def compare(
    a: Path,
    b: Path,
    *,
    data: str | None = None,
    metric: Metric = "f1",
    at: ThresholdAt = "tuned",
    clusters: Together = "context",
    per: Per = "context",
    equivalent_within: float | None = None,
) -> dict[str, Any]:
    """Return whether `b` answers better than `a`, two runs or ensembles that were scored on the same questions.

    Args:
        a: The folder of a run or an ensemble.
        b: The folder that is compared with it.
        data: The dev set, if it is no longer at the path in the recipe of `a`.
        metric: The official score to compare. Runs that classify questions as answerable are compared by accuracy.
        at: The threshold for "no answer": each run's own ("tuned"), or 0 ("zero").
        clusters: Which questions form a cluster.
        per: What is scored if questions have several contexts: each context, or the question over all of them.
        equivalent_within: Also test whether the two are equivalent: whether they differ by less than so many points.

    Returns:
        The arguments, and the tables `overall`, `HasAns` and `NoAns`. The last two are left out with fewer than two clusters.
        A table has the official scores `a` and `b` in percent, and their `difference`, b minus a. It also has the 95%
        interval of the difference, `low` to `high`, the `p` value, the `verdict` on b, and the numbers of `questions` and
        `clusters`. With `equivalent_within`, the table `equivalence` has the verdict of that test, its 90% interval and the
        number of answers that differ. `needed` is the number of questions that would show a difference of this size with
        80% probability.

    Raises:
        LaminaError: A folder is not a scored run or ensemble, or the two were scored on different questions.
    """
    if classifies(a) and classifies(b):
        return _compare_classified(a, b, data, at, clusters, per, equivalent_within)
    sides = [_Side.open(path) for path in (a, b)]
    examples = same_questions([side.scored for side in sides], data)
    if per == "question" and not several_contexts(examples):
        raise LaminaError("--per question: these questions have one context each. Fix: leave --per out")
    answers = [side.texts(at) if per == "context" else side.question_texts(at, examples) for side in sides]
    examples = examples if per == "context" else whole_questions(examples)
    scores = [_question_scores(texts, examples, side.path, metric) for texts, side in zip(answers, sides, strict=True)]
    about = {"a": str(a), "b": str(b), "metric": metric, "at": at, "clusters": clusters, "per": per}
    found = {**about, **_groups(scores, examples, clusters)}
    if equivalent_within is not None:
        changed = sum(answers[0][example.id] != answers[1][example.id] for example in examples)
        found["equivalence"] = equivalence_table(scores[0], scores[1], equivalent_within, examples, clusters, changed)
    return found


@dataclass(frozen=True)
class ItemScores:
    """The scores of runs on each question of their dev set, [N] for each folder, and the number of each question's cluster."""

    metric: str
    scores: Mapping[Path, Doubles]
    clusters: Clusters


def item_scores(paths: Sequence[Path], *, metric: Metric = "f1", data: str | None = None) -> ItemScores:
    """Return the scores of runs and ensembles on each question, at their own thresholds. Clusters are contexts.

    Runs that classify questions have 1 for a right class, else 0. Questions with several contexts are scored over all of them.

    Args:
        paths: Folders of runs or ensembles that were scored on the same questions.
        metric: The official score of answers.
        data: The dev set, if it is no longer at the path in the first recipe.

    Raises:
        LaminaError: A folder has no saved predictions, or the folders were scored on different questions.
    """
    if all(classifies(path) for path in paths):
        classified = read_classified(paths, data)
        clusters = _numbered([example.context for example in classified[0].examples])
        return ItemScores("accuracy", {side.path: side.right for side in classified}, clusters)
    sides = [_Side.open(path) for path in paths]
    examples = same_questions([side.scored for side in sides], data)
    several = several_contexts(examples)
    texts = [side.question_texts("tuned", examples) if several else side.texts("tuned") for side in sides]
    examples = whole_questions(examples) if several else examples
    found = {side.path: _question_scores(one, examples, side.path, metric) for one, side in zip(texts, sides, strict=True)}
    return ItemScores(metric, found, _numbered([example.context for example in examples]))


def _compare_classified(
    a: Path, b: Path, data: str | None, at: ThresholdAt, clusters: Together, per: Per, margin: float | None
) -> dict[str, Any]:
    """Return the comparison of two runs that classify questions, by their accuracy."""
    for option, value, default in (("--at", at, "tuned"), ("--per", per, "context")):
        if value != default:
            raise LaminaError(f"{option} {value}: is for answers, but these runs classify questions. Fix: leave {option} out")
    sides = read_classified([a, b], data)
    about = {"a": str(a), "b": str(b), "metric": "accuracy", "at": at, "clusters": clusters, "per": per}
    scores, examples = [side.right for side in sides], sides[0].examples
    found = {**about, **_groups(scores, examples, clusters)}
    if margin is not None:
        changed = int((scores[0] != scores[1]).sum())
        found["equivalence"] = equivalence_table(scores[0], scores[1], margin, examples, clusters, changed)
    return found


def equivalence_table(
    a: Doubles, b: Doubles, margin: float, examples: Sequence[Example], clusters: Together, changed: int
) -> dict[str, Any]:
    """Return the test of equivalence of scores from 0 to 1, with all numbers in points.

    Args:
        a: [N] the scores of one side.
        b: [N] those of the other.
        margin: The least difference that matters, in points.
        examples: The N questions.
        clusters: Which questions form a cluster.
        changed: The number of questions with different answers.
    """
    of = _numbered([_TOGETHER[clusters](example) for example in examples])
    found = equivalence(100 * a, 100 * b, margin, of)
    return {
        "margin": margin,
        "verdict": found.verdict,
        "difference": found.mean,
        "low": found.low,
        "high": found.high,
        "questions": found.items,
        "changed": changed,
    }


def equivalence_line(table: Mapping[str, Any], label: str = "F1") -> str:
    """Return the table `equivalence` as a line of text."""
    verdicts = {
        "equivalent": f"equivalent within {table['margin']:g} {label}",
        "different": f"different by more than {table['margin']:g} {label}",
        "undecided": f"undecided: too few questions to show that they are equivalent within {table['margin']:g} {label}",
    }
    interval = f"{table['difference']:+.2f}, 90% interval {table['low']:+.2f} to {table['high']:+.2f}"
    return f"{verdicts[table['verdict']]} ({interval}); {table['changed']:,} of {table['questions']:,} answers differ"


def _groups(scores: Sequence[Doubles], examples: Sequence[Example], clusters: Together) -> dict[str, Table]:
    """Return the tables of all questions, of those with an answer and of those without, given the scores of both sides."""
    of = _numbered([_TOGETHER[clusters](example) for example in examples])
    if of.max() == 0:
        raise LaminaError(
            f"--clusters {clusters}: all {len(examples)} questions are of one {clusters}, but the test needs two. "
            "Fix: treat the questions as independent with --clusters question"
        )
    has_answer = np.array([bool(example.answers) for example in examples])
    result: dict[str, Table] = {}
    for name, chosen in zip(GROUPS, (np.ones_like(has_answer), has_answer, ~has_answer), strict=True):
        if len(set(of[chosen].tolist())) > 1:
            result[name] = _difference(scores[0][chosen], scores[1][chosen], of[chosen])
    return result


def lines(result: Mapping[str, Any]) -> list[str]:
    """Return the result of `compare` as text: a line for all questions, and one each for `HasAns` and `NoAns`."""
    a, b, label, overall = result["a"], result["b"], _LABELS[result["metric"]], result["overall"]
    known = f"{_interval(overall)}, {overall['questions']:,} questions"
    scores = f"{overall['b']:.2f} against {overall['a']:.2f}"
    verdict, size = overall["verdict"], abs(overall["difference"])
    if verdict != "not distinguishable":
        first = f"{b} is {verdict} than {a} by {size:.2f} {label}: {scores} ({known})"
    elif overall["needed"] is None:
        first = f"not distinguishable: {b} and {a} have the same {label}, {overall['a']:.2f} ({known})"
    else:
        more = "more" if overall["difference"] > 0 else "less"
        first = (
            f"not distinguishable: {b} has {size:.2f} {label} {more} than {a}, {scores} ({known}); a test that shows such a "
            f"difference needs about {rounded_up(overall['needed']):,} questions"
        )
    groups = [_group_line(name, label, result[name]) for name in GROUPS[1:] if name in result]
    return [first, *groups, *([equivalence_line(result["equivalence"], label)] if "equivalence" in result else [])]


@dataclass(frozen=True)
class _Side:
    """One of the two folders: a run, or an ensemble. The questions of an ensemble are those of its first run."""

    path: Path
    scored: ScoredRun
    is_ensemble: bool

    @classmethod
    def open(cls, path: Path) -> _Side:
        about = path / "ensemble.json"
        if not is_file(about):
            return cls(path, ScoredRun.open(path), is_ensemble=False)
        try:
            first = Path(read_json(about)["runs"][0]["path"])
        except (KeyError, IndexError, TypeError):
            raise LaminaError(f"{about}: names no runs. Fix: combine the runs again with `lamina ensemble`") from None
        if not Run(first).exists:
            raise LaminaError(f"{path}: its run {first}, which names the questions, is missing. Fix: copy the run to that path")
        return cls(path, ScoredRun.open(first), is_ensemble=True)

    def texts(self, at: ThresholdAt) -> Mapping[str, object]:
        """Return the answer to each question, "" for "no answer"."""
        if at == "tuned":
            found = read_json(self._saved.predictions)
            return found if isinstance(found, dict) else {}
        self._check_has_other_thresholds()
        return {question: texts[0] for question, texts in ranked_texts(read_json(self._saved.nbest)).items() if texts}

    @property
    def _saved(self) -> Run:
        return Run(self.path) if self.is_ensemble else self.scored.saved  # the files of both have the same names

    def _check_has_other_thresholds(self) -> None:
        if self.is_ensemble:
            raise LaminaError(f"{self.path}: an ensemble only has answers at the runs' own thresholds. Fix: use --at tuned")

    def question_texts(self, at: ThresholdAt, examples: Sequence[Example]) -> Mapping[str, object]:
        """Return the answer to each question over all of its contexts."""
        if at == "tuned":
            found = read_json(self._saved.questions)
            return found if isinstance(found, dict) else {}
        self._check_has_other_thresholds()
        answer = self.scored.answer
        windows, logits = load_outputs(self._saved)
        predictions = decode(windows, logits.start, logits.end, examples, answer)
        return predictions_json(by_question(predictions, examples, answer.across)[0])


def _question_scores(texts: Mapping[str, object], examples: Sequence[Example], path: Path, metric: Metric) -> Doubles:
    """Return the official score of each question, [N], from 0 to 1."""
    answers = {example.id: text for example in examples if isinstance(text := texts.get(example.id), str)}
    if len(answers) != len(examples):
        raise LaminaError(
            f"{path}: has no answers to {len(examples) - len(answers)} of its {len(examples)} questions. "
            "Fix: copy or make it again"
        )
    exact, f1 = question_scores(references(examples), answers)
    chosen = f1 if metric == "f1" else exact
    return np.array([chosen[example.id] for example in examples])


def _numbered(names: Sequence[str]) -> Clusters:
    """Return a number for each name, [N]; equal names have equal numbers."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names])


def _difference(a: Doubles, b: Doubles, clusters: Clusters) -> Table:
    found = compare_scores(a, b, clusters)
    return {
        "a": 100 * float(a.mean()),
        "b": 100 * float(b.mean()),
        "difference": 100 * found.mean,
        "low": 100 * found.low,
        "high": 100 * found.high,
        "p": found.p,
        "verdict": found.verdict,
        "questions": found.items,
        "clusters": found.clusters,
        "needed": found.needed,
    }


def _group_line(name: str, label: str, group: Mapping[str, Any]) -> str:
    verdict = "" if group["verdict"] == "not distinguishable" else f", {group['verdict']}"
    return (
        f"{name} {label}: {group['b']:.2f} against {group['a']:.2f}, {group['difference']:+.2f}{verdict} "
        f"({_interval(group)}, {group['questions']:,} questions)"
    )


def _interval(group: Mapping[str, Any]) -> str:
    p = f"p = {group['p']:.3f}" if group["p"] >= 0.001 else "p < 0.001"
    return f"95% interval {group['low']:+.2f} to {group['high']:+.2f}, {p}"


def rounded_up(number: int) -> int:
    """Return the number rounded up to two digits.

    >>> rounded_up(38_211), rounded_up(7)
    (39000, 7)
    """
    unit = int(10 ** max(0, len(str(number)) - 2))
    return -(-number // unit) * unit
