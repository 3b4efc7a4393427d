"""The kind of task that predicts a class or a score of a sentence or a pair of sentences.

Accuracy and macro-F1 score the classes; the correlations of Pearson and Spearman score the scores.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import numpy as np

from lamina.answers.decisions import SentenceDecision
from lamina.answers.saved_outputs import save_arrays
from lamina.answers.sentences import ItemOutputs, ScoreMap, best_threshold, mapped, predicted_classes, predicted_scores
from lamina.augment.per_epoch import AugmentOptions
from lamina.data.examples import Sentence
from lamina.data.in_memory import sentences_of
from lamina.data.labels import Labels, labels_in
from lamina.data.sentence_windows import make_sentence_windows
from lamina.data.sentences import SentenceReading
from lamina.data.sources import load_sentences
from lamina.data.splits import every, hold_out_sentences, holdout_share, per_class, sample, without_sentences_of
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import WindowOptions, Windows
from lamina.errors import LaminaError, LaminaWarning
from lamina.scoring.sentence import accuracy, distribution, macro_f1, pearson, spearman
from lamina.tasks.kind import Data, DataLike, EpochExamples, Evaluation, FileCache, Infer, JsonObject, ScoreTable, Splits
from lamina.utils.arrays import Doubles
from lamina.utils.run_folder import Run

if TYPE_CHECKING:
    from lamina.config.data_options import DataOptions
    from lamina.config.recipe import Recipe, TaskOptions
    from lamina.config.train_options import TrainOptions

MAPS: Final[tuple[Literal["bins", "cut"], ...]] = ("bins", "cut")
PER_CLASS: Final = ("per_class", "dev_per_class")  # fields of `data` for classes only
DEV_SEED: Final = 0  # of the sentences that `data.dev_per_class` chooses
VECTORS: Final = ("first", "second")  # large outputs that no score needs, so they are not saved


@dataclass(frozen=True)
class SentenceSettings:
    labels: Labels
    score_map: ScoreMap = "none"
    fixed_threshold: bool = False  # the threshold of the logit is 0, not fitted on the held-out split


class Sentences:
    """The kind of sentence tasks. Its outputs are the fields of the head's outputs, each with one row per item."""

    decision = SentenceDecision
    predicts: tuple[str, ...] = ("predictions",)

    def check(self, task: TaskOptions, window: WindowOptions) -> None:
        kind = f"head.type {task.head.type!r} judges sentences"
        if task.augment != AugmentOptions():
            raise LaminaError(f"augment: is for questions, but {kind}. Fix: leave augment out")
        if odd := [name for name in ("contexts", "choose", "null_windows") if task.data.differs(name)]:
            raise LaminaError(f"data.{odd[0]}: is for questions, but {kind}. Fix: leave data.{odd[0]} out")
        if task.head.type == "cosine" and task.head.map == "bins" and task.data.classes is not None:
            raise LaminaError(
                'head.map: "bins" makes six scores, but the labels are two classes. Fix: set head.map to "cut" or "none"'
            )
        if task.data.scores is not None and (odd := [name for name in PER_CLASS if task.data.differs(name)]):
            raise LaminaError(f"data.{odd[0]}: is for classes, but the labels are scores. Fix: remove data.{odd[0]}")

    def resolve(self, task: TaskOptions, files: FileCache) -> TaskOptions:
        """Return the task with the labels of the training file, and with whether its rows are pairs of texts."""
        data = task.data
        known = data.classes is not None or data.scores is not None
        if known and data.pairs is not None:
            return task
        sentences = self._cached(data, data.train_name, files)
        found: dict[str, object] = {"pairs": sentences[0].second is not None}
        if not known:
            labels = labels_in(str(sentence.label) for sentence in sentences)
            if not labels.are_scores and not 2 <= len(labels.classes) <= max(2, len(sentences) // 3):
                one = len(labels.classes) == 1
                what = f"all labels are {labels.classes[0]!r}" if one else f"there are {len(labels.classes)} different labels"
                raise LaminaError(f"{data.train_name}: {what}. Fix: name the column of the labels with data.columns.label")
            found |= {"scores": (labels.low, labels.high)} if labels.are_scores else {"classes": labels.classes}
        resolved = data.model_copy(update=found)
        files.get(_key(resolved, data.train_name), lambda: sentences)  # the file is not read again for the same rows
        return task.model_copy(update={"data": resolved})

    def read(self, task: TaskOptions, data: DataLike, *, labelled: bool = True) -> list[Sentence]:
        return _load(task.data, data, labelled=labelled)

    def splits(self, task: TaskOptions, seed: int, files: FileCache, *, dev: bool = True) -> Splits[Sentence]:
        """Return the splits. Rows that share a text are in the same split; `data.fraction` reduces the training split alone.

        With `data.held_out`, that set is held out, and rows that share a text with it are left out of the training split.
        """
        data = task.data
        sentences = self._cached(data, data.train_name, files)
        if data.dev_every is not None:
            sentences, _ = every(sentences, data.dev_every)
        drawn = sample(sentences, data.questions, seed)
        if data.held_out is not None:
            held_out = self._cached(data, data.held_out, files)
            left = without_sentences_of(drawn, held_out)
        else:
            left, held_out = hold_out_sentences(drawn, holdout_share(data.holdout, len(drawn)), seed)
        chosen = per_class(left, data.per_class, seed)
        return Splits(sample(chosen, data.share(len(chosen)), seed), held_out, self.dev(task, files) if dev else [])

    def dev(self, task: TaskOptions, files: FileCache) -> list[Sentence]:
        """Return the dev set. Every seed has the same sentences of `data.dev_per_class`, so that runs can be compared."""
        data = task.data
        if data.dev_every is not None:
            found = every(self._cached(data, data.train_name, files), data.dev_every)[1]
        else:
            found = [] if data.dev is None else self._cached(data, data.dev, files)
        return per_class(found, data.dev_per_class, DEV_SEED)[: data.dev_questions]

    def counts(self, examples: Sequence[Sentence]) -> dict[str, int]:
        return {"sentences": len(examples)}

    def text(self, example: Sentence) -> tuple[str, str | None]:
        return example.first, example.second

    def unlabelled(self, examples: Sequence[Sentence]) -> Sequence[Sentence]:
        return [replace(sentence, label=None) for sentence in examples]

    def epoch(
        self, examples: Sequence[Sentence], task: TaskOptions, train: TrainOptions, number: int
    ) -> EpochExamples[Sentence]:
        return EpochExamples(examples)

    def windows(self, examples: Sequence[Sentence], tokenizer: Tokenizer, task: TaskOptions, window: WindowOptions) -> Windows:
        sides = cast(Any, task.head).sides  # every head of this kind has the field
        return make_sentence_windows(examples, tokenizer, task.data.labels, length=window.length, sides=sides)

    def settings(self, recipe: Recipe, task: TaskOptions, tokenizer: Tokenizer) -> SentenceSettings:
        fixed = task.head.type == "cosine" and (task.head.paper_sigmoid or task.head.map == "cut")
        return SentenceSettings(task.data.labels, score_map(task), fixed)

    def outputs(self, infer: Infer, data: Data[Sentence]) -> ItemOutputs:
        return infer.items(data.windows)

    def fit(self, outputs: ItemOutputs, data: Data[Sentence], settings: SentenceSettings) -> SentenceDecision:
        return SentenceDecision(threshold=0.0 if settings.labels.are_scores else _threshold(outputs, data, settings))

    def evaluate(
        self,
        outputs: ItemOutputs,
        data: Data[Sentence],
        settings: SentenceSettings,
        decision: SentenceDecision | None = None,
    ) -> Evaluation:
        gold = gold_labels(data)
        if settings.labels.are_scores:
            r = pearson(predicted_scores(outputs, settings.score_map), gold)
            return Evaluation(100 * r, {"pearson": r})
        threshold = _threshold(outputs, data, settings) if decision is None else decision.threshold
        found = accuracy(predicted_classes(outputs, threshold, settings.score_map), gold)
        return Evaluation(100 * found, {"accuracy": found})

    def score(
        self, outputs: ItemOutputs, data: Data[Sentence], settings: SentenceSettings, decision: SentenceDecision
    ) -> ScoreTable:
        gold = gold_labels(data)
        if settings.labels.are_scores:
            return correlations(outputs, predicted_scores(outputs, settings.score_map), gold)
        predicted = predicted_classes(outputs, decision.threshold, settings.score_map)
        classes = settings.labels.classes
        at_zero = {"accuracy_at_0": accuracy(predicted_classes(outputs, 0.0), gold)} if "cosine" in outputs else {}
        return {
            "accuracy": accuracy(predicted, gold),
            "macro_f1": macro_f1(predicted, gold),
            **at_zero,
            "predicted": distribution(predicted, classes),
            "gold": distribution(gold, classes),
        }

    def predict(
        self, outputs: ItemOutputs, data: Data[Sentence], settings: SentenceSettings, decision: SentenceDecision
    ) -> dict[str, JsonObject]:
        """Return the class of each sentence, or its score in the range of the labels."""
        labels = settings.labels
        if labels.are_scores:
            found: list[str] | list[float] = [
                labels.score(float(share)) for share in predicted_scores(outputs, settings.score_map)
            ]
        else:
            numbers = predicted_classes(outputs, decision.threshold, settings.score_map)
            found = [labels.classes[number] for number in numbers.tolist()]
        return {"predictions": {sentence.id: label for sentence, label in zip(data.examples, found, strict=True)}}

    def summary(self, predictions: Mapping[str, JsonObject], decision: SentenceDecision) -> dict[str, object]:
        return {}

    def save(self, run: Run, outputs: ItemOutputs, data: Data[Sentence]) -> None:
        stored = {name: values for name, values in outputs.items() if name not in VECTORS}
        save_arrays(run.outputs, stored, data.windows.fingerprint)

    def _cached(self, data: DataOptions, name: str, files: FileCache) -> list[Sentence]:
        return files.get(_key(data, name), lambda: _load(data, name))


def _key(data: DataOptions, name: str) -> tuple[Hashable, ...]:
    """Return the cache key of a file's sentences: everything that decides which of its rows are read."""
    return "sentences", name, data.columns, data.skip_broken, data.classes


def _load(data: DataOptions, source: DataLike, *, labelled: bool = True) -> list[Sentence]:
    """Return the sentences of a file or of rows. With `skip_broken`, rows with a label outside `data.classes` are skipped."""
    known = data.classes is not None
    how = SentenceReading(data.columns, data.skip_broken, labelled=labelled, known_labels=known)
    in_file = isinstance(source, str | Path)
    found = load_sentences(str(source), how) if in_file else sentences_of(source, how=how)
    if not labelled or not data.skip_broken or data.classes is None:
        return found
    usable = [sentence for sentence in found if sentence.label in data.classes]
    if odd := len(found) - len(usable):
        message = f"{source if in_file else 'data'}: skipped {odd} rows with a label that is not in data.classes"
        warnings.warn(message, LaminaWarning, stacklevel=3)
    return usable


def score_map(task: TaskOptions) -> ScoreMap:
    """Return how a cosine becomes a score or a class: by the recipe's map, or by the sigmoid of binary cross-entropy."""
    if task.head.type != "cosine":
        return "none"
    return "sigmoid" if task.objective.type == "binary_cross_entropy" and task.head.map == "none" else task.head.map


def gold_labels(data: Data[Sentence]) -> Doubles:
    return np.asarray(data.windows.labels, np.float64)


def correlations(outputs: ItemOutputs, predicted: Doubles, gold: Doubles) -> dict[str, float | dict[str, float]]:
    """Return Pearson and Spearman of the predicted scores.

    For cosines, also return those of the cosines before any map, and Pearson with each of the paper's static maps.
    """
    found: dict[str, float | dict[str, float]] = {"pearson": pearson(predicted, gold), "spearman": spearman(predicted, gold)}
    if "cosine" in outputs:
        found |= {f"{score.__name__}_of_cosine": score(outputs["cosine"], gold) for score in (pearson, spearman)}
        found["pearson_of_maps"] = {how: pearson(mapped(outputs["cosine"], how), gold) for how in MAPS}
    return found


def _threshold(outputs: ItemOutputs, data: Data[Sentence], settings: SentenceSettings) -> float:
    if settings.fixed_threshold or "cosine" not in outputs:
        return 0.0
    return best_threshold(outputs["logits"], gold_labels(data))


SENTENCES = Sentences()
