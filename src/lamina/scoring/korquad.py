"""The scores of KorQuAD 1.0, equal to the official script's on every key: exact match of texts, F1 over their characters.

The official script compares texts without Unicode normalisation. So a prediction with decomposed syllables (NFD, as some
systems store them) matches nothing. `score_composed` compares both sides in NFC, with its own keys.

Departures: a prediction of the wrong type is an error here. So is a question without references, which KorQuAD 1.0 does not
have.
"""

from __future__ import annotations

import math
import string
import unicodedata
import warnings
from collections.abc import Mapping
from typing import Final

from lamina.errors import LaminaWarning
from lamina.scoring.squad import Golds, bag_f1, check_answerable, check_texts, listed

_TO_SPACES: Final = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


def normalize(text: str) -> str:
    """Return the text in lower case, with quotes and brackets as spaces, without other ASCII punctuation and extra spaces.

    >>> normalize("《The  U.S.》(1950년)은")
    'the us 1950년 은'
    """
    return " ".join(text.translate(_TO_SPACES).lower().translate(_PUNCTUATION).split())


def exact(prediction: str, gold: str) -> int:
    """Return 1 if the two normalised texts are equal, else 0."""
    return int(normalize(prediction) == normalize(gold))


def f1(prediction: str, gold: str) -> float:
    """Return the F1 of the two as bags of characters without spaces. An empty prediction scores 0, even for an empty gold.

    >>> f1("서울은", "서울")
    0.8
    """
    predicted, wanted = (list(normalize(text).replace(" ", "")) for text in (prediction, gold))
    return bag_f1(predicted, wanted) if predicted else 0.0


def score_korquad(golds: Golds, predictions: Mapping[str, str]) -> dict[str, float]:
    """Return the official scores in percent, the best over each question's references.

    A missing prediction scores 0, with a warning.
    """
    check_texts(golds, predictions)
    check_answerable(golds, "KorQuAD 1.0")
    absent = [question for question in golds if question not in predictions]
    if absent:
        warnings.warn(f"predictions: {listed(absent, 'missing prediction')}, scored 0", LaminaWarning, stacklevel=2)
    given = {question: predictions[question] for question in golds if question in predictions}
    return {
        "exact_match": _mean([max(exact(text, gold) for gold in golds[question]) for question, text in given.items()], golds),
        "f1": _mean([max(f1(text, gold) for gold in golds[question]) for question, text in given.items()], golds),
    }


def score_composed(golds: Golds, predictions: Mapping[str, str]) -> dict[str, float]:
    """Return the scores with both sides in NFC, with the keys ``nfc_exact_match`` and ``nfc_f1``."""
    check_texts(golds, predictions)
    scores = score_korquad(
        {question: [composed(text) for text in texts] for question, texts in golds.items()},
        {question: composed(text) for question, text in predictions.items() if isinstance(text, str)},
    )
    return {f"nfc_{key}": value for key, value in scores.items()}


def composed(text: str) -> str:
    """Return the text in NFC, where each syllable is one character."""
    return unicodedata.normalize("NFC", text)


def _mean(scores: list[int] | list[float], golds: Golds) -> float:
    return 100.0 * math.fsum(scores) / len(golds)
