"""Lamina: quoted answers from your own texts, or an honest "no answer", by small encoders that you train on a CPU.

    >>> import lamina
    >>> run = lamina.train("quickstart", "runs/quickstart")  # doctest: +SKIP
    >>> reader = lamina.load("runs/quickstart")  # doctest: +SKIP
    >>> print(reader.answer("Who built the mill?", "The mill was built by Ada Thorn in 1820."))  # doctest: +SKIP
    Ada Thorn (confidence 0.91)

``load`` returns a `Reader`, which answers, classifies, compares and embeds. ``train`` trains a recipe, ``evaluate`` scores a
model on a data set, ``pipeline`` is the drop-in for the question-answering pipeline that transformers removed. Every name is
imported when it is first used, so ``import lamina`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = [
    "Example",
    "Label",
    "LaminaError",
    "LaminaWarning",
    "Prediction",
    "Quote",
    "Reader",
    "Recipe",
    "Reply",
    "Run",
    "__version__",
    "evaluate",
    "load",
    "pipeline",
    "read_recipe",
    "train",
]

if TYPE_CHECKING:
    from lamina.answers.across_contexts import Quote
    from lamina.answers.decode import Prediction
    from lamina.config.parse import read_recipe
    from lamina.config.recipe import Recipe
    from lamina.data.examples import Example
    from lamina.errors import LaminaError, LaminaWarning
    from lamina.reader.load import Reader, evaluate, load
    from lamina.reader.pipeline import pipeline
    from lamina.reader.replies import Reply
    from lamina.reader.sentences import Label
    from lamina.training.trainer import train
    from lamina.utils.run_folder import Run

_HOMES = {
    "Example": "data.examples",
    "Label": "reader.sentences",
    "LaminaError": "errors",
    "LaminaWarning": "errors",
    "Prediction": "answers.decode",
    "Quote": "answers.across_contexts",
    "Reader": "reader.load",
    "Recipe": "config.recipe",
    "Reply": "reader.replies",
    "Run": "utils.run_folder",
    "evaluate": "reader.load",
    "load": "reader.load",
    "pipeline": "reader.pipeline",
    "read_recipe": "config.parse",
    "train": "training.trainer",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'lamina' has no attribute {name!r}")
    return getattr(import_module(f"lamina.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
