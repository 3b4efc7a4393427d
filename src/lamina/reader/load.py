"""A trained model as an object that answers questions.

>>> import lamina
>>> reader = lamina.load("runs/quickstart")  # doctest: +SKIP
>>> reader.answer("Who built the mill?", "The mill was built by Ada Thorn.").text  # doctest: +SKIP
'Ada Thorn'
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from lamina.answers.across_contexts import Quote
from lamina.config.train_options import choose_device
from lamina.reader.questions import QuestionReader, TextByText
from lamina.reader.replies import Reply
from lamina.reader.sentences import Label, SentenceReader, Text
from lamina.runs.load import load_trained
from lamina.tasks.kind import ScoreTable
from lamina.utils.progress import Progress

__all__ = ["Label", "Quote", "Reader", "Reply", "Text", "TextByText", "evaluate", "load"]


class Reader(QuestionReader, SentenceReader):
    """A trained model: answers questions, judges sentences, or both, as its tasks allow."""

    def __repr__(self) -> str:
        tasks = ", ".join(f"{name}: {task.head.type}" for name, task in self.recipe.tasks.items())
        config = self.model.encoder.config
        return f"Reader({tasks}; {config.family}, {config.layers} layers x {config.hidden})"


def evaluate(
    model: str | Path | Reader, data: str | Sequence[Any], *, task: str | None = None, progress: Progress | None = None
) -> ScoreTable:
    """The scores of a model on a data set, as `Reader.evaluate` returns them.

    Args:
        model: A reader, or what `load` takes.
        data: The name of a file or a data set, or its examples.
        task: Which task, where the model has several.
        progress: Where progress goes; nowhere if None.
    """
    reader = model if isinstance(model, Reader) else load(model)
    return reader.evaluate(data, task=task, progress=progress)


def load(
    model: str | Path,
    *,
    device: str = "auto",
    threads: int | None = None,
    allow_pickle: bool = False,
    tokenizer: str | None = None,
) -> Reader:
    """A reader of a trained model.

    Args:
        model: A run folder, or a question-answering checkpoint: its folder or its hub id.
        device: "auto", "cpu", "cuda" or "mps".
        threads: How many threads torch uses in this process, 1 or more; None leaves it as it is.
        allow_pickle: Read weights that are a pickle, which can run code that is hidden in it.
        tokenizer: Another tokenizer than the checkpoint's own.

    Raises:
        LaminaError: There is no such model, or it cannot be read.
        TypeError, ValueError: An argument is of the wrong type or out of range.
    """
    if not isinstance(model, str | Path):
        raise TypeError(f"model must be a path or a hub id, not {type(model).__name__}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be 1 or more, not {threads}")
    if threads:
        torch.set_num_threads(threads)
    return Reader(load_trained(model, choose_device(device), allow_pickle=allow_pickle, tokenizer=tokenizer))
