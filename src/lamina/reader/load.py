"""A trained model as an object that answers questions.

>>> import lamina
>>> reader = lamina.load("runs/quickstart")  # doctest: +SKIP
>>> reader.answer("Who built the mill?", "The mill was built by Ada Thorn.").text  # doctest: +SKIP
'Ada Thorn'
"""

from __future__ import annotations

from pathlib import Path

import torch

from lamina.answers.across_contexts import Quote
from lamina.config.train_options import choose_device
from lamina.reader.questions import QuestionReader, TextByText
from lamina.reader.replies import Reply
from lamina.reader.sentences import Label, SentenceReader, Text
from lamina.runs.load import load_trained

__all__ = ["Label", "Quote", "Reader", "Reply", "Text", "TextByText", "load"]


class Reader(QuestionReader, SentenceReader):
    """A trained model: answers questions, judges sentences, or both, as its tasks allow."""


def load(
    model: str | Path,
    *,
    device: str = "auto",
    threads: int | None = None,
    allow_pickle: bool = False,
    tokenizer: str | None = None,
) -> Reader:
    """A reader from a run folder, or from a question-answering checkpoint: a folder or a hub id.

    `tokenizer` names another tokenizer than the checkpoint's own; `allow_pickle` lets its weights be a pickle, which can
    run code that is hidden in it.
    """
    if threads:
        torch.set_num_threads(threads)
    return Reader(load_trained(model, choose_device(device), allow_pickle=allow_pickle, tokenizer=tokenizer))
