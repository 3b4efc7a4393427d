"""`Answerer`: a function from batches of questions to batches of answers, for engines that spread batches over machines.

It fits `ray.data.Dataset.map_batches`, Spark's `mapInPandas` and Dask's `map_partitions`. None of them is imported here.

Each question is computed alone. So its answer has the same bits in every batch, in every process of one type of machine.
On a CPU with one thread this costs nothing: padding is saved, and batches gain little there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamina.data.examples import Example
from lamina.data.in_memory import examples_of
from lamina.data.question_columns import column_key
from lamina.errors import LaminaError
from lamina.reader.questions import best_quotes, limit_for
from lamina.reader.replies import reply_of
from lamina.runtime.exported import Backend, Precision
from lamina.utils.files import exists
from lamina.utils.shipped import SHIPPED, model_folder

if TYPE_CHECKING:
    from lamina.reader.load import Reader

Columns = dict[str, list[Any]]

COLUMNS: Final[Mapping[str, type]] = {
    "id": str,  # of the question
    "answer": str,  # "" for no answer, as `lamina predict` writes it
    "start": int,  # context[start:end] == answer; both are 0 for no answer
    "end": int,
    "confidence": float,  # the probability that this reply is right
    "no_answer": float,  # the probability that the context has no answer
    "null_odds": float,  # as `lamina predict --null-odds` writes them
}
_NUMPY: Final = {str: np.dtype(object), int: np.dtype(np.int64), float: np.dtype(np.float64)}
_SPARK: Final = {str: "string", int: "long", float: "double"}

SPARK_SCHEMA: Final = ", ".join(f"{name} {_SPARK[kind]}" for name, kind in COLUMNS.items())
"""The schema of the answers, for `DataFrame.mapInPandas`."""

_readers: Final[dict[Answerer, Reader]] = {}  # of this process
_loading: Final = threading.Lock()


@dataclass(frozen=True)
class Answerer:
    """Answers batches of questions. It is small and picklable: each process loads the model once, for its first batch.

    A batch has the columns `id`, `question` and `context`, or their usual other names, as files of questions have them.
    Other columns are ignored. The answers have the columns of `COLUMNS`, a row for each question, in the same order.

    >>> answerer = Answerer()
    >>> answers = answerer({"id": ["1"], "question": ["Who built it?"], "context": ["Ada Thorn built it."]})
    >>> answers["id"][0], answers["answer"][0], int(answers["end"][0])
    ('1', 'Ada Thorn', 9)

    Attributes:
        model: A run folder, a checkpoint or a hub id. All machines must reach it by the same name.
        threshold: The null odds above which the reply is "no answer"; None for the threshold of the model.
        threads: The processors of each process.
        backend: As for `lamina.load`. "auto" takes the fastest that the model was exported for.
        precision: As for `lamina.load`.
        device: As for `lamina.load`.
        allow_pickle: As for `lamina.load`.
    """

    model: str | Path = "reader"
    threshold: float | None = None
    threads: int = 1
    backend: Backend = "auto"
    precision: Precision = "auto"
    device: str = "cpu"
    allow_pickle: bool = False

    def __post_init__(self) -> None:
        if self.model not in SHIPPED and exists(model_folder(self.model)):  # workers may have another current folder
            object.__setattr__(self, "model", str(model_folder(self.model).resolve()))

    @property
    def reader(self) -> Reader:
        """The model, which is loaded when it is first used in this process."""
        from lamina.reader.load import load

        with _loading:
            if self not in _readers:
                _readers[self] = load(
                    self.model,
                    device=self.device,
                    threads=self.threads,
                    backend=self.backend,
                    precision=self.precision,
                    allow_pickle=self.allow_pickle,
                )
            return _readers[self]

    def decided(self) -> Answerer:
        """Return it with the backend and the precision that "auto" takes here, so that all processes compute the same way."""
        if "auto" not in (self.backend, self.precision):
            return self
        backend, precision = self.reader.backend.split(", ")
        found: Answerer = replace(self, backend=backend, precision=precision)  # type: ignore[arg-type]
        with _loading:
            _readers.setdefault(found, _readers.pop(self))
        return found

    def __call__(self, batch: Any) -> Any:
        """Return the answers to a batch, in the type of the batch.

        Args:
            batch: A dict of columns (of numpy arrays or lists), a pandas DataFrame, a pyarrow table, or an iterator of
                these, as Spark passes it.

        Returns:
            A dict of numpy arrays, a DataFrame with the index of the batch, a pyarrow table, or an iterator of these.

        Raises:
            LaminaError: A row has a problem, the batch has no column `id`, or the model does not answer questions.
            TypeError: The batch has none of these types.
        """
        if isinstance(batch, Mapping):
            answers = self._of_rows(list(batch), _rows(batch))
            return {name: np.array(answers[name], _NUMPY[kind]) for name, kind in COLUMNS.items()}
        if hasattr(batch, "to_dict") and hasattr(batch, "columns"):  # pandas
            answers = self._of_rows([str(name) for name in batch.columns], batch.to_dict("records"))
            typed = {name: np.array(answers[name], _NUMPY[kind]) for name, kind in COLUMNS.items()}
            return type(batch)(typed, index=batch.index)
        if hasattr(batch, "to_pylist") and hasattr(batch, "column_names"):  # pyarrow
            return arrow_table(self._of_rows(batch.column_names, batch.to_pylist()))
        if isinstance(batch, Iterator):
            return (self(one) for one in batch)
        raise TypeError(f"batch must be columns, a DataFrame or a pyarrow table, not {type(batch).__name__}")

    def answers(self, examples: Iterable[Example]) -> Columns:
        """Return the columns of the answers to some examples, each computed alone."""
        reader = self.reader
        _ = reader.trained.span_task
        answers: Columns = {name: [] for name in COLUMNS}
        for example in examples:
            for column, value in _answer(reader, example, self.threshold).items():
                answers[column].append(value)
        return answers

    def _of_rows(self, header: Sequence[str], rows: Sequence[Mapping[str, object]]) -> Columns:
        if not rows:
            return {name: [] for name in COLUMNS}
        if "id" not in map(column_key, header):
            raise LaminaError("batch: has no column id, which tells the answers of all batches apart. Fix: add one")
        return self.answers(examples_of(list(rows), "batch", answers="ignore"))


def arrow_table(answers: Columns) -> Any:
    """Return columns of answers as a pyarrow table. The caller has checked that pyarrow is installed."""
    import pyarrow

    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    return pyarrow.table({name: pyarrow.array(answers[name], types[kind]) for name, kind in COLUMNS.items()})


def _rows(columns: Mapping[str, Any]) -> list[dict[str, object]]:
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def _answer(reader: Reader, example: Example, threshold: float | None) -> dict[str, object]:
    """Return a row of the answers."""
    (prediction,) = reader.predict([example])
    limit, own = (limit_for(reader.trained, 1, given) for given in (threshold, None))
    quotes = best_quotes(reader.trained, 1)
    quotes.add(0, prediction)
    reply = reply_of(example.question, quotes, limit, 1, own)
    return {
        "id": example.id,
        "answer": reply.text or "",
        "start": reply.start or 0,
        "end": reply.end or 0,
        "confidence": reply.confidence,
        "no_answer": reply.no_answer,
        "null_odds": prediction.null_odds,
    }
