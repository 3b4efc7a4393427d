"""Two finished runs -> is one better than the other? From what each saved of its dev set: no model is loaded.

Questions on one context are taken together (`scoring.significance`): a model that misreads a text stumbles over several of its
questions. It costs nothing where they are independent after all. Questions of one article would be more careful still, but dev
sets are of a few articles only (SQuAD's half that the course CS224n uses: 646 contexts in 16 articles, and 178 in 5 in its
first 1,500 questions), from which no interval can be drawn with confidence.

Where questions have several contexts, either every context counts, or every question by what the run says over all of its
contexts. Then questions are taken together that are about one context: the first that holds the answer, or the first.
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
from lamina.runs.scored_run import ScoredRun, same_questions
from lamina.scoring.nbest import ranked_texts
from lamina.scoring.predictions import by_question, references, several_contexts, whole_questions
from lamina.scoring.significance import Clusters, compare_scores
from lamina.scoring.squad import question_scores
from lamina.utils.arrays import Doubles
from lamina.utils.files import read_json
from lamina.utils.run_folder import Run

Metric = Literal["f1", "exact"]
ThresholdAt = Literal["tuned", "zero"]
Together = Literal["context", "article", "question"]
Per = Literal["context", "question"]

PARTS: Final = ("overall", "HasAns", "NoAns")
_LABELS: Final[dict[Metric, str]] = {"f1": "F1", "exact": "EM"}
_TOGETHER: Final[dict[Together, Callable[[Example], str]]] = {
    "context": lambda example: example.context,
    "article": lambda example: example.article,
    "question": lambda example: example.group,  # its contexts, where it has several
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
) -> dict[str, Any]:
    """Whether `b` answers better than `a`, two runs or ensembles that were scored on the same questions.

    `at` is each run's own threshold for "no answer" or 0. `data` names the dev set if it is no longer where the recipe of `a`
    says. `per` says what is scored of questions with several contexts: each context, or the question over all of them.

    `overall`, and `HasAns` and `NoAns` where these have at least two clusters, hold in percent: the official scores `a` and
    `b`; their `difference`, b minus a; its 95% interval, `low` to `high`; `p`; the `verdict` on b; the `questions` and
    `clusters`; and how many questions it would take (`needed`) to tell the difference apart, if it is as great as it seems,
    with 80% probability.
    """
    sides = [_Side.open(path) for path in (a, b)]
    examples = same_questions([side.scored for side in sides], data)
    if per == "question" and not several_contexts(examples):
        raise LaminaError("--per question: these questions have one context each, so it is the same: leave it out")
    said = [side.texts(at) if per == "context" else side.question_texts(at, examples) for side in sides]
    examples = examples if per == "context" else whole_questions(examples)
    scores = [_question_scores(texts, examples, side.path, metric) for texts, side in zip(said, sides, strict=True)]
    of = _numbered([_TOGETHER[clusters](example) for example in examples])
    if of.max() == 0:
        raise LaminaError(
            f"all {len(examples)} questions are of one {clusters}, from which chance cannot be told: take them for independent "
            "with --clusters question"
        )
    has_answer = np.array([bool(example.answers) for example in examples])
    result: dict[str, Any] = {"a": str(a), "b": str(b), "metric": metric, "at": at, "clusters": clusters, "per": per}
    for name, part in zip(PARTS, (np.ones_like(has_answer), has_answer, ~has_answer), strict=True):
        if len(set(of[part].tolist())) > 1:
            result[name] = _difference(scores[0][part], scores[1][part], of[part])
    return result


def lines(result: Mapping[str, Any]) -> list[str]:
    """What `compare` found, in words: one line on all questions, then one for each kind of question."""
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
            f"not distinguishable: {b} has {size:.2f} {label} {more} than {a}, {scores} ({known}); if that is real, it would "
            f"take about {_rounded_up(overall['needed']):,} questions to tell"
        )
    return [first, *(_part_line(name, label, result[name]) for name in PARTS[1:] if name in result)]


@dataclass(frozen=True)
class _Side:
    """One of the two: a run, or an ensemble, whose questions are those of its first run."""

    path: Path
    scored: ScoredRun
    is_ensemble: bool

    @classmethod
    def open(cls, path: Path) -> _Side:
        about = path / "ensemble.json"
        if not about.is_file():
            return cls(path, ScoredRun.open(path), is_ensemble=False)
        try:
            first = Path(read_json(about)["runs"][0]["path"])
        except (KeyError, IndexError, TypeError):
            raise LaminaError(f"{about}: names no runs: combine them again with `lamina ensemble`") from None
        if not Run(first).exists:
            raise LaminaError(f"{path}: its run {first} is not there, and only that knows its questions: bring it back")
        return cls(path, ScoredRun.open(first), is_ensemble=True)

    def texts(self, at: ThresholdAt) -> Mapping[str, object]:
        """The answer to each question, "" for none."""
        if at == "tuned":
            found = read_json(self._saved.predictions)
            return found if isinstance(found, dict) else {}
        self._check_has_other_thresholds()
        return {question: texts[0] for question, texts in ranked_texts(read_json(self._saved.nbest)).items() if texts}

    @property
    def _saved(self) -> Run:
        return Run(self.path) if self.is_ensemble else self.scored.saved  # an ensemble's files have a run's names

    def _check_has_other_thresholds(self) -> None:
        if self.is_ensemble:
            raise LaminaError(f"{self.path}: an ensemble keeps its answers at the runs' own thresholds: compare --at tuned")

    def question_texts(self, at: ThresholdAt, examples: Sequence[Example]) -> Mapping[str, object]:
        """The answer to each question over all of its contexts."""
        if at == "tuned":
            found = read_json(self._saved.questions)
            return found if isinstance(found, dict) else {}
        self._check_has_other_thresholds()
        answer = self.scored.answer
        windows, logits = load_outputs(self._saved)
        predictions = decode(windows, logits.start, logits.end, examples, answer)
        return predictions_json(by_question(predictions, examples, answer.across)[0])


def _question_scores(texts: Mapping[str, object], examples: Sequence[Example], path: Path, metric: Metric) -> Doubles:
    """[N] the official score of each question, from 0 to 1."""
    answers = {example.id: text for example in examples if isinstance(text := texts.get(example.id), str)}
    if len(answers) != len(examples):
        raise LaminaError(
            f"{path}: has no answers to {len(examples) - len(answers)} of its {len(examples)} questions: copy or make it again"
        )
    exact, f1 = question_scores(references(examples), answers)
    chosen = f1 if metric == "f1" else exact
    return np.array([chosen[example.id] for example in examples])


def _numbered(names: Sequence[str]) -> Clusters:
    """[N] the number of each name; equal names have equal numbers."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names])


def _difference(a: Doubles, b: Doubles, clusters: Clusters) -> dict[str, Any]:
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


def _part_line(name: str, label: str, part: Mapping[str, Any]) -> str:
    told = "" if part["verdict"] == "not distinguishable" else f", {part['verdict']}"
    return (
        f"{name} {label}: {part['b']:.2f} against {part['a']:.2f}, {part['difference']:+.2f}{told} "
        f"({_interval(part)}, {part['questions']:,} questions)"
    )


def _interval(part: Mapping[str, Any]) -> str:
    p = f"p = {part['p']:.3f}" if part["p"] >= 0.001 else "p < 0.001"
    return f"95% interval {part['low']:+.2f} to {part['high']:+.2f}, {p}"


def _rounded_up(number: int) -> int:
    """To two digits.

    >>> _rounded_up(38_211), _rounded_up(7)
    (39000, 7)
    """
    unit = int(10 ** max(0, len(str(number)) - 2))
    return -(-number // unit) * unit
