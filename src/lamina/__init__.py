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
    from lamina.answers.across_contexts import Quote
    from lamina.config.parse import read_recipe
    from lamina.errors import LaminaError, LaminaWarning
    from lamina.reader.load import Reader, load
    from lamina.reader.pipeline import pipeline
    from lamina.reader.replies import Reply
    from lamina.training.trainer import train

_HOMES = {
    "LaminaError": "errors",
    "LaminaWarning": "errors",
    "Quote": "answers.across_contexts",
    "Reader": "reader.load",
    "Reply": "reader.replies",
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
