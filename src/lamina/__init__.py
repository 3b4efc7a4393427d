"""Lamina: fine-tunes BERT-family encoders for extractive question answering, and says what it cost.

``lamina.load(model).answer(question, context)`` answers, ``lamina.pipeline("question-answering", model)`` does so as
transformers did, ``lamina.train(recipe, out)`` trains. All are imported when they are first used, so that ``import
lamina`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = [
    "LaminaError",
    "LaminaWarning",
    "Quote",
    "Reader",
    "Reply",
    "__version__",
    "load",
    "pipeline",
    "read_recipe",
    "train",
]

if TYPE_CHECKING:
    from lamina.errors import LaminaError, LaminaWarning
    from lamina.pipelines import pipeline
    from lamina.reader import Quote, Reader, Reply, load
    from lamina.recipe import read_recipe
    from lamina.trainer import train

_HOMES = {
    "LaminaError": "errors",
    "LaminaWarning": "errors",
    "Quote": "reader",
    "Reader": "reader",
    "Reply": "reader",
    "load": "reader",
    "pipeline": "pipelines",
    "read_recipe": "recipe",
    "train": "trainer",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'lamina' has no attribute {name!r}")
    return getattr(import_module(f"lamina.{_HOMES[name]}"), name)
