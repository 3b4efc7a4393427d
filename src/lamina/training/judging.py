"""How a task is judged: on the held-out part while it trains, and on the dev set at the end. One judge a kind of head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, Protocol, cast

import numpy as np

from lamina.answers.calibration import Calibration
from lamina.answers.decode import Prediction, decode
from lamina.answers.formats import nbest_json, null_odds_json, predictions_json
from lamina.answers.saved_outputs import save_outputs
from lamina.answers.sentences import Scored, best_threshold, mapped, said_classes, said_scores
from lamina.config.recipe import Recipe, TaskOptions
from lamina.data.examples import Example, Sentence
from lamina.data.logits import SpanLogits
from lamina.data.tokenizer import Tokenizer
from lamina.heads import AnswerabilityHeadOptions, CosineHeadOptions
from lamina.heads.answerability import IMPOSSIBLE
from lamina.model import Model
from lamina.model.inference import Floats, class_logits, item_outputs, span_logits
from lamina.scoring.answerability import Doubles, answerability, score_answerability
from lamina.scoring.bertvision import bertvision_legacy, gold_pieces
from lamina.scoring.predictions import by_question, calibrate, score_at, score_both, several_contexts, tune_threshold
from lamina.scoring.sentence import TaskScore, accuracy, distribution, macro_f1, overall, pearson, spearman
from lamina.state_cache.dataset import Part
from lamina.training.loop import Evaluation
from lamina.training.material import AnyPart
from lamina.utils.files import make_folder, write_json
from lamina.utils.progress import Progress, Silent
from lamina.utils.run_folder import Run

MAPS: tuple[Literal["bins", "cut"], ...] = ("bins", "cut")


class Judge(Protocol):
    def evaluate(self, model: Model, part: AnyPart, settled: Mapping[str, Any] | None = None) -> Evaluation:
        """What training chooses its checkpoint by; the score is in percent. A threshold is tuned on the part itself, unless
        it is `settled`."""
        ...

    def settle(self, model: Model, part: AnyPart) -> dict[str, Any]:
        """What the held-out part tells about how to use the model; goes into run.json. The part may be empty."""
        ...

    def score(self, run: Run, model: Model, part: AnyPart, settled: dict[str, Any], progress: Progress) -> dict[str, Any]:
        """The scores of the dev set; writes what they were made from."""
        ...


def judge_of(recipe: Recipe, name: str, tokenizer: Tokenizer) -> Judge:
    task = recipe.tasks[name]
    if task.of_sentences:
        return SentenceJudge(name, task)
    if isinstance(task.head, AnswerabilityHeadOptions):
        return AnswerabilityJudge(name, task.head)
    return SpanJudge(recipe, name, tokenizer)


class Judges:
    """The judges of all tasks of a recipe."""

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        self._judges = {name: judge_of(recipe, name, tokenizer) for name in recipe.tasks}
        self._recipe = recipe

    def evaluate(
        self, model: Model, parts: Mapping[str, AnyPart], settled: Mapping[str, dict[str, Any]] | None = None
    ) -> Evaluation:
        """Of one task its own score; of several their mean, or that of the one that the recipe chooses by."""
        found = {
            name: judge.evaluate(model, parts[name], None if settled is None else settled[name])
            for name, judge in self._judges.items()
            if parts[name].examples
        }
        if len(self._judges) == 1:
            return next(iter(found.values()))
        metrics = {f"{name}.{key}": value for name, one in found.items() for key, value in one.metrics.items()}
        scores = {name: one.score for name, one in found.items()}
        mean = sum(scores.values()) / len(scores)
        choice = self._recipe.train.choose
        return Evaluation(mean if choice == "mean" else scores[choice], metrics | {"mean": mean})

    def settle(self, model: Model, parts: Mapping[str, AnyPart]) -> dict[str, dict[str, Any]]:
        return {name: judge.settle(model, parts[name]) for name, judge in self._judges.items()}

    def score(
        self,
        run: Run,
        model: Model,
        parts: Mapping[str, AnyPart],
        settled: Mapping[str, dict[str, Any]],
        progress: Progress,
    ) -> None:
        """Scores all dev sets that there are and writes the scores."""
        scores: dict[str, Any] = {}
        for name, judge in self._judges.items():
            if parts[name].examples:
                folder = run if len(self._judges) == 1 else run.task(name)
                make_folder(folder.path)
                scores[name] = judge.score(folder, model, parts[name], settled[name], progress)
        if len(self._judges) == 1:
            scores = next(iter(scores.values()), {})
        elif summary := self._overall(scores, parts):
            scores["overall"] = summary
        if scores:
            write_json(run.scores, scores)

    def _overall(self, scores: Mapping[str, Any], parts: Mapping[str, AnyPart]) -> dict[str, float]:
        """Of tasks of sentences, where every one has a dev set."""
        if set(scores) != set(self._judges) or not all(task.of_sentences for task in self._recipe.tasks.values()):
            return {}
        return overall(
            [
                TaskScore(
                    values["pearson"] if "pearson" in values else values["accuracy"],
                    rows=len(parts[name].examples),
                    correlation="pearson" in values,
                )
                for name, values in scores.items()
            ]
        )


class SpanJudge:
    """Judges every context. Where the questions held out have several, a threshold of its own is tuned on them for a question
    over all of its contexts, and the dev set is scored both ways."""

    def __init__(self, recipe: Recipe, task: str, tokenizer: Tokenizer) -> None:
        self._recipe = recipe
        self._task = task
        self._tokenizer = tokenizer

    def evaluate(self, model: Model, part: Part[Example], settled: Mapping[str, Any] | None = None) -> Evaluation:
        predictions = self._answers(model, part)[1]
        if settled is not None:
            scores = score_at(predictions, part.examples, settled["threshold"])
            return Evaluation(scores["f1"], {"f1": scores["f1"], "exact": scores["exact"]})
        threshold, mean = tune_threshold(predictions, part.examples)
        metrics = {"balanced_f1": mean, "threshold": threshold}
        if several_contexts(part.examples):
            metrics["question_balanced_f1"] = tune_threshold(*self._by_question(predictions, part))[1]
        return Evaluation(mean, metrics)

    def settle(self, model: Model, part: Part[Example]) -> dict[str, Any]:
        if not part.examples:
            return {"threshold": 0.0, "calibration": asdict(Calibration())}
        predictions = self._answers(model, part)[1]
        found: dict[str, Any] = {
            "threshold": tune_threshold(predictions, part.examples)[0],
            "calibration": asdict(calibrate(predictions, part.examples)),
        }
        if several_contexts(part.examples):
            found["question_threshold"] = tune_threshold(*self._by_question(predictions, part))[0]
        return found

    def score(self, run: Run, model: Model, part: Part[Example], settled: dict[str, Any], progress: Progress) -> dict[str, Any]:
        logits, predictions = self._answers(model, part, progress)
        threshold = cast(float, settled["threshold"])
        of_questions = cast(float, settled.get("question_threshold", threshold))
        korean = self._recipe.train.scorer == "korquad"
        scores = score_both(predictions, part.examples, threshold, of_questions, self._recipe.answer.across, korean=korean)
        texts = predictions_json(predictions, threshold)
        if "questions" in scores:
            grouped, _ = self._by_question(predictions, part)
            write_json(run.questions, predictions_json(grouped, of_questions))
        if self._recipe.train.scorer == "bertvision_legacy":
            gold = gold_pieces(part.examples, self._tokenizer)
            scores["bertvision_legacy"] = bertvision_legacy(part.windows, logits, gold)
        write_json(run.predictions, texts)
        write_json(run.null_odds, null_odds_json(predictions))
        write_json(run.nbest, nbest_json(predictions))
        save_outputs(run, part.windows, logits)
        return scores

    def _by_question(self, predictions: Sequence[Prediction], part: Part[Example]) -> tuple[list[Prediction], list[Example]]:
        return by_question(predictions, part.examples, self._recipe.answer.across)

    def _answers(
        self, model: Model, part: Part[Example], progress: Progress | None = None
    ) -> tuple[SpanLogits, list[Prediction]]:
        progress = progress or Silent()
        progress.start("answering", len(part.windows))
        logits = span_logits(model, part.windows, task=self._task, store=part.store, progress=progress)
        return logits, decode(part.windows, logits.start, logits.end, part.examples, self._recipe.answer)


class AnswerabilityJudge:
    def __init__(self, task: str, head: AnswerabilityHeadOptions) -> None:
        self._task = task
        self._how: Literal["min", "max"] = "min" if head.aggregate == "min" else "max"

    def evaluate(self, model: Model, part: Part[Example], settled: Mapping[str, Any] | None = None) -> Evaluation:
        scores = self._scores(self._impossible(model, part, Silent()), part)
        return Evaluation(scores["accuracy"], {"accuracy": scores["accuracy"], "f1": scores["f1"]})

    def settle(self, model: Model, part: Part[Example]) -> dict[str, Any]:
        return {}

    def score(self, run: Run, model: Model, part: Part[Example], settled: dict[str, Any], progress: Progress) -> dict[str, Any]:
        impossible = self._impossible(model, part, progress)
        write_json(run.predictions, {e.id: float(p) for e, p in zip(part.examples, impossible, strict=True)})
        return dict(self._scores(impossible, part))

    def _impossible(self, model: Model, part: Part[Example], progress: Progress) -> Doubles:
        """[E] the probability that a question has no answer."""
        progress.start("judging", len(part.windows))
        logits = class_logits(model, part.windows, task=self._task, store=part.store, progress=progress)  # [W, 2]
        return answerability(softmax(logits)[:, IMPOSSIBLE], part.windows.example, self._how)

    def _scores(self, impossible: Doubles, part: Part[Example]) -> dict[str, float]:
        return score_answerability(impossible, np.array([not example.answers for example in part.examples]))


class SentenceJudge:
    """Of classes: accuracy and macro-F1. Of scores: the correlations of Pearson and Spearman."""

    def __init__(self, name: str, task: TaskOptions) -> None:
        self._name = name
        self._labels = task.data.labels
        self._map = how_scored(task)
        self._raw = isinstance(task.head, CosineHeadOptions) and task.head.paper_sigmoid

    def evaluate(self, model: Model, part: Part[Sentence], settled: Mapping[str, Any] | None = None) -> Evaluation:
        outputs, gold = self._outputs(model, part, Silent()), labels_of(part)
        if self._labels.are_scores:
            r = pearson(said_scores(outputs, self._map), gold)
            return Evaluation(100 * r, {"pearson": r})
        threshold = self._threshold(outputs, gold) if settled is None else settled["threshold"]
        found = accuracy(said_classes(outputs, threshold), gold)
        return Evaluation(100 * found, {"accuracy": found})

    def settle(self, model: Model, part: Part[Sentence]) -> dict[str, Any]:
        """Of pairs that are alike or not, from which logit on they are."""
        if self._labels.are_scores:
            return {}
        if not part.examples:
            return {"threshold": 0.0}
        return {"threshold": self._threshold(self._outputs(model, part, Silent()), labels_of(part))}

    def score(
        self, run: Run, model: Model, part: Part[Sentence], settled: dict[str, Any], progress: Progress
    ) -> dict[str, Any]:
        scores, said = self.measure(model, part, settled, progress)
        write_json(run.predictions, {sentence.id: label for sentence, label in zip(part.examples, said, strict=True)})
        return scores

    def measure(
        self, model: Model, part: Part[Sentence], settled: Mapping[str, Any], progress: Progress
    ) -> tuple[dict[str, Any], list[str] | list[float]]:
        """The scores, and what was said of each sentence."""
        outputs, gold = self._outputs(model, part, progress), labels_of(part)
        if self._labels.are_scores:
            return correlations(outputs, said_scores(outputs, self._map), gold), self._said(outputs, settled)
        classes, chosen = self._labels.classes, said_classes(outputs, settled.get("threshold", 0.0))
        at_zero = {} if "cosine" not in outputs else {"accuracy_at_0": accuracy(said_classes(outputs, 0.0), gold)}
        scores = {
            "accuracy": accuracy(chosen, gold),
            "macro_f1": macro_f1(chosen, gold),
            **at_zero,
            "said": distribution(chosen, classes),
            "gold": distribution(gold, classes),
        }
        return scores, self._said(outputs, settled)

    def say(
        self, model: Model, part: Part[Sentence], settled: Mapping[str, Any], progress: Progress
    ) -> list[str] | list[float]:
        """Of each sentence its class, or its score in the range of the labels. Needs no labels."""
        return self._said(self._outputs(model, part, progress), settled)

    def _said(self, outputs: dict[str, Floats], settled: Mapping[str, Any]) -> list[str] | list[float]:
        if self._labels.are_scores:
            return [self._labels.score(float(share)) for share in said_scores(outputs, self._map)]
        chosen = said_classes(outputs, settled.get("threshold", 0.0))
        return [self._labels.classes[number] for number in chosen.tolist()]

    def _outputs(self, model: Model, part: Part[Sentence], progress: Progress) -> dict[str, Floats]:
        progress.start("judging", len(part.windows))
        return item_outputs(model, part.windows, task=self._name, store=part.store, progress=progress)

    def _threshold(self, outputs: dict[str, Floats], gold: Doubles) -> float:
        return 0.0 if self._raw or "cosine" not in outputs else best_threshold(outputs["logits"], gold)


def how_scored(task: TaskOptions) -> Scored:
    """How a pair's score is read: its cosine, mapped as the recipe says, or what binary cross-entropy taught."""
    if not isinstance(task.head, CosineHeadOptions):
        return "none"
    return "sigmoid" if task.objective.type == "binary_cross_entropy" and task.head.map == "none" else task.head.map


def labels_of(part: Part[Sentence]) -> Doubles:
    return np.asarray(part.windows.labels, np.float64)


def correlations(outputs: dict[str, Floats], said: Doubles, gold: Doubles) -> dict[str, Any]:
    """Pearson and Spearman of what is said; of cosines also those of the bare ones, which may lie below every score, and
    what the paper's static maps would make of them."""
    found: dict[str, Any] = {"pearson": pearson(said, gold), "spearman": spearman(said, gold)}
    if "cosine" in outputs:
        found |= {f"{score.__name__}_of_cosine": score(outputs["cosine"], gold) for score in (pearson, spearman)}
        found["pearson_of_maps"] = {turn: pearson(mapped(outputs["cosine"], turn), gold) for turn in MAPS}
    return found


def softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return cast(Floats, powers / powers.sum(-1, keepdims=True))
