"""A warning for texts in scripts that the encoder's vocabulary does not cover."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from lamina.data.tokenizer import Tokenizer, Tokens, script
from lamina.errors import LaminaWarning

FOREIGN_SHARE = 1 / 3  # a text with more unknown or single-letter tokens counts as foreign


def warn_if_foreign(texts: Sequence[str], tokens: Tokens, tokenizer: Tokenizer) -> None:
    """Warn if a text is in a script that the vocabulary does not cover: most tokens are unknown or single letters.

    Single letters of a script that the vocabulary covers do not count: many words of Chinese or Korean have one letter.
    """
    width = tokens.offsets[:, 1] - tokens.offsets[:, 0]
    odd = (width <= 1) & (tokens.ids != tokenizer.unknown)
    single = np.zeros(len(tokens.ids), np.bool_)
    text = np.repeat(np.arange(len(texts)), np.diff(tokens.starts))
    suspects = np.flatnonzero(np.bincount(text[odd], minlength=len(texts)) > FOREIGN_SHARE * np.diff(tokens.starts))
    for index in suspects.tolist():  # few texts, so looking at their letters costs little
        where = np.arange(*tokens.starts[[index, index + 1]])[odd[tokens.text(index)]]
        scripts = [script(texts[index][a : a + 1]) for a in tokens.offsets[where, 0]]
        single[where] = [name != "" and name not in tokenizer.scripts for name in scripts]
    bad = np.bincount(text[single | (tokens.ids == tokenizer.unknown)], minlength=len(texts))
    foreign = np.flatnonzero(bad > FOREIGN_SHARE * np.diff(tokens.starts))
    if len(foreign):
        warnings.warn(
            f"{len(foreign)} of {len(texts)} texts are mostly outside the encoder's vocabulary: more than a third of their "
            f"tokens are unknown or single letters. The first starts with {texts[foreign[0]][:40]!r}. Results on them will be "
            "poor. Fix: choose an encoder of that language with encoder.model",
            LaminaWarning,
            stacklevel=3,
        )
