"""Evaluate, fit and score all tasks of a recipe, each by its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lamina.answers.decisions import Decision
from lamina.config.recipe import Recipe
from lamina.data.tokenizer import Tokenizer
from lamina.model import Model
from lamina.model.inference import Seen, TorchInference
from lamina.objectives.loss import Loss
from lamina.scoring.sentence import TaskScore, overall
from lamina.tasks.kind import AnyKind, Evaluation, ScoreTable
from lamina.tasks.registry import kind_of
from lamina.tasks.sentences import SENTENCES
from lamina.training.datasets import AnyDataset, Datasets
from lamina.training.split_loss import SplitLoss
from lamina.utils.files import make_folder, write_json
from lamina.utils.progress import Progress, Silent
from lamina.utils.run_folder import Run

Decisions = Mapping[str, Decision]  # by task
SourceScores = dict[str, list[dict[str, Any]]]  # by task, a table of scores with the name of each training set


@dataclass(frozen=True)
class _Member:
    """A task of the group."""

    name: str
    kind: AnyKind
    settings: Any
    several_sets: bool = False  # whether it trains on several sets

    def outputs(self, model: Model, dataset: AnyDataset, progress: Progress | None = None, seen: Seen | None = None) -> Any:
        infer = TorchInference(model, self.name, dataset.store, progress or Silent(), seen)
        return self.kind.outputs(infer, dataset)

    def fit(self, model: Model, dataset: AnyDataset) -> tuple[Decision, Any]:
        """Return the decision fitted on a held-out split, and the outputs; the default and None if the split is empty."""
        if not dataset.examples:
            return self.kind.decision(), None
        outputs = self.outputs(model, dataset)
        return self.kind.fit(outputs, dataset, self.settings), outputs

    def evaluate(self, model: Model, dataset: AnyDataset, decision: Decision | None, loss: Loss | None) -> Evaluation:
        mean = None if loss is None else SplitLoss(loss.objective, model, dataset)
        outputs = self.outputs(model, dataset, seen=None if mean is None else mean.add)
        found = self.kind.evaluate(outputs, dataset, self.settings, decision)
        if mean is None or mean.value is None:
            return found
        return replace(found, metrics={**found.metrics, "loss": mean.value})


def decisions_json(decisions: Decisions) -> dict[str, dict[str, Any]]:
    """Return decisions in the format of run.json."""
    return {name: decision.model_dump(mode="json", exclude_none=True) for name, decision in decisions.items()}


class TaskGroup:
    """All tasks of a recipe."""

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        self._choose = recipe.train.choose
        self._members = [
            _Member(name, kind_of(task), kind_of(task).settings(recipe, task, tokenizer), len(task.data.sets) > 1)
            for name, task in recipe.tasks.items()
        ]

    def evaluate(
        self,
        model: Model,
        datasets: Datasets,
        decisions: Decisions | None = None,
        losses: Mapping[str, Loss] | None = None,
    ) -> Evaluation:
        """Return the evaluation of all tasks. With several, its score is their mean, or that of the task `train.choose`.

        With `losses`, the metrics have the mean of each task's objective as "loss". It costs no second inference.
        """
        found = {
            one.name: one.evaluate(
                model,
                datasets[one.name],
                None if decisions is None else decisions[one.name],
                None if losses is None else losses[one.name],
            )
            for one in self._members
            if datasets[one.name].examples
        }
        if len(self._members) == 1:
            return next(iter(found.values()))
        metrics = {f"{name}.{key}": value for name, one in found.items() for key, value in one.metrics.items()}
        scores = {name: one.score for name, one in found.items()}
        mean = sum(scores.values()) / len(scores)
        return Evaluation(mean if self._choose == "mean" else scores[self._choose], metrics | {"mean": mean})

    def fit(self, model: Model, datasets: Datasets) -> Decisions:
        """Return the decision of each task, fitted on its held-out split; the default if that is empty."""
        return {one.name: one.fit(model, datasets[one.name])[0] for one in self._members}

    def fit_and_score(self, model: Model, datasets: Datasets) -> tuple[Decisions, SourceScores]:
        """Return the decision of each task, and the held-out scores of each training set, for tasks with several sets."""
        decisions: dict[str, Decision] = {}
        sources: SourceScores = {}
        for one in self._members:
            dataset = datasets[one.name]
            decisions[one.name], outputs = one.fit(model, dataset)
            if one.several_sets and outputs is not None:
                scores = one.kind.score(outputs, dataset, one.settings, decisions[one.name])
                sources |= {one.name: scores["sources"]} if "sources" in scores else {}
        return decisions, sources

    def score(self, run: Run, model: Model, datasets: Datasets, decisions: Decisions, progress: Progress) -> None:
        """Score the dev sets that are not empty, and write the scores, the predictions and the outputs."""
        scores: dict[str, ScoreTable] = {}
        for one in self._members:
            dataset = datasets[one.name]
            if dataset.examples:
                folder = run if len(self._members) == 1 else run.task(one.name)
                outputs = one.outputs(model, dataset, progress)
                arguments = outputs, dataset, one.settings, decisions[one.name]
                scores[one.name] = one.kind.score(*arguments)
                make_folder(folder.path)
                for name, content in one.kind.predict(*arguments).items():
                    write_json(folder.path / f"{name}.json", content)
                one.kind.save(folder, outputs, dataset)
        if not scores:
            return
        if len(self._members) == 1:
            write_json(run.scores, next(iter(scores.values())))
        else:
            write_json(run.scores, scores | self._overall(scores, datasets))

    def _overall(self, scores: Mapping[str, ScoreTable], datasets: Datasets) -> dict[str, ScoreTable]:
        """Return paper 002's overall scores if all are sentence tasks with a dev set; else an empty dictionary."""
        if len(scores) != len(self._members) or any(one.kind is not SENTENCES for one in self._members):
            return {}
        summary = overall(
            [
                TaskScore(
                    values["pearson"] if "pearson" in values else values["accuracy"],
                    rows=len(datasets[name].examples),
                    correlation="pearson" in values,
                )
                for name, values in scores.items()
            ]
        )
        return {"overall": summary}
