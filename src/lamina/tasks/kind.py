"""What a kind of task must offer, and the types that all kinds share."""

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
S = TypeVar("S")  # the settings of a recipe that outputs are read with
D = TypeVar("D", bound=Decision)

DataLike = str | Path | Iterable[object]  # a file, a named dataset, or rows in memory (see `lamina.data.in_memory`)
ScoreTable = Mapping[str, Any]  # numbers, or tables of numbers, by name
JsonObject = Mapping[str, Any]  # an object for a JSON file


class Data(Protocol[E_co]):
    """Examples and the windows that they were cut into."""

    @property
    def examples(self) -> Sequence[E_co]: ...
    @property
    def windows(self) -> Windows: ...


class Splits(NamedTuple, Generic[E]):
    """The examples to train on, to fit decisions on, and to score."""

    train: list[E]
    holdout: list[E]
    dev: list[E]


class EpochExamples(NamedTuple, Generic[E]):
    """The examples of one epoch. `moments` says when each comes, as shares of the epoch; None: in any order."""

    examples: Sequence[E]
    moments: Sequence[float] | None = None


@dataclass(frozen=True)
class Evaluation:
    """`score` (in percent) decides which checkpoint is best; `metrics` are logged."""

    score: float
    metrics: dict[str, float]


class Infer(Protocol):
    """Runs a model over windows: torch today, other runtimes later."""

    def spans(self, windows: Windows) -> SpanLogits:
        """The start and end logits of every token."""
        ...

    def items(self, windows: Windows) -> ItemOutputs:
        """What a head yields for every item."""
        ...


class FileCache:
    """The examples of files that were read already, so that each file is read once. Nobody may change what it returns."""

    def __init__(self) -> None:
        self._found: dict[Hashable, list[Any]] = {}

    def get(self, key: Hashable, read: Callable[[], list[E]]) -> list[E]:
        if key not in self._found:
            self._found[key] = read()
        return self._found[key]


class Kind(Protocol[E, O, S, D]):
    """A kind of task. Objects are stateless, at module level, and can be pickled."""

    decision: type[D]
    predicts: tuple[str, ...]  # the names that `predict` returns

    def check(self, task: TaskOptions, window: WindowOptions) -> None:
        """Raises LaminaError where the options of a new training do not fit this kind."""
        ...

    def resolve(self, task: TaskOptions, files: FileCache) -> TaskOptions:
        """The task with what only its data can tell, such as labels."""
        ...

    def read(self, task: TaskOptions, data: DataLike, *, labelled: bool = True) -> list[E]:
        """Return the examples of a file, a named dataset or rows in memory. Without `labelled`, ignore answers and labels."""
        ...

    def splits(self, task: TaskOptions, seed: int, files: FileCache, *, dev: bool = True) -> Splits[E]:
        """All examples of a training; without `dev`, no dev set is read."""
        ...

    def dev(self, task: TaskOptions, files: FileCache) -> list[E]:
        """The examples that the task is scored on; none where the recipe names no dev set."""
        ...

    def counts(self, examples: Sequence[E]) -> dict[str, int]:
        """How many there are, by what they are called; the first count is what users count in."""
        ...

    def text(self, example: E) -> tuple[str, str | None]:
        """The texts of an example, without its id, answers or label."""
        ...

    def unlabelled(self, examples: Sequence[E]) -> Sequence[E]:
        """The examples without what a prediction must not see."""
        ...

    def epoch(self, examples: Sequence[E], task: TaskOptions, train: TrainOptions, number: int) -> EpochExamples[E]:
        """The examples of one epoch, augmented. Runs in another process, so nothing may be unpicklable."""
        ...

    def windows(self, examples: Sequence[E], tokenizer: Tokenizer, task: TaskOptions, window: WindowOptions) -> Windows: ...

    def settings(self, recipe: Recipe, task: TaskOptions, tokenizer: Tokenizer) -> S:
        """The settings that outputs are read with; these need no recipe and no torch."""
        ...

    def outputs(self, infer: Infer, data: Data[E]) -> O:
        """Runs the model. All methods below work on what it returns."""
        ...

    def fit(self, outputs: O, data: Data[E], settings: S) -> D:
        """Fits the decision on a held-out split, which is not empty."""
        ...

    def evaluate(self, outputs: O, data: Data[E], settings: S, decision: D | None = None) -> Evaluation:
        """What training chooses a checkpoint by. Without a decision, one is fitted on the data itself."""
        ...

    def score(self, outputs: O, data: Data[E], settings: S, decision: D) -> ScoreTable: ...

    def predict(self, outputs: O, data: Data[E], settings: S, decision: D) -> dict[str, JsonObject]:
        """Predictions by the name of the file that they are for, without its ending. Needs no labels."""
        ...

    def summary(self, predictions: Mapping[str, JsonObject], decision: D) -> dict[str, object]:
        """What `predict` returned, in numbers."""
        ...

    def save(self, run: Run, outputs: O, data: Data[E]) -> None:
        """Stores the outputs in the run folder."""
        ...


AnyKind = Kind[Any, Any, Any, Any]


def counted(counts: Mapping[str, int]) -> str:
    """Counts as text; the second is left out where it says nothing new.

    >>> counted({"questions": 12, "contexts": 36}), counted({"questions": 12, "contexts": 12}), counted({"sentences": 3})
    ('12 questions with 36 contexts', '12 questions', '3 sentences')
    """
    (noun, count), *more = counts.items()
    return f"{count} {noun}" + "".join(f" with {number} {other}" for other, number in more if number != count)
