"""Lamina: quoted answers from your own texts, or "no answer", by small encoders that you train on a CPU.

    >>> import lamina
    >>> run = lamina.train("quickstart", "runs/quickstart")  # doctest: +SKIP
    >>> reader = lamina.load("runs/quickstart")  # doctest: +SKIP
    >>> print(reader.answer("Who built the mill?", "The mill was built by Ada Thorn in 1820."))  # doctest: +SKIP
    Ada Thorn (confidence 0.91)

`train` trains a recipe on files or on rows in memory and returns a `Run`. `load` returns a `Reader`, which answers,
classifies, compares and embeds, and which can be calibrated, saved and uploaded to the hub. `fit` adapts a model to a few
of your own questions or sentences. `evaluate` scores a model. `read_document` reads the text of a file. `pipeline` is the
drop-in for the question-answering pipeline that transformers removed. `study` trains all rows of a table.

The names in ``lamina.__all__`` and the public methods of these classes are stable: a minor version does not break them.
Modules below `lamina` are not part of this promise; see docs/stability.md. Every name is imported when it is first used, so
``import lamina`` takes little time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = [
    "Document",
    "Example",
    "Fitted",
    "Label",
    "LaminaError",
    "LaminaWarning",
    "Prediction",
    "Quote",
    "Reader",
    "Recipe",
    "Reply",
    "Run",
    "StudyRow",
    "StudyTable",
    "__version__",
    "evaluate",
    "fit",
    "load",
    "pipeline",
    "read_document",
    "read_recipe",
    "study",
    "train",
]

if TYPE_CHECKING:
    from lamina.answers.across_contexts import Quote
    from lamina.answers.decode import Prediction
    from lamina.config.parse import read_recipe
    from lamina.config.recipe import Recipe
    from lamina.data.examples import Example
    from lamina.errors import LaminaError, LaminaWarning
    from lamina.experiments.studies.results import StudyRow, StudyTable
    from lamina.experiments.studies.run_study import study
    from lamina.fitting.fit import fit
    from lamina.fitting.results import Fitted
    from lamina.reader.documents import Document, read_document
    from lamina.reader.load import Reader, evaluate, load
    from lamina.reader.pipeline import pipeline
    from lamina.reader.replies import Reply
    from lamina.reader.sentences import Label
    from lamina.training.trainer import train
    from lamina.utils.run_folder import Run

_HOMES = {
    "Document": "reader.documents",
    "Example": "data.examples",
    "Fitted": "fitting.results",
    "Label": "reader.sentences",
    "LaminaError": "errors",
    "LaminaWarning": "errors",
    "Prediction": "answers.decode",
    "Quote": "answers.across_contexts",
    "Reader": "reader.load",
    "Recipe": "config.recipe",
    "Reply": "reader.replies",
    "Run": "utils.run_folder",
    "StudyRow": "experiments.studies.results",
    "StudyTable": "experiments.studies.results",
    "evaluate": "reader.load",
    "fit": "fitting.fit",
    "load": "reader.load",
    "pipeline": "reader.pipeline",
    "read_document": "reader.documents",
    "read_recipe": "config.parse",
    "study": "experiments.studies.run_study",
    "train": "training.trainer",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'lamina' has no attribute {name!r}")
    try:
        return getattr(import_module(f"lamina.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        from lamina.utils.extras import TORCH, is_of, missing_torch

        if not is_of(error, TORCH):
            raise
        raise missing_torch(f"lamina.{name}") from None


def __dir__() -> list[str]:
    return sorted(__all__)
