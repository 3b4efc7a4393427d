"""The type of a question, by its question word. Only English words are known; other languages are "other"."""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final = {word: word for word in ("what", "who", "when", "where", "why", "how", "which")} | {
    "whom": "who",
    "whose": "who",
}
QUESTION_TYPES: Final = (*dict.fromkeys(_WORDS.values()), "other")


def question_type(question: str) -> str:
    """Return the first question word, or "other".

    >>> [question_type(q) for q in ("In which year was it?", "Whose mill is it?", "How many?", "Name it.")]
    ['which', 'who', 'how', 'other']
    """
    words = re.findall("[a-z]+", question.lower())
    return next((_WORDS[word] for word in words if word in _WORDS), "other")
