"""The questions of `lamina label`, the least certain first."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lamina.errors import LaminaError
from lamina.serving.batching import Batcher, FullError
from lamina.serving.corrections import Corrections
from lamina.serving.models import Served
from lamina.serving.work import SpanLane, question_items, replies_of

if TYPE_CHECKING:
    from lamina.data.examples import Example
    from lamina.reader.replies import Reply

_AT_ONCE = 32  # questions that the queue gets together
_PATIENCE = 3600.0  # seconds for them


@dataclass(frozen=True)
class Uncertain:
    """A question with its reply."""

    example: Example
    reply: Reply

    def to_json(self) -> dict[str, Any]:
        """Return the question as the page shows it."""
        reply, example = self.reply, self.example
        span = None if reply.answer is None else {"start": reply.answer.start, "end": reply.answer.end}
        return {
            "title": example.article or "text",
            "context": example.context,
            "question": example.question,
            "answer": span,
            "confidence": reply.confidence,
        }


class Labelling:
    """Answers the questions of a file in the background, and hands out those whose replies are least certain."""

    def __init__(self, data: str | None) -> None:
        self.data = data
        self._found: list[Uncertain] = []
        self._total = 0
        self.failure: LaminaError | None = None

    async def run(self, served: Served, batcher: Batcher) -> None:
        """Answer all questions. An error is kept in `failure`."""
        if self.data is None:
            return
        try:
            examples = await asyncio.to_thread(served.reader.read, self.data, labelled=False, duplicate_ids="rename")
            self._total = len(examples)
            for begin in range(0, len(examples), _AT_ONCE):
                self._found += await _answered(served, batcher, examples[begin : begin + _AT_ONCE])
        except Exception as error:  # the task that runs this would keep it to itself
            what = f"label: the questions cannot be answered ({type(error).__name__}). Fix: check the file and the model"
            self.failure = error if isinstance(error, LaminaError) else LaminaError(what)

    def to_json(self, corrections: Corrections, most: int) -> dict[str, Any]:
        """Return the least certain questions that are not corrected yet, and how many are answered."""
        done = {(one.context, one.question) for one in corrections.all()}
        left = [one for one in self._found if (one.example.context, one.example.question) not in done]
        left.sort(key=lambda one: one.reply.confidence)
        return {
            "data": None if self.data is None else self.data.rpartition("/")[2],
            "total": self._total,
            "answered": len(self._found),
            "left": len(left),
            "questions": [one.to_json() for one in left[:most]],
            "failure": None if self.failure is None else str(self.failure),
        }


async def _answered(served: Served, batcher: Batcher, examples: list[Example]) -> list[Uncertain]:
    items, costs = [], []
    for example in examples:
        found, cost = question_items(served.reader, [example.question], [example.context])
        items += found
        costs += cost
    predictions = await _submitted(batcher, SpanLane(served.reader), items, costs)
    replies = [
        replies_of(served.reader, [example.question], 1, [prediction], threshold=None, top_k=1)[0]
        for example, prediction in zip(examples, predictions, strict=True)
    ]
    return [Uncertain(example, reply) for example, reply in zip(examples, replies, strict=True)]


async def _submitted(batcher: Batcher, lane: SpanLane, items: list[Example], costs: list[int]) -> list[Any]:
    """Return the results of the queue; while it is full, wait and try again."""
    while True:
        try:
            return await batcher.submit(lane, items, costs, _PATIENCE)
        except FullError as error:
            await asyncio.sleep(error.seconds)
