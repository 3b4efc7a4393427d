"""The models that are served, by name. They load in a thread, so that the page appears before they are ready."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.errors import LaminaError
from lamina.serving.settings import Settings

if TYPE_CHECKING:
    from lamina.reader.load import Reader


class LoadingError(Exception):
    """The models are not loaded yet."""


class UnknownModelError(Exception):
    """No model has this name, or none fits. The message says which do."""


@dataclass(frozen=True)
class Served:
    """A model with its name, and what it was loaded from: a path or a hub id."""

    name: str
    source: str
    reader: Reader

    @property
    def answers(self) -> bool:
        """Whether the model answers questions."""
        return self.reader.trained.find_spans() is not None

    @property
    def tasks(self) -> dict[str, str]:
        """The kind of each task, by its name."""
        return {name: task.head.kind for name, task in self.reader.recipe.tasks.items()}

    def to_json(self) -> dict[str, Any]:
        """Return what the page shows of a model."""
        return {"name": self.name, "answers": self.answers, "tasks": self.tasks, "language": self.reader.trained.language}


class Models:
    """The served models. The first, or the one that the user switched to, is the default."""

    def __init__(self) -> None:
        self._served: dict[str, Served] = {}
        self._default: str | None = None
        self.failure: LaminaError | None = None
        self.ready = False

    @property
    def all(self) -> list[Served]:
        """The models, the default first."""
        return sorted(self._served.values(), key=lambda one: one.name != self._default)

    def add(self, name: str, source: str, reader: Reader, *, default: bool = False) -> Served:
        """Serve one more model. A name that is taken gets a number."""
        unique, number = name, 2
        while unique in self._served:
            unique, number = f"{name} ({number})", number + 1
        self._served[unique] = Served(unique, source, reader)
        if default or self._default is None:
            self._default = unique
        return self._served[unique]

    def switch(self, name: str) -> None:
        """Make a model the default."""
        self._default = self.get(name).name

    def get(self, name: str | None = None, *, kind: str | None = None) -> Served:
        """Return the model of that name, or the first that has a task of that kind.

        Raises:
            LoadingError: The models are not loaded yet.
            UnknownModelError: There is no such model.
        """
        if not self.ready:
            raise LoadingError
        if name is not None:
            if name not in self._served:
                raise UnknownModelError(f"model: there is no model of this name. Fix: name {self._names()}")
            return self._served[name]
        fitting = [one for one in self.all if kind is None or kind in one.tasks.values()]
        if not fitting:
            what = {"spans": "answers questions", "sentences": "reads sentences"}.get(kind or "", "fits")
            raise UnknownModelError(f"model: no served model {what}. Fix: serve one that does, with lamina serve MODEL")
        return fitting[0]

    def _names(self) -> str:
        return " or ".join(repr(name) for name in self._served)

    async def load(self, given: dict[str, str | Reader], settings: Settings) -> None:
        """Load models by name, from what `open_reader` takes. An error is kept in `failure`."""
        try:
            for name, model in given.items():
                reader = await asyncio.to_thread(open_reader, model, settings) if isinstance(model, str) else model
                self.add(name, model if isinstance(model, str) else name, reader)
            self.ready = True
        except Exception as error:  # the task that loads would keep it to itself
            what = f"models: cannot be loaded ({type(error).__name__}). Fix: check the model"
            self.failure = error if isinstance(error, LaminaError) else LaminaError(what)


def open_reader(model: str, settings: Settings) -> Reader:
    """Return the reader of a model: the one place that loads one. It has computed once, so that all of it is loaded."""
    from lamina.data.examples import Example
    from lamina.reader.load import load

    reader = load(model, backend=settings.backend, threads=settings.threads)
    if reader.trained.find_spans() is not None:
        reader.predict([Example("", "Who?", "Ada.", (), "", "")])
    return reader


def names_of(models: list[str]) -> dict[str, str]:
    """Return the models by the names that the page shows: the last part of a path, made unique.

    >>> names_of(["reader", "runs/mine", "old/mine"])
    {'reader': 'reader', 'mine': 'runs/mine', 'old/mine': 'old/mine'}
    """
    found: dict[str, str] = {}
    for model in models:
        short = Path(model).name or model
        found[model if short in found else short] = model
    return found
