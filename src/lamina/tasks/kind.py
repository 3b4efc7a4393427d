"""The protocol `Kind` of a kind of task, and the types that all kinds share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from lamina.answers.decisions import Decision
from lamina.answers.sentences import ItemOutputs
from lamina.data.logits import SpanLogits
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import WindowOptions, Windows
from lamina.utils.run_folder import Run

if TYPE_CHECKING:  # a recipe imports torch, a kind must not
    from lamina.config.recipe import Recipe, TaskOptions
    from lamina.config.train_options import TrainOptions

E = TypeVar("E")  # an example: a question on a context, or a sentence
E_co = TypeVar("E_co", covariant=True)
O = TypeVar("O")  # noqa: E741 - a model's outputs, as numpy arrays
S = TypeVar("S")  # the settings that decode outputs
D = TypeVar("D", bound=Decision)

DataLike = str | Path | Iterable[object]  # a file, a named dataset, or rows in memory (see `lamina.data.in_memory`)
ScoreTable = Mapping[str, Any]  # numbers, or tables of numbers, by name
JsonObject = Mapping[str, Any]  # an object for a JSON file


class Data(Protocol[E_co]):
    """Examples and their windows."""

    @property
    def examples(self) -> Sequence[E_co]: ...
    @property
    def windows(self) -> Windows: ...


@dataclass(frozen=True)
class Examined(Generic[E_co]):
    """Examples that are predicted or scored, and their windows."""

    examples: Sequence[E_co]
    windows: Windows


class Splits(NamedTuple, Generic[E]):
    """The examples of a task: those to train on, those to fit the decision on, and those to score."""

    train: list[E]
    holdout: list[E]
    dev: list[E]


class EpochExamples(NamedTuple, Generic[E]):
    """The examples of one epoch. `moments` orders them, as shares of the epoch from 0 to 1; None means any order."""

    examples: Sequence[E]
    moments: Sequence[float] | None = None


@dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation. `score` (in percent) decides which checkpoint is best; `metrics` are logged."""

    score: float
    metrics: dict[str, float]


class Infer(Protocol):
    """Runs a model on windows. The library has an implementation with torch."""

    def spans(self, windows: Windows) -> SpanLogits:
        """Return the start and end logits of every token."""
        ...

    def items(self, windows: Windows) -> ItemOutputs:
        """Return the outputs of the head for every item."""
        ...


class FileCache:
    """Keeps the examples of files, so that each file is read once. Callers must not change the lists that it returns."""

    def __init__(self) -> None:
        self._found: dict[Hashable, list[Any]] = {}

    def get(self, key: Hashable, read: Callable[[], list[E]]) -> list[E]:
        if key not in self._found:
            self._found[key] = read()
        return self._found[key]


class Kind(Protocol[E, O, S, D]):
    """A kind of task. Its objects have no state, are defined at module level, and can be pickled."""

    decision: type[D]
    predicts: tuple[str, ...]  # the names that `predict` returns

    def check(self, task: TaskOptions, window: WindowOptions) -> None:
        """Raise LaminaError if the options of a new run do not fit this kind."""
        ...

    def resolve(self, task: TaskOptions, files: FileCache) -> TaskOptions:
        """Return the task with the fields that are read from its data, such as labels."""
        ...

    def read(self, task: TaskOptions, data: DataLike, *, labelled: bool = True) -> list[E]:
        """Return the examples of a file, a named dataset or rows in memory. Without `labelled`, ignore answers and labels."""
        ...

    def splits(self, task: TaskOptions, seed: int, files: FileCache, *, dev: bool = True) -> Splits[E]:
        """Return all examples of a run. Without `dev`, no dev set is read."""
        ...

    def dev(self, task: TaskOptions, files: FileCache) -> list[E]:
        """Return the examples that the task is scored on; an empty list if the recipe names no dev set."""
        ...

    def counts(self, examples: Sequence[E]) -> dict[str, int]:
        """Return the numbers of questions, contexts or sentences by these names. Reports use the first one."""
        ...

    def text(self, example: E) -> tuple[str, str | None]:
        """Return the texts of an example, without its id, answers or label."""
        ...

    def unlabelled(self, examples: Sequence[E]) -> Sequence[E]:
        """Return the examples without answers and labels, which a prediction must not see."""
        ...

    def epoch(self, examples: Sequence[E], task: TaskOptions, train: TrainOptions, number: int) -> EpochExamples[E]:
        """Return the augmented examples of one epoch. It runs in another process: arguments and result must be picklable."""
        ...

    def windows(self, examples: Sequence[E], tokenizer: Tokenizer, task: TaskOptions, window: WindowOptions) -> Windows: ...

    def settings(self, recipe: Recipe, task: TaskOptions, tokenizer: Tokenizer) -> S:
        """Return the settings that decode outputs. They need no recipe and no torch."""
        ...

    def outputs(self, infer: Infer, data: Data[E]) -> O:
        """Run the model and return its outputs. All methods below work on these."""
        ...

    def fit(self, outputs: O, data: Data[E], settings: S) -> D:
        """Fit the decision on a held-out split, which must not be empty."""
        ...

    def evaluate(self, outputs: O, data: Data[E], settings: S, decision: D | None = None) -> Evaluation:
        """Return the score that chooses a checkpoint. Without a decision, one is fitted on the data itself."""
        ...

    def score(self, outputs: O, data: Data[E], settings: S, decision: D) -> ScoreTable: ...

    def predict(self, outputs: O, data: Data[E], settings: S, decision: D) -> dict[str, JsonObject]:
        """Return the predictions by the name of their file, without its ending. Needs no labels."""
        ...

    def summary(self, predictions: Mapping[str, JsonObject], decision: D) -> dict[str, object]:
        """Return counts of the predictions that `predict` returned."""
        ...

    def save(self, run: Run, outputs: O, data: Data[E]) -> None:
        """Store the outputs in the run folder."""
        ...


AnyKind = Kind[Any, Any, Any, Any]


def counted(counts: Mapping[str, int]) -> str:
    """Return counts as text, with the noun in the singular for 1. A later count that equals the first is left out.

    >>> counted({"questions": 12, "contexts": 36}), counted({"questions": 12, "contexts": 12}), counted({"sentences": 1})
    ('12 questions with 36 contexts', '12 questions', '1 sentence')
    """
    (noun, count), *more = counts.items()
    parts = [(noun, count), *((other, number) for other, number in more if number != count)]
    return " with ".join(f"{number} {name.removesuffix('s') if number == 1 else name}" for name, number in parts)
