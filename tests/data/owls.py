"""Two questions on one text, as rows of a table and as the examples that every reader returns for them."""

from __future__ import annotations

from typing import Any

from lamina.data.examples import Answer, Example

CONTEXT = "The barn owl hunts mice. An owl sees at night."
ROWS: list[dict[str, Any]] = [
    {"id": "a", "title": "Owls", "question": "What hunts?", "context": CONTEXT, "answer": "owl", "answer_start": 28},
    {"id": "b", "title": "Owls", "question": "What swims?", "context": CONTEXT, "answer": None, "answer_start": None},
]
EXAMPLES = [
    Example("a", "What hunts?", CONTEXT, (Answer("owl", 28),), "a", "Owls"),
    Example("b", "What swims?", CONTEXT, (), "b", "Owls"),
]
