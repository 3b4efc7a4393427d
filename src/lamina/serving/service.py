"""The parts that the routes share: the models, the queue, the project and the limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Request

from lamina.serving.batching import Batcher, Lane
from lamina.serving.corrections import Corrections
from lamina.serving.documents import DocumentReader
from lamina.serving.improving import Improvement
from lamina.serving.labelling import Labelling
from lamina.serving.metrics import Metrics
from lamina.serving.models import Models
from lamina.serving.settings import Settings

T = TypeVar("T")

_LARGE: Final = 50_000  # characters: above them the event loop would stand still for milliseconds


class TooLongError(Exception):
    """An input is over a limit. The message has both numbers."""


@dataclass
class State:
    """What the routes share. `closing` is set when the service shuts down: streams end then."""

    settings: Settings
    models: Models
    metrics: Metrics
    batcher: Batcher
    corrections: Corrections
    improvement: Improvement
    labelling: Labelling
    documents: DocumentReader
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    async def apart(self, size: int, work: Callable[[], T]) -> T:
        """Return the result of work whose time grows with `size`. If it is large, it runs in a thread, and nobody waits."""
        return work() if size < _LARGE else await asyncio.to_thread(work)

    async def compute(self, lane: Lane, items: Sequence[Any], costs: Sequence[int]) -> list[Any]:
        """Return the results of the queue for some items."""
        return await self.batcher.submit(lane, items, costs, self.settings.limits.seconds)

    def check_items(self, count: int) -> None:
        """Raise TooLongError if a request has too many items."""
        _check("request", count, self.settings.limits.items, "items", "send several requests")

    def check_questions(self, name: str, texts: Sequence[str]) -> None:
        """Raise TooLongError if a question or a short text is too long."""
        for number, text in enumerate(texts, 1):
            which = name if len(texts) == 1 else f"{name} {number}"
            _check(which, len(text), self.settings.limits.question, "characters", "shorten it")

    def check_texts(self, texts: Sequence[str]) -> None:
        """Raise TooLongError if the texts of a request are too long together."""
        _check("context", sum(map(len, texts)), self.settings.limits.text, "characters", "send less text at once")


def _check(name: str, size: int, limit: int, unit: str, fix: str) -> None:
    if size > limit:
        raise TooLongError(f"{name}: has {size:,} {unit}, over the limit of {limit:,}. Fix: {fix}")


async def _state(request: Request) -> State:  # a plain function would run in another thread, for each request
    state: State = request.app.state.lamina
    return state


async def _noted(request: Request) -> dict[str, object]:
    noted: dict[str, object] = request.scope["state"]["noted"]
    return noted


Shared = Annotated[State, Depends(_state)]
Noted = Annotated[dict[str, object], Depends(_noted)]  # what the log line of the request gets
