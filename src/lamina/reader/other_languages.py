"""Warnings for texts and questions in another language than the one that a model reads."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Final

from lamina.data.languages import CHARACTERS, language_name, other_language, script_of
from lamina.data.tokenizer import Tokenizer
from lamina.errors import LaminaWarning

MOST: Final = 10  # warnings of one call, or of one search over files
_REMEMBERED: Final = 10_000  # texts; a reader may live long


class OtherLanguages:
    """Warns of texts in another language than that of a model, once about each text. Without a language it does nothing.

    A text in a script that the vocabulary does not cover gets no warning here: cutting it into windows gives one.
    """

    def __init__(self, language: str | None, tokenizer: Tokenizer) -> None:
        self._language, self._tokenizer = language, tokenizer
        self._seen: set[int] = set()

    def warn(self, named: Iterable[tuple[str, str]], *, most: int = MOST) -> int:
        """Warn of each named text that is new and in another language, at most `most` times.

        Args:
            named: Names for the messages, and texts.
            most: The greatest number of warnings. Further texts are counted, not named.

        Returns:
            How many of the texts are in another language.
        """
        if self._language is None:
            return 0
        found = [(name, other) for name, text in named if (other := self._other(text, self._language)) is not None]
        own = language_name(self._language)
        for name, other in found[:most]:
            what = f"{name}: looks like {language_name(other)}, but the model was trained on {own}, so its answers may be wrong"
            warnings.warn(f"{what}. Fix: use a model for that language", LaminaWarning, stacklevel=4)
        if most and len(found) > most:
            more = f"{len(found) - most} more texts look like other languages than {own}"
            warnings.warn(f"{more}. Fix: leave them out, or use another model", LaminaWarning, stacklevel=4)
        return len(found)

    def _other(self, text: str, own: str) -> str | None:
        key = hash(text[:CHARACTERS])
        if key in self._seen:
            return None
        if len(self._seen) == _REMEMBERED:
            self._seen.clear()
        self._seen.add(key)
        other = other_language(text, own)
        if other is None or (written := script_of(text)) == "LATIN" or written in self._tokenizer.scripts:
            return other
        return None
